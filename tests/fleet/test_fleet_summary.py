"""A fleet at a glance."""

import pytest

from argosy.contracts.fleet import Emulation, Fleet, LongLink, Nics, NodeGroup, Site
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.summary import FleetSummary, summarize

CATALOGUE = load_catalogue()


def summary(chip: str = "h800-sxm", count: int = 64, power_mw: float | None = 12, links: bool = True) -> FleetSummary:
    """Sum up a fleet of two sites, the second with H20 nodes."""
    nodes = tuple(
        NodeGroup(site=site, chip=kind, chips_per_node=8, count=number, nics=Nics(count=8, gbps=400))
        for site, kind, number in (("north", chip, count), ("south", "h20", 2))
    )
    link = LongLink(between=("north", "south"), km=50, gbps=1600)
    sites = (Site(name="north", power_mw=power_mw), Site(name="south"))
    return summarize(Fleet(name="f", sites=sites, nodes=nodes, long_links=(link,) if links else ()), CATALOGUE)


class TestSites:
    def test_adds_up(self) -> None:
        """A site's chips, peak, memory and power are those of its classes."""
        north = summary().sites[0]
        assert (north.nodes, north.chips) == (64, 512)
        assert north.peak_tflops == pytest.approx(512 * 989.4)
        assert north.memory_gb == 512 * 80
        assert north.chips_mw == pytest.approx(0.3584)

    def test_unknown_stays_unknown(self) -> None:
        """One chip without a figure makes its site's total unknown, not smaller."""
        north = summary(chip="iluvatar-bi-v150").sites[0]
        assert north.peak_tflops is None
        assert summary(chip="kunlun-p800").sites[0].chips_mw is None

    def test_emulated_sites_say_so(self) -> None:
        """A site with an emulated group is marked."""
        played = Emulation(tflops=2, memory_gb=1)
        group = NodeGroup(site="a", chip="h20", chips_per_node=1, count=1, emulate=played)
        found = summarize(Fleet(name="f", sites=(Site(name="a"),), nodes=(group,)), CATALOGUE)
        assert (found.sites[0].emulated, found.sites[0].peak_tflops) == (True, 2)


class TestLinks:
    def test_delay_and_bytes_in_flight(self) -> None:
        """50 km take 0.25 ms one way; at 1,600 Gb/s 100 MB are in flight over the round trip."""
        link = summary().long_links[0]
        assert (link.one_way_ms, link.round_trip_ms, link.bdp_mb) == pytest.approx((0.25, 0.5, 100))


class TestWarnings:
    def test_nothing_to_warn_of(self) -> None:
        """A sound fleet has no warnings."""
        assert summary().warnings == ()

    def test_over_the_power_cap(self) -> None:
        """Chips that alone draw more than their site's cap are named."""
        assert summary(power_mw=0.3).warnings == ("north: its chips alone draw 0.36 MW, its cap is 0.3 MW",)

    def test_sites_apart(self) -> None:
        """Sites that no long link reaches are named."""
        assert [text.split(":")[0] for text in summary(links=False).warnings] == ["north", "south"]

    def test_site_without_nodes(self) -> None:
        """A site that owns nothing is named."""
        group = NodeGroup(site="a", chip="h20", chips_per_node=1, count=1)
        found = summarize(Fleet(name="f", sites=(Site(name="a"), Site(name="b")), nodes=(group,)), CATALOGUE)
        assert "b: has no nodes" in found.warnings

    def test_chips_that_cannot_be_planned_on(self) -> None:
        """A chip without a peak is named, with the cure."""
        (warning,) = summary(chip="metax-c550").warnings
        assert "states no TFLOPS of bf16, fp16 or fp32 of metax-c550" in warning
        assert "--catalogue" in warning
