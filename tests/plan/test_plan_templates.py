"""Templates: layers cut, stages timed, wires found."""

from typing import Any

import pytest

from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.pipelines.places import needed_gb
from argosy.plan.pipelines.stages import stages_of
from argosy.plan.pipelines.templates import make_template, rhythm


def layout(*runs: Any, **more: Any) -> Layout:
    """Build a layout with one sequence a micro-batch."""
    fields = {"schedule": "1f1b", "microbatches": 8}
    placed = tuple(Run(chip_class=chip_class, places=places) for chip_class, places in runs)
    return Layout(runs=placed, **{**fields, **more})


class TestTemplate:
    def test_shares(self, build: Any) -> None:
        """Every stage's shares sum to one, one for each unit, and the stages cover the layers."""
        setting = build.setting()
        template = make_template(setting, layout((build.chip_class(), 3)), ())
        assert template is not None
        stages = stages_of(setting, template)
        assert [len(stage.backward_shares) for stage in stages] == [
            stage.end_layer - stage.first_layer + (s != 1) for s, stage in enumerate(stages)
        ]
        assert all(sum(stage.backward_shares) == pytest.approx(1) for stage in stages)
        assert [stage.end_layer for stage in stages[:-1]] == [s.first_layer for s in stages[1:]]

    def test_mixed_speeds(self, build: Any) -> None:
        """In a pipeline through two classes the faster one holds more layers."""
        fast, slow = build.chip_class(tflops=0.003), build.chip_class("north/slow", tflops=0.001)
        template = make_template(build.setting("demo"), layout((slow, 1), (fast, 1)), ())
        assert template is not None
        slower, faster = (end - start for start, end in zip(template.cut.starts, template.cut.ends, strict=True))
        assert faster > 2 * slower

    def test_does_not_fit(self, build: Any) -> None:
        """A layout that no cut makes fit has no template; what it needs is said all the same."""
        small = layout((build.chip_class(memory_gb=0.001), 1))
        assert make_template(build.setting(), small, ()) is None
        assert needed_gb(build.setting(), small) > 0.001

    def test_memory_falls_towards_the_end(self, build: Any) -> None:
        """Under 1F1B earlier stages hold more micro-batches; under GPipe all hold as many."""
        setting = build.setting("demo", sequence_length=512)
        held = [
            layout((build.chip_class(), 3), schedule=schedule).held for schedule in ("1f1b", "gpipe", "zero-bubble")
        ]
        assert held == [(3, 2, 1), (8, 8, 8), (3, 3, 3)]
        assert needed_gb(setting, layout((build.chip_class(), 3))) < needed_gb(
            setting, layout((build.chip_class(), 3), schedule="gpipe")
        )

    def test_across_sites(self, build: Any) -> None:
        """A pipeline across sites sends over a share of the long link."""
        runs = ((build.chip_class(), 1), (build.chip_class("south/slow"), 1))
        template = make_template(build.setting(), layout(*runs, count=2), [build.link(gbps=10)])
        assert template is not None
        assert [(wire.gbps, wire.long_link) for wire in template.wires] == [(5, True)]

    def test_crossing_twice(self, build: Any) -> None:
        """A pipeline that crosses the same link twice gives each crossing half of its share."""
        north, south = build.chip_class(), build.chip_class("south/slow")
        there_and_back = ((north, 1), (south, 1), (build.chip_class("north/other"), 1))
        template = make_template(build.setting(), layout(*there_and_back, count=2), [build.link(gbps=10)])
        assert template is not None
        assert [(wire.gbps, wire.long_link) for wire in template.wires] == [(2.5, True), (2.5, True)]


class TestPace:
    def test_delay_stalls_1f1b_only(self, build: Any) -> None:
        """A long delay between stages slows 1F1B's pace, not GPipe's."""
        times = [(1.0, 1.0), (2.0, 2.0), (1.0, 1.0)]
        slow = [
            rhythm(layout((build.chip_class(), 2), schedule=schedule), times, [0.0], [100.0])[0]
            for schedule in ("1f1b", "gpipe")
        ]
        assert slow[0] > 100 > slow[1]
