"""Reading and writing `fleet.yaml`: sites, long links and node groups, checked as a whole, each mistake with its place.

`read_fleet` takes text, `load_fleet` a path; `write_fleet` writes what `read_fleet` reads back. It must not know what
a job needs, and it judges only what can't be: a link to nowhere, an unknown chip, a node that can't reach the others.
"""

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from argosy.contracts.documents import Document, Section, problems_error, read_document, validate
from argosy.contracts.errors import BadInputError
from argosy.contracts.explain import nearest
from argosy.contracts.fleet import Emulation, Fleet, LongLink, NodeGroup, Site
from argosy.contracts.units import Gbps, NicsText
from argosy.fleet.catalogue import Catalogue
from argosy.fleet.text_file import read_text_file

# No two points of the Earth are further apart along its surface; a longer fibre is a wrong unit.
KM_MAX = 20_000.0
EARTH_RADIUS_KM = 6371.0
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")

Positive = Annotated[float, Field(gt=0)]
Whole = Annotated[int, Field(ge=1, le=1_000_000)]


class SiteFile(Section):
    """One site as the file writes it."""

    OTHER_NAMES: ClassVar = {
        "power": "power_mw",
        "power_kw": "power_mw",
        "position": "location",
        "coordinates": "location",
    }

    power_mw: Positive | None = None
    location: tuple[Annotated[float, Field(ge=-90, le=90)], Annotated[float, Field(ge=-180, le=180)]] | None = None


class LinkFile(Section):
    """One long link as the file writes it."""

    OTHER_NAMES: ClassVar = {
        "sites": "between",
        "distance": "km",
        "length_km": "km",
        "bandwidth": "gbps",
        "rate": "gbps",
    }

    between: tuple[str, str]
    km: Annotated[float, Field(gt=0, le=KM_MAX)]
    gbps: Gbps
    waves: Whole = 1


class EmulateFile(Section):
    """What an emulated chip is to be."""

    OTHER_NAMES: ClassVar = {"memory": "memory_gb", "flops": "tflops"}

    tflops: Positive
    memory_gb: Positive


class GroupFile(Section):
    """One node group as the file writes it."""

    OTHER_NAMES: ClassVar = {
        "gpu": "chip",
        "gpus_per_node": "chips_per_node",
        "nodes": "count",
        "nic": "nics",
        "network": "nics",
        "emulated": "emulate",
    }

    site: str
    chip: str
    chips_per_node: Whole
    count: Whole
    nics: NicsText | None = None
    rack: Whole | None = None
    spine: Whole | None = None
    emulate: EmulateFile | None = None


class FleetFile(Section):
    """The whole of `fleet.yaml`."""

    OTHER_NAMES: ClassVar = {"name": "fleet", "links": "long_links", "node_groups": "nodes"}

    fleet: Annotated[str, Field(min_length=1)]
    sites: dict[str, SiteFile | None]
    long_links: tuple[LinkFile, ...] = ()
    nodes: tuple[GroupFile, ...]


def load_fleet(path: Path, catalogue: Catalogue) -> Fleet:
    """Read a fleet file by its path; a file that can't be read is a BadInputError."""
    text = read_text_file(path, "fleet file", "; `argosy fleet detect` writes one of this machine")
    return read_fleet(text, str(path), catalogue)


def read_fleet(text: str, source: str, catalogue: Catalogue) -> Fleet:
    """Read `fleet.yaml` text; `source` is its name for errors.

    Raises BadInputError with one line a problem: place, key, value got, what is allowed.
    """
    document = read_document(text, source)
    try:
        file = validate(document, FleetFile)
    except BadInputError as error:
        raise problems_error([*str(error).splitlines(), *_unknown_names(document, catalogue)]) from error
    problems = [*_empty_parts(document, file), *_site_problems(document, file), *_link_problems(document, file)]
    problems += _group_problems(document, file, catalogue)
    if problems:
        raise problems_error(problems)
    return _fleet(file)


def write_fleet(fleet: Fleet) -> str:
    """Write a fleet as `fleet.yaml` text; `read_fleet` of it gives the fleet back."""
    lines = [f"fleet: {_word(fleet.name)}", "sites:"]
    for site in fleet.sites:
        parts = [f"power_mw: {site.power_mw!r}"] if site.power_mw is not None else []
        parts += [f"location: [{site.location[0]!r}, {site.location[1]!r}]"] if site.location is not None else []
        lines.append(f"  {_word(site.name)}: {{{', '.join(parts)}}}")
    if fleet.long_links:
        lines.append("long_links:")
    for link in fleet.long_links:
        ends = ", ".join(_word(end) for end in link.between)
        lines.append(f"  - {{between: [{ends}], km: {link.km!r}, gbps: {link.gbps!r}, waves: {link.waves}}}")
    lines.append("nodes:")
    lines += [f"  - {{{', '.join(_group_parts(group))}}}" for group in fleet.nodes]
    return "\n".join(lines) + "\n"


def _group_parts(group: NodeGroup) -> list[str]:
    parts = [f"site: {_word(group.site)}", f"chip: {_word(group.chip)}"]
    parts += [f"chips_per_node: {group.chips_per_node}", f"count: {group.count}"]
    if group.nics is not None:
        parts.append(f"nics: {group.nics.count}x{group.nics.gbps:.12g}G")
    parts += [f"rack: {group.rack}"] if group.rack else []
    parts += [f"spine: {group.spine}"] if group.spine else []
    if group.emulate is not None:
        parts.append(f"emulate: {{tflops: {group.emulate.tflops!r}, memory_gb: {group.emulate.memory_gb!r}}}")
    return parts


def _word(text: str) -> str:
    """Write text bare where YAML reads it back as text, else in quotes."""
    return (
        text if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", text) and text.lower() not in _RESERVED else json.dumps(text)
    )


_RESERVED = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")


def _empty_parts(document: Document, file: FleetFile) -> list[str]:
    """Find what is empty; pydantic's own check would count entries that are otherwise wrong as missing."""
    empty = [key for key in ("sites", "nodes") if not getattr(file, key)]
    problems = [document.problem((key,), "is empty; a fleet has at least one") for key in empty]
    if not file.fleet.isprintable():
        problems.append(document.problem(("fleet",), "holds a line break or another sign that can't be shown"))
    return problems


def _site_problems(document: Document, file: FleetFile) -> list[str]:
    allowed = "letters, digits, - _ and . are allowed, at most 63 of them"
    return [
        document.problem(("sites", name), f'a site can\'t be named "{name}"; {allowed}')
        for name in file.sites
        if not NAME.fullmatch(name)
    ]


def _link_problems(document: Document, file: FleetFile) -> list[str]:
    problems: list[str] = []
    seen: dict[frozenset[str], int] = {}
    for index, link in enumerate(file.long_links):
        path = ("long_links", index, "between")
        ends = frozenset(link.between)
        unknown = [end for end in link.between if end not in file.sites]
        problems += [document.problem(path, _unknown_site(end, file.sites)) for end in unknown]
        if len(ends) == 1:
            problems.append(document.problem(path, f"joins {link.between[0]} to itself; name two sites"))
        elif ends in seen:
            first = f"long_links[{seen[ends]}]"
            problems.append(
                document.problem(path, f"{first} joins the same sites; write one link and add up gbps and waves")
            )
        seen.setdefault(ends, index)
        apart_km = _apart_km(link, file) if not unknown else None
        if apart_km is not None and link.km < 0.9 * apart_km:
            text = f"got {link.km:g}, but the sites' locations are {apart_km:.0f} km apart in a straight line"
            problems.append(document.problem(("long_links", index, "km"), text))
    return problems


def _group_problems(document: Document, file: FleetFile, catalogue: Catalogue) -> list[str]:
    problems: list[str] = []
    nodes = sum(group.count for group in file.nodes)
    for index, group in enumerate(file.nodes):
        at = ("nodes", index)
        if group.site not in file.sites:
            problems.append(document.problem((*at, "site"), _unknown_site(group.site, file.sites)))
        if group.chip not in catalogue.chips:
            problems.append(document.problem((*at, "chip"), catalogue.unknown(group.chip)))
        if group.nics is None and group.emulate is None and nodes > 1:
            text = f"missing; without network cards a node can't reach the other {nodes - 1:,}; write e.g. nics: 8x400G"
            problems.append(document.problem((*at, "nics"), text))
        if group.rack and group.spine and group.spine % group.rack:
            text = f"got {group.spine}; nodes under a spine must be a multiple of rack, which is {group.rack}"
            problems.append(document.problem((*at, "spine"), text))
    return problems


def _unknown_names(document: Document, catalogue: Catalogue) -> list[str]:
    """Find sites and chips that nothing knows in a file that is otherwise wrong too, as far as it can be read."""
    sites, groups = document.value.get("sites"), document.value.get("nodes")
    problems: list[str] = []
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        site, chip = (group.get(key) if isinstance(group, dict) else None for key in ("site", "chip"))
        if isinstance(site, str) and isinstance(sites, dict) and site not in sites:
            problems.append(document.problem(("nodes", index, "site"), _unknown_site(site, sites)))
        if isinstance(chip, str) and chip not in catalogue.chips:
            problems.append(document.problem(("nodes", index, "chip"), catalogue.unknown(chip)))
    return problems


def _unknown_site(name: str, sites: Iterable[str]) -> str:
    known = list(sites)
    near = nearest(name, known)
    some = f"sites are {', '.join(known[:12])}" if known else "write it under sites:"
    hint = f"did you mean {near[0]}?" if near else some
    return f'no site "{name}"; {hint}'


def _apart_km(link: LinkFile, file: FleetFile) -> float | None:
    """Great-circle distance of the two sites (haversine), km; None where a location is not given."""
    ends = [file.sites[end] for end in link.between]
    places = [site.location for site in ends if site is not None and site.location is not None]
    if len(places) < 2:
        return None
    (latitude, longitude), (other_latitude, other_longitude) = [(math.radians(a), math.radians(b)) for a, b in places]
    half = math.sin((other_latitude - latitude) / 2) ** 2
    half += math.cos(latitude) * math.cos(other_latitude) * math.sin((other_longitude - longitude) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(half)))


def _fleet(file: FleetFile) -> Fleet:
    return Fleet(
        name=file.fleet,
        sites=tuple(
            Site(name=name, power_mw=site.power_mw, location=site.location) if site else Site(name=name)
            for name, site in file.sites.items()
        ),
        long_links=tuple(
            LongLink(between=link.between, km=link.km, gbps=link.gbps, waves=link.waves) for link in file.long_links
        ),
        nodes=tuple(
            NodeGroup(
                site=group.site,
                chip=group.chip,
                chips_per_node=group.chips_per_node,
                count=group.count,
                nics=group.nics,
                rack=group.rack,
                spine=group.spine,
                emulate=Emulation(tflops=group.emulate.tflops, memory_gb=group.emulate.memory_gb)
                if group.emulate
                else None,
            )
            for group in file.nodes
        ),
    )
