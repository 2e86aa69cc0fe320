"""Reading and writing fleet.yaml."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.codec import decode, encode
from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Emulation, Fleet, LongLink, Nics, NodeGroup, Site
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.fleet_file import load_fleet, read_fleet, write_fleet

CATALOGUE = load_catalogue()
EXAMPLE = Path(__file__).parents[2] / "examples/fleets/twin-campus.yaml"
SITES = "sites:\n  north: {power_mw: 12, location: [39.99, 116.31]}\n  south: {location: [39.73, 116.49]}\n"
LINK = "long_links:\n  - {between: [north, south], km: 50, gbps: 1600, waves: 4}\n"
NODES = "nodes:\n  - {site: north, chip: h800-sxm, chips_per_node: 8, count: 64, nics: 8x400G, rack: 4, spine: 32}\n"


def text_of(sites: str = SITES, links: str = LINK, nodes: str = NODES) -> str:
    """Write a small sound fleet, parts of it replaced."""
    return f"fleet: twin\n{sites}{links}{nodes}"


def read(text: str) -> Fleet:
    """Read text as fleet.yaml."""
    return read_fleet(text, "fleet.yaml", CATALOGUE)


def wrong(text: str) -> list[str]:
    """Read text that is wrong, and return the lines of what it says."""
    with pytest.raises(BadInputError) as caught:
        read(text)
    return str(caught.value).splitlines()


class TestReadFleet:
    def test_reads_the_example(self) -> None:
        """The example that the documentation shows is sound and means what it says."""
        fleet = load_fleet(EXAMPLE, CATALOGUE)
        assert (fleet.name, fleet.chips) == ("twin-campus", 1280)
        assert fleet.long_links == (LongLink(between=("north", "south"), km=50, gbps=1600, waves=4),)
        assert fleet.nodes[1].nics == Nics(count=8, gbps=200)

    def test_reads_emulation(self) -> None:
        """An emulated group needs no network cards."""
        nodes = (
            "nodes:\n  - {site: north, chip: h20, chips_per_node: 2, count: 3, emulate: {tflops: 2.0, memory_gb: 1}}\n"
        )
        assert read(text_of(nodes=nodes)).nodes[0].emulate == Emulation(tflops=2.0, memory_gb=1.0)

    def test_a_lone_node_needs_no_cards(self) -> None:
        """One node that has no other to talk to may leave its cards out."""
        fleet = read("fleet: one\nsites: {here: }\nnodes:\n  - {site: here, chip: cpu, chips_per_node: 2, count: 1}\n")
        assert fleet.sites == (Site(name="here"),)

    def test_survives_json(self) -> None:
        """A fleet written as JSON reads back equal."""
        fleet = read(text_of())
        assert decode(encode(fleet), Fleet) == fleet


class TestMistakes:
    @pytest.mark.parametrize(
        ("before", "after", "said"),
        [
            ("h800-sxm", "h800", 'fleet.yaml:8:19  nodes[0].chip: no chip "h800" in the catalogue; nearest: h800-sxm'),
            ("site: north", "site: nort", 'nodes[0].site: no site "nort"; did you mean north?'),
            ("site: north", "site: east", "sites are north, south"),
            ("count: 64", "count: 0", "nodes[0].count: must be 1 or more, got 0"),
            ("count: 64", "count: -4", "nodes[0].count: must be 1 or more, got -4"),
            ("count: 64", "count: 1.5", "nodes[0].count: must be a whole number"),
            ("nics: 8x400G, ", "", "nodes[0].nics: missing; without network cards a node can't reach the other 63"),
            ("8x400G", "8x400GB", "nodes[0].nics"),
            ("spine: 32", "spine: 30", "nodes[0].spine: got 30; nodes under a spine must be a multiple of rack"),
            ("chips_per_node", "gpus_per_node", "unknown key; did you mean chips_per_node?"),
            ("km: 50", "km: 50000", "long_links[0].km: must be 20000"),
            ("km: 50", "km: 0", "long_links[0].km: must be more than 0"),
            ("km: 50", "km: 20", "long_links[0].km: got 20, but the sites' locations are 33 km apart"),
            ("gbps: 1600", "gbps: -1", "long_links[0].gbps"),
            ("waves: 4", "waves: 0", "long_links[0].waves: must be 1 or more"),
            ("[north, south]", "[north, north]", "long_links[0].between: joins north to itself"),
            ("[north, south]", "[north, sout]", 'long_links[0].between: no site "sout"; did you mean south?'),
            ("[north, south]", "[north]", "long_links[0].between"),
            ("power_mw: 12", "power_mw: -12", "sites.north.power_mw: must be more than 0"),
            ("[39.99, 116.31]", "[139.99, 116.31]", "sites.north.location[0]: must be 90"),
            ("  south:", "  north:", "sites.north: written twice"),
            ("  south:", "  so/uth:", 'sites.so/uth: a site can\'t be named "so/uth"'),
            ("fleet: twin\n", "", "fleet: missing"),
            ("fleet: twin\n", "fleet: twin\nname: x\n", "name: unknown key; did you mean fleet?"),
        ],
    )
    def test_names_place_key_and_cure(self, before: str, after: str, said: str) -> None:
        """Every mistake is told with file and line, key, value and what is allowed."""
        lines = wrong(text_of().replace(before, after, 1))
        assert any(line.startswith("fleet.yaml:") or "fleet: missing" in line for line in lines)
        assert any(said in line for line in lines)

    def test_link_named_twice(self) -> None:
        """Two links between the same sites are one link written twice."""
        lines = wrong(text_of(links=LINK + "  - {between: [south, north], km: 60, gbps: 400}\n"))
        assert "long_links[1].between: long_links[0] joins the same sites" in lines[0]

    @pytest.mark.parametrize("emulate", ["{tflops: 0, memory_gb: 1}", "{tflops: 2}", "{tflops: 2, memory_gb: -1}"])
    def test_emulation_must_be_possible(self, emulate: str) -> None:
        """An emulated chip has a positive peak and a positive memory."""
        nodes = f"nodes:\n  - {{site: north, chip: h20, chips_per_node: 1, count: 1, emulate: {emulate}}}\n"
        assert "nodes[0].emulate" in wrong(text_of(nodes=nodes))[0]

    def test_several_at_once(self) -> None:
        """All mistakes of a file are told together, each on its line."""
        text = (
            text_of().replace("h800-sxm", "nothing").replace("site: north", "site: up").replace("spine: 32", "spine: 5")
        )
        assert len(wrong(text)) == 3

    @pytest.mark.parametrize(
        "text", ["", "fleet: x\nsites: {}\nnodes: []\n", "- a\n", "fleet: x\nsites: {a: }\nnodes: []\n"]
    )
    def test_empty_parts(self, text: str) -> None:
        """A fleet without sites or nodes is no fleet."""
        assert wrong(text)

    def test_missing_file(self, tmp_path: Path) -> None:
        """A file that isn't there names the command that writes one."""
        with pytest.raises(BadInputError, match="no such fleet file; `argosy fleet detect`"):
            load_fleet(tmp_path / "fleet.yaml", CATALOGUE)

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        """A folder in place of a file is a clear error."""
        with pytest.raises(BadInputError, match="can't read this fleet file"):
            load_fleet(tmp_path, CATALOGUE)

    @settings(max_examples=60, derandomize=True, deadline=None)
    @given(st.text(alphabet=st.sampled_from(list("abfleet:sinod{}[],- \n0123.'\"&*!#|")), max_size=80))
    def test_noise_never_crashes(self, noise: str) -> None:
        """Whatever stands in the file, the answer is a fleet or a clear error."""
        for text in (noise, text_of() + noise):
            with contextlib.suppress(BadInputError):
                assert read(text).name


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,8}", fullmatch=True)
POSITIVE = st.floats(0.001, 1e4)
COUNTS = st.integers(1, 10_000)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Draw a sound fleet."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    sites = [Site(name=name, power_mw=draw(st.none() | POSITIVE)) for name in names]
    pairs = [(one, other) for index, one in enumerate(names) for other in names[index + 1 :]]
    links = [LongLink(between=pair, km=draw(POSITIVE), gbps=draw(POSITIVE), waves=draw(COUNTS)) for pair in pairs]
    rack = draw(st.none() | st.integers(1, 100))
    groups = [
        NodeGroup(
            site=draw(st.sampled_from(names)),
            chip=draw(st.sampled_from(CATALOGUE.names())),
            chips_per_node=draw(COUNTS),
            count=draw(COUNTS),
            nics=Nics(count=draw(st.integers(1, 64)), gbps=float(draw(COUNTS))),
            rack=rack,
            spine=rack * 3 if rack else None,
            emulate=draw(st.none() | st.builds(Emulation, tflops=POSITIVE, memory_gb=POSITIVE)),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    return Fleet(
        name=draw(st.text("ab: #-'\"\\{}é", min_size=1)),
        sites=tuple(sites),
        nodes=tuple(groups),
        long_links=tuple(links),
    )


class TestWriteFleet:
    @settings(max_examples=30, derandomize=True, deadline=None)
    @given(fleets())
    def test_reads_back_equal(self, fleet: Fleet) -> None:
        """What write_fleet writes, read_fleet reads back, whatever the names."""
        assert read(write_fleet(fleet)) == fleet
