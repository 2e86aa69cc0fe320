"""What layouts could do at best, estimated before any layer is cut."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argosy.plan.costs.tables import gradient_sums
from argosy.plan.pipelines.exposed import ring_factors
from argosy.plan.pipelines.grid import Family, Freedom, Part
from argosy.plan.pipelines.likely import Grid, make_grid
from argosy.plan.pipelines.paced import choose

FREEDOM = Freedom(sizes=(1, 2), recomputes=("none", "full"), runnable=False)
BATCH = 16


@pytest.fixture(scope="module")
def setting(build: Any) -> Any:
    """Give the tiny model's setting."""
    return build.setting("tiny")


@pytest.fixture(scope="module")
def grid(build: Any, setting: Any) -> Grid:
    """List the layouts of six nodes of one class."""
    return make_grid(setting, [Part(chip_class=build.chip_class("north/a", 0.001, nodes=6), chips=12)], FREEDOM)


class TestGrid:
    def test_layouts(self, grid: Grid) -> None:
        """Columns and layouts tell the same."""
        assert len(grid) > 10
        for index in range(len(grid)):
            layout = grid.layout(index)
            assert (layout.depth, layout.count) == (grid.depth[index], grid.count[index])
            assert layout.count * sum(layout.chips.values()) <= 12

    def test_mixed(self, build: Any, setting: Any) -> None:
        """Pipelines through two classes come in both orders, places with their class."""
        one, other = build.chip_class("north/a", 0.001, nodes=1), build.chip_class("north/b", 0.002, nodes=2)
        block = [Part(chip_class=one, chips=2), Part(chip_class=other, chips=4)]
        found = make_grid(setting, block, FREEDOM)
        orders = {tuple(run.chip_class.name for run in found.layout(i).runs) for i in range(len(found))}
        assert orders == {("north/a", "north/b"), ("north/b", "north/a")}
        for index in range(len(found)):
            layout = found.layout(index)
            assert all(layout.chips[part.chip_class.name] * layout.count <= part.chips for part in block)

    def test_rings(self, grid: Grid, setting: Any) -> None:
        """Gradients' way round is that of one layout by itself."""
        dense, experts = (float(sums[-1]) for sums in gradient_sums(setting))
        for index in range(len(grid)):
            layout = grid.layout(index)
            factors = ring_factors(setting, layout, layout.runs[0], ())
            assert grid.ring_ms[index] == pytest.approx(factors[0] * dense + factors[1] * experts)


class TestLikely:
    @pytest.mark.parametrize("family", [Family(), Family(schedule="zero-bubble"), Family(zero_stage=1)])
    def test_hardly_too_slow(self, grid: Grid, setting: Any, family: Family) -> None:
        """A layout that is cut does no more than was estimated, but for ends and roundings."""
        rates, _ = grid.likely(family, BATCH)
        for index in np.flatnonzero(rates):
            layout = replace(grid.layout(int(index)), schedule=family.schedule, microbatches=int(grid.depth[index]))
            choice = choose(setting, layout, ())
            if choice is not None:
                assert choice.rate <= rates[index] * 1.02

    def test_whole_layers(self, grid: Grid) -> None:
        """The slowest of three places has two of four layers."""
        index = int(np.flatnonzero(grid.depth == 3)[0])
        assert grid.pace_ms(np.ones(len(grid)))[index] == pytest.approx(2 * grid.layer_ms[index, 0], rel=1e-3)

    def test_what_a_family_can_have(self, grid: Grid) -> None:
        """ZeRO-2 takes no pipelines; interleaved takes stages of whole layers and rounds that go into the batch."""
        assert set(grid.depth[grid.able(Family(zero_stage=2), BATCH)]) == {1.0}
        able = grid.able(Family(schedule="interleaved", virtual_stages=2), BATCH)
        assert set(grid.depth[able]) == {2.0}
        assert not grid.able(Family(schedule="interleaved", virtual_stages=2), 15).any()
