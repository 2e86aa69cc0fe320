"""A job's options for the scheduler, and binding them to nodes."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.codec import decode, encode
from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Node
from argosy.contracts.option import Option
from argosy.plan.bind_option import bind_option
from argosy.plan.offering import Offering
from argosy.plan.options import options_for
from argosy.plan.timing.check import check_plan

pytestmark = pytest.mark.slow
MIXED = "north/fast + south/slow"


def nodes(count: int, chip_class: str = "north/fast", chips: int = 2, **more: Any) -> list[Node]:
    """Build like nodes of one class."""
    site = chip_class.split("/")[0]
    fields = {"site": site, "chip_class": chip_class, "chips": chips, **more}
    return [Node(name=f"{site}-{i + 1}", **fields) for i in range(count)]


@pytest.fixture(scope="module")
def classes(build: Any) -> list[Any]:
    """Two classes in two sites, with few nodes of two chips."""
    return [
        build.chip_class(name, tflops=tflops, nodes=count)
        for name, tflops, count in (("north/fast", 0.02, 4), ("south/slow", 0.01, 1))
    ]


@pytest.fixture(scope="module")
def offering(build: Any, classes: list[Any]) -> Offering:
    """Offer the tiny model those classes."""
    job = build.job(global_batch_size=16)
    return options_for(job, build.shape(), classes, [build.link(gbps=1000)], job_id="job-17", valid_until_us=5)


class TestOptions:
    def test_what_is_offered(self, offering: Offering) -> None:
        """Each class alone and both together are options of the job, with its id and their validity."""
        assert {option.name for option in offering.options} == {"north/fast", "south/slow", MIXED}
        assert {(option.job, option.valid_until_us) for option in offering.options} == {("job-17", 5)}

    def test_ladders(self, offering: Offering) -> None:
        """Sizes are whole nodes, largest first; more nodes are always faster."""
        for option in offering.options:
            speeds = [size.tokens_per_second for size in option.ladder]
            counts = [sum(part.nodes for part in size.parts) for size in option.ladder]
            assert counts == sorted(counts, reverse=True)
            assert option.name == MIXED or speeds == sorted(speeds, reverse=True)
            assert all(size.efficiency > 0 and size.emulated for size in option.ladder)

    def test_levels(self, offering: Offering) -> None:
        """A single node is asked for as such; more must lie in the site that was planned for."""
        levels = {
            (sum(part.nodes for part in size.parts) == 1, part.topology)
            for option in offering.options
            for size in option.ladder
            for part in size.parts
        }
        assert levels == {(True, "node"), (False, "site")}

    def test_the_scheduler_sees_no_plan(self, offering: Offering) -> None:
        """Options are small and speak of nodes alone; the whole offering survives a trip through JSON."""
        text = encode(offering.options).decode()
        assert not any(word in text for word in ("stage", "tp", "microbatch"))
        assert decode(encode(offering), Offering) == offering

    def test_old_options_are_read(self) -> None:
        """An option that was logged before sizes told their power is still read."""
        old = '{"name":"a","job":"j","ladder":[{"parts":[],"tokens_per_second":1.0,"efficiency":1.0}]}'
        assert decode(old, Option).ladder[0].power_kw is None


def granted(offering: Offering, option: str, size: int) -> list[Node]:
    """Build the nodes that a size asks for."""
    ladder = next(each.ladder for each in offering.options if each.name == option)
    return [node for part in ladder[size].parts for node in nodes(part.nodes, part.chip_class)]


class TestBind:
    def test_every_size(self, offering: Offering) -> None:
        """Every size of every option becomes a plan that is sound and uses the nodes given, and no others."""
        for option in offering.options:
            for size in range(len(option.ladder)):
                given = granted(offering, option.name, size)
                plan = bind_option(offering, option.name, size, given)
                check_plan(plan)
                assert {place.node for place in plan.placement} == {node.name for node in given}
                told = plan.prediction
                assert told is not None
                assert told.tokens_per_second == option.ladder[size].tokens_per_second

    def test_neighbours_are_near(self, offering: Offering) -> None:
        """Nodes are used spine by spine and rack by rack, whatever the order they are given in."""
        given = [replace(node, rack=rack) for node, rack in zip(nodes(4), (2, 1, 2, 1), strict=True)]
        plan = bind_option(offering, "north/fast", 0, given)
        assert list(dict.fromkeys(place.node for place in plan.placement)) == [
            "north-2",
            "north-4",
            "north-1",
            "north-3",
        ]

    @pytest.mark.parametrize(
        ("option", "size", "given", "text"),
        [
            ("north/fats", 0, nodes(4), "no option 'north/fats'; did you mean 'north/fast'"),
            ("north/fast", 9, nodes(4), "has sizes 0 to"),
            ("north/fast", 0, nodes(3), "3 nodes of north/fast are given; this size asks for nodes: 4 of north/fast"),
            ("north/fast", 0, nodes(5), "5 nodes of north/fast are given"),
            ("north/fast", 0, nodes(4, chips=1), "node north-1 has 1 chips; a node of north/fast has 2"),
            ("north/fast", 0, nodes(4, "south/slow"), "node south-1 is of class south/slow; this size asks"),
            ("north/fast", 0, nodes(4, site="south"), "node north-1 is in south; nodes of north/fast are in north"),
            ("north/fast", 0, [*nodes(2), *nodes(2)], "node north-1 is given more than once"),
        ],
    )
    def test_wrong_nodes(self, offering: Offering, option: str, size: int, given: list[Node], text: str) -> None:
        """Nodes that are not what the size asks for are refused by name."""
        with pytest.raises(BadInputError, match=text):
            bind_option(offering, option, size, given)
