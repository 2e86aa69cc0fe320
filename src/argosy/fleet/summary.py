"""A fleet at a glance: chips, peak and power of each site, delay and bandwidth-delay product of each long link.

Pure sums over classes. It must not rank or plan; what is unknown for one chip is unknown for its site.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.contracts.fleet import ChipClass, Fleet, LongLink
from argosy.fleet.catalogue import Catalogue
from argosy.fleet.classes import chip_classes, training_peak


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSummary:
    """One site's totals.

    peak_tflops: dense training peak (bf16, else fp16, else fp32) of all chips. memory_gb: of all chips. chips_mw: TDP
    of the chips alone, without hosts, network and cooling. Each is None where a chip's figure is unknown. power_mw: the
    site's cap.
    """

    name: str
    nodes: int
    chips: int
    peak_tflops: float | None
    memory_gb: float | None
    chips_mw: float | None
    power_mw: float | None
    emulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSummary:
    """One long link. one_way_ms, round_trip_ms: of light in the fibre. bdp_mb: gbps x round trip, 10^6 bytes."""

    between: tuple[str, str]
    km: float
    gbps: float
    waves: int
    one_way_ms: float
    round_trip_ms: float
    bdp_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSummary:
    """What `argosy fleet show` shows. warnings: what is possible but probably not meant."""

    name: str
    chips: int
    classes: tuple[ChipClass, ...]
    sites: tuple[SiteSummary, ...]
    long_links: tuple[LinkSummary, ...]
    warnings: tuple[str, ...]


def summarize(fleet: Fleet, catalogue: Catalogue) -> FleetSummary:
    """Sum a fleet up."""
    classes = chip_classes(fleet, catalogue)
    sites = tuple(
        _site(site.name, site.power_mw, [item for item in classes if item.site == site.name]) for site in fleet.sites
    )
    return FleetSummary(
        name=fleet.name,
        chips=fleet.chips,
        classes=classes,
        sites=sites,
        long_links=tuple(_link(link) for link in fleet.long_links),
        warnings=tuple(_warnings(fleet, classes, sites)),
    )


def _site(name: str, power_mw: float | None, classes: Sequence[ChipClass]) -> SiteSummary:
    peaks = [training_peak(item.chip) for item in classes]
    return SiteSummary(
        name=name,
        nodes=sum(item.nodes for item in classes),
        chips=sum(item.chips for item in classes),
        peak_tflops=_total(classes, [peak[1] if peak else None for peak in peaks]),
        memory_gb=_total(classes, [item.chip.memory_gb for item in classes]),
        chips_mw=_total(classes, [item.chip.tdp_w / 1e6 if item.chip.tdp_w else None for item in classes]),
        power_mw=power_mw,
        emulated=any(item.emulated for item in classes),
    )


def _total(classes: Sequence[ChipClass], each: Sequence[float | None]) -> float | None:
    known = [item.chips * figure for item, figure in zip(classes, each, strict=True) if figure is not None]
    return sum(known) if len(known) == len(classes) else None


def _link(link: LongLink) -> LinkSummary:
    round_trip_ms = 2 * link.one_way_ms
    return LinkSummary(
        between=link.between,
        km=link.km,
        gbps=link.gbps,
        waves=link.waves,
        one_way_ms=link.one_way_ms,
        round_trip_ms=round_trip_ms,
        bdp_mb=link.gbps * round_trip_ms / 8,
    )


def _warnings(fleet: Fleet, classes: Sequence[ChipClass], sites: Sequence[SiteSummary]) -> list[str]:
    linked = {end for link in fleet.long_links for end in link.between}
    found = []
    for site in sites:
        if site.power_mw is not None and site.chips_mw is not None and site.chips_mw > site.power_mw:
            found.append(f"{site.name}: its chips alone draw {site.chips_mw:.2f} MW, its cap is {site.power_mw:g} MW")
        if not site.chips:
            found.append(f"{site.name}: has no nodes")
        elif len(sites) > 1 and site.name not in linked:
            found.append(f"{site.name}: no long link reaches it, so no job can span it and another site")
    return found + [warning for item in classes for warning in _lacking(item)]


def _lacking(item: ChipClass) -> list[str]:
    """Say which figures a class lacks that every plan needs."""
    needed = {"memory_gb": item.chip.memory_gb, "TFLOPS of bf16, fp16 or fp32": training_peak(item.chip)}
    return [
        f"{item.name}: the catalogue states no {figure} of {item.chip.name}, so nothing can be planned on it; "
        "add it by --catalogue FILE (docs/chips.md)"
        for figure, value in needed.items()
        if value is None
    ]
