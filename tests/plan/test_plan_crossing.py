"""What sums of gradients over long links add to a step at least."""

from typing import Any

import pytest

from argosy.contracts.fleet import LongLink
from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.pipelines.templates import Template, make_template
from argosy.plan.search.crossing import crossing_ms, sites_of, sum_ms, whole_crossing_ms

SLOW = 1e-6


def template(build: Any, *sites: str) -> Template:
    """Make a pipeline with a place in each of these sites."""
    links = (build.link(gbps=SLOW),)
    runs = tuple(Run(chip_class=build.chip_class(f"{site}/chip"), places=1) for site in sites)
    made = make_template(build.setting(), Layout(runs=runs, microbatches=4), links)
    assert made is not None
    return made


def link(build: Any, gbps: float = SLOW) -> tuple[LongLink, ...]:
    """Make the link between north and south."""
    return (build.link(gbps=gbps),)


class TestSumMs:
    def test_one_site(self, build: Any) -> None:
        """What one site holds alone crosses nothing."""
        assert sum_ms(frozenset({"north"}), 1e9, link(build)) == 0.0

    def test_two_sites(self, build: Any) -> None:
        """Of two sites each sends its sum once: bytes x 8 / rate."""
        assert sum_ms(frozenset({"north", "south"}), 1e9, link(build, 8.0)) == pytest.approx(1000.0)


class TestSitesOf:
    def test_each_layer(self, build: Any) -> None:
        """Each layer is in the site of the place that its stage runs on."""
        made = template(build, "north", "south")
        first = made.cut.ends[0]
        assert sites_of(made) == ["north"] * first + ["south"] * (made.cut.ends[1] - first)


class TestCrossingMs:
    def test_one_site(self, build: Any) -> None:
        """Pipelines of one site cross nothing."""
        assert crossing_ms(build.setting(), [template(build, "north")] * 2, link(build)) == 0.0

    def test_like_pipelines(self, build: Any) -> None:
        """Pipelines that hold each layer in the same site cross nothing."""
        assert crossing_ms(build.setting(), [template(build, "north", "south")] * 2, link(build)) == 0.0

    def test_whole_but_for_backward(self, build: Any) -> None:
        """Pipelines that are whole in two sites sum all layers across, but for what the longest backward hides."""
        apart = [template(build, "north"), template(build, "south")]
        hidden_ms = max(sum(one.backward_ms) for one in apart)
        whole_ms = whole_crossing_ms(build.setting(), ["north", "south"], link(build))
        assert crossing_ms(build.setting(), apart, link(build)) == pytest.approx(whole_ms - hidden_ms)

    def test_less_where_layers_lie_alike(self, build: Any) -> None:
        """A pipeline through both sites shares its layers of one site with those that are whole there."""
        whole, split = template(build, "north"), template(build, "north", "south")
        every = [whole, template(build, "south")]
        assert (
            0
            < crossing_ms(build.setting(), [whole, split], link(build))
            < crossing_ms(build.setting(), every, link(build))
        )
