"""Sites in a line, of which not every two have a long link."""

import itertools
from typing import Any

from argosy.contracts.fleet import LongLink
from argosy.contracts.plan import Plan
from argosy.plan.planner import plan_job

LINE = (("east", "mid"), ("mid", "west"))


def planned(build: Any, sites: tuple[str, ...], batch: int = 48) -> Plan:
    """Plan a tiny model on one node in each of some sites, whose links are fast."""
    classes = [build.chip_class(f"{site}/fast", tflops=0.01, nodes=1) for site in sites]
    links = [LongLink(between=pair, km=20.0, gbps=100.0) for pair in LINE]
    return plan_job(build.job(global_batch_size=batch), build.shape(), classes, links)[0]


class TestLine:
    def test_all_three_sites_train(self, build: Any) -> None:
        """Three sites in a line train together, faster than any two, though the outer two have no link of their own."""
        three = planned(build, ("east", "mid", "west"))
        used = {stage.chip_class for replica in three.replicas for stage in replica.stages}
        assert used == {"east/fast", "mid/fast", "west/fast"}
        two = planned(build, ("east", "mid"))
        assert three.prediction is not None
        assert two.prediction is not None
        assert three.prediction.step_ms < two.prediction.step_ms

    def test_the_outer_two_alone(self, build: Any) -> None:
        """The outer two train together through the site between them."""
        plan = planned(build, ("east", "west"))
        assert {wire.name for wire in plan.wires if wire.long_link} == {"east-mid 25G 0.2ms"}

    def test_pipelines_stay_on_links(self, build: Any) -> None:
        """No boundary of a pipeline joins two sites that have no link of their own."""
        plan = planned(build, ("east", "mid", "west"))
        for replica in plan.replicas:
            sites = [stage.chip_class.split("/")[0] for stage in replica.stages]
            for pair in itertools.pairwise(sites):
                assert len(set(pair)) == 1 or tuple(sorted(pair)) in LINE
