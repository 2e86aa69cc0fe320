"""Chip classes and nodes of a fleet."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Emulation, Fleet, Nics, NodeGroup, Site
from argosy.fleet.catalogue import DTYPES, load_catalogue
from argosy.fleet.classes import EMULATED_NIC_GBPS, chip_classes, emulated_chip, fleet_nodes, training_peak

CATALOGUE = load_catalogue()
CARDS = Nics(count=8, gbps=400)


def group(
    site: str = "north",
    chip: str = "h800-sxm",
    chips_per_node: int = 8,
    count: int = 4,
    nics: Nics | None = CARDS,
    rack: int | None = None,
    spine: int | None = None,
    emulate: Emulation | None = None,
) -> NodeGroup:
    """Make a node group, four H800 nodes unless told otherwise."""
    return NodeGroup(
        site=site,
        chip=chip,
        chips_per_node=chips_per_node,
        count=count,
        nics=nics,
        rack=rack,
        spine=spine,
        emulate=emulate,
    )


def fleet(*groups: NodeGroup) -> Fleet:
    """Make a fleet of two sites."""
    return Fleet(name="f", sites=(Site(name="north"), Site(name="south")), nodes=groups)


class TestChipClasses:
    def test_one_class_a_kind_and_site(self) -> None:
        """Each chip kind of each site is a class, in the file's order."""
        classes = chip_classes(fleet(group(site="south"), group(), group(chip="h20")), CATALOGUE)
        assert [item.name for item in classes] == ["south/h800-sxm", "north/h800-sxm", "north/h20"]
        assert classes[0].chip is CATALOGUE.chip("h800-sxm")
        assert (classes[0].nodes, classes[0].chips, classes[0].nic_gbps, classes[0].emulated) == (4, 32, 3200, False)

    def test_like_groups_merge(self) -> None:
        """Groups that differ in rack alone are one class."""
        (only,) = chip_classes(fleet(group(rack=2), group(rack=4, count=6)), CATALOGUE)
        assert (only.name, only.nodes) == ("north/h800-sxm", 10)

    def test_shapes_are_told_apart(self) -> None:
        """The same chip in nodes of several shapes makes several classes, named by what differs."""
        slow = Nics(count=1, gbps=100)
        played = Emulation(tflops=2, memory_gb=1)
        groups = (group(), group(chips_per_node=4), group(nics=slow), group(emulate=played))
        names = [item.name for item in chip_classes(fleet(*groups), CATALOGUE)]
        base = "north/h800-sxm"
        assert names == [f"{base}/8x/3200G/real", f"{base}/4x", f"{base}/8x/100G", f"{base}/8x/3200G/2tflops-1gb"]

    def test_emulation_is_applied(self) -> None:
        """An emulated class's chip has the emulated peak for every dtype and the emulated memory; it keeps the rest."""
        emulate = Emulation(tflops=2.0, memory_gb=1.0)
        (item,) = chip_classes(fleet(group(nics=None, emulate=emulate)), CATALOGUE)
        assert item.emulated
        assert item.chip.tflops == dict.fromkeys(DTYPES, 2.0)
        assert (item.chip.memory_gb, item.chip.name, item.nic_gbps) == (1.0, "h800-sxm", EMULATED_NIC_GBPS)
        assert item.chip.memory_gbytes_s == CATALOGUE.chip("h800-sxm").memory_gbytes_s
        assert CATALOGUE.chip("h800-sxm").tflops["bf16"] == 989.4

    def test_emulated_figures_say_so(self) -> None:
        """The source of an emulated figure is the fleet file, not the chip's data sheet."""
        chip = emulated_chip(CATALOGUE.chip("h20"), Emulation(tflops=1, memory_gb=1))
        assert chip.sources["tflops.bf16"] == chip.sources["memory_gb"] == "emulate in the fleet file"

    def test_a_lone_node_without_cards_has_no_network(self) -> None:
        """A node without cards that isn't emulated sends nothing."""
        assert chip_classes(fleet(group(count=1, nics=None)), CATALOGUE)[0].nic_gbps == 0

    def test_unknown_figures_do_not_stop_it(self) -> None:
        """A chip with hardly a figure makes a class all the same."""
        assert chip_classes(fleet(group(chip="iluvatar-bi-v150")), CATALOGUE)[0].chip.tflops == {}

    def test_unknown_chip(self) -> None:
        """A chip that the catalogue doesn't know is named with the nearest."""
        with pytest.raises(BadInputError, match="nearest: h800-sxm"):
            chip_classes(fleet(group(chip="h800")), CATALOGUE)


class TestFleetNodes:
    def test_counts_within_the_site(self) -> None:
        """Nodes are named by site and number in the file's order, across groups."""
        nodes = fleet_nodes(fleet(group(count=2), group(site="south", count=1), group(chip="h20", count=2)))
        assert [node.name for node in nodes] == ["north-1", "north-2", "south-1", "north-3", "north-4"]
        assert nodes[3].chip_class == "north/h20"

    def test_racks_and_spines(self) -> None:
        """Racks and spines count from 1 within the site, and a group begins new ones."""
        nodes = fleet_nodes(fleet(group(count=5, rack=2, spine=4), group(count=2, rack=2)))
        assert [node.rack for node in nodes] == [1, 1, 2, 2, 3, 4, 4]
        assert [node.spine for node in nodes] == [1, 1, 1, 1, 2, None, None]

    @settings(max_examples=50, derandomize=True, deadline=None)
    @given(
        st.lists(
            st.builds(
                group,
                site=st.sampled_from(["north", "south"]),
                chip=st.sampled_from(["h20", "h800-sxm"]),
                chips_per_node=st.sampled_from([4, 8]),
                count=st.integers(1, 9),
                nics=st.sampled_from([CARDS, Nics(count=1, gbps=100)]),
                rack=st.none() | st.integers(1, 4),
                emulate=st.none() | st.builds(Emulation, tflops=st.sampled_from([1.0, 2.0]), memory_gb=st.just(1.0)),
            ),
            min_size=1,
            max_size=6,
        )
    )
    def test_nodes_and_classes_agree(self, groups: list[NodeGroup]) -> None:
        """Class names are unique, each class has as many nodes as nodes name it, and node names are unique."""
        drawn = fleet(*groups)
        classes, nodes = chip_classes(drawn, CATALOGUE), fleet_nodes(drawn)
        counts = {item.name: sum(node.chip_class == item.name for node in nodes) for item in classes}
        assert counts == {item.name: item.nodes for item in classes}
        assert len(counts) == len(classes)
        assert len({node.name for node in nodes}) == len(nodes) == sum(one.count for one in groups)
        assert sum(item.chips for item in classes) == drawn.chips


class TestTrainingPeak:
    @pytest.mark.parametrize(
        ("chip", "peak"),
        [("h800-sxm", ("bf16", 989.4)), ("v100-sxm-16gb", ("fp16", 125.0)), ("hygon-z100", None)],
    )
    def test_prefers_bf16(self, chip: str, peak: tuple[str, float] | None) -> None:
        """The peak is that of bf16, else fp16, else fp32, else unknown."""
        assert training_peak(CATALOGUE.chip(chip)) == peak
