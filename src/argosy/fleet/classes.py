"""Chip classes and nodes of a fleet: what the planner plans over, and the hosts that a plan is bound to.

A class is (chip kind, site, node shape) with a count, so a fleet of 100,000 chips has a handful of them. Applies
`emulate:`. Must not know what a job needs: a chip whose figures are partly unknown makes a class all the same.
"""

from collections import Counter
from dataclasses import replace

from argosy.contracts.fleet import Chip, ChipClass, Emulation, Fleet, Node, NodeGroup
from argosy.fleet.catalogue import DTYPES, Catalogue

# An emulated node group that names no cards is given one of 25 Gb/s: wires are emulated too, and a node needs one.
EMULATED_NIC_GBPS = 25.0

Shape = tuple[int, float, Emulation | None]


def chip_classes(fleet: Fleet, catalogue: Catalogue) -> tuple[ChipClass, ...]:
    """Gather the fleet's nodes into classes, in the order in which the file first names each.

    Raises BadInputError for a chip that is not in the catalogue.
    """
    nodes: Counter[tuple[str, str, Shape]] = Counter()
    for group in fleet.nodes:
        nodes[group.site, group.chip, _shape(group)] += group.count
    names = _class_names(fleet)
    return tuple(
        ChipClass(
            name=names[site, chip, shape],
            site=site,
            chip=emulated_chip(catalogue.chip(chip), shape[2]) if shape[2] else catalogue.chip(chip),
            chips_per_node=shape[0],
            nodes=count,
            nic_gbps=shape[1],
            emulated=shape[2] is not None,
        )
        for (site, chip, shape), count in nodes.items()
    )


def fleet_nodes(fleet: Fleet) -> tuple[Node, ...]:
    """Name every host: `site-1`, `site-2`, ... in the file's order; racks and spines count from 1 within the site.

    A node group begins a new rack and a new spine.
    """
    names = _class_names(fleet)
    hosts: Counter[str] = Counter()
    racks: Counter[str] = Counter()
    spines: Counter[str] = Counter()
    nodes = []
    for group in fleet.nodes:
        for index in range(group.count):
            hosts[group.site] += 1
            nodes.append(
                Node(
                    name=f"{group.site}-{hosts[group.site]}",
                    site=group.site,
                    chip_class=names[group.site, group.chip, _shape(group)],
                    chips=group.chips_per_node,
                    rack=_domain(racks[group.site], index, group.rack),
                    spine=_domain(spines[group.site], index, group.spine),
                )
            )
        racks[group.site] += -(-group.count // group.rack) if group.rack else 0
        spines[group.site] += -(-group.count // group.spine) if group.spine else 0
    return tuple(nodes)


def nic_gbps(group: NodeGroup) -> float:
    """Sum what one node of the group sends over all cards, one direction, Gb/s; 0 for a lone node without cards."""
    if group.nics is not None:
        return group.nics.total_gbps
    return EMULATED_NIC_GBPS if group.emulate else 0.0


def emulated_chip(chip: Chip, emulate: Emulation) -> Chip:
    """Copy a chip with the emulated peak for every dtype and the emulated memory; the other figures stay."""
    where = "emulate in the fleet file"
    sources = {name: text for name, text in chip.sources.items() if not name.startswith("tflops.")}
    sources |= {"memory_gb": where} | {f"tflops.{dtype}": where for dtype in DTYPES}
    return replace(chip, tflops=dict.fromkeys(DTYPES, emulate.tflops), memory_gb=emulate.memory_gb, sources=sources)


def training_peak(chip: Chip) -> tuple[str, float] | None:
    """Choose the dtype a chip trains in, with its dense peak in TFLOPS: bf16, else fp16, else fp32; None if unknown."""
    return next(((dtype, chip.tflops[dtype]) for dtype in ("bf16", "fp16", "fp32") if dtype in chip.tflops), None)


def _domain(before: int, index: int, size: int | None) -> int | None:
    return before + index // size + 1 if size else None


def _shape(group: NodeGroup) -> Shape:
    return group.chips_per_node, nic_gbps(group), group.emulate


def _class_names(fleet: Fleet) -> dict[tuple[str, str, Shape], str]:
    """Name the classes apart: `site/chip`, where needed with `/8x`, then the cards, then the emulation."""
    keys = dict.fromkeys((group.site, group.chip, _shape(group)) for group in fleet.nodes)
    names = {}
    for key in keys:
        rivals = [other for other in keys if other[:2] == key[:2] and other != key]
        parts = [*key[:2]]
        for value, text in _marks(key[2]):
            if not rivals:
                break
            parts.append(text)
            rivals = [other for other in rivals if other[2][len(parts) - 3] == value]
        names[key] = "/".join(parts)
    return names


def _marks(shape: Shape) -> tuple[tuple[object, str], ...]:
    chips, gbps, emulate = shape
    played = f"{emulate.tflops:g}tflops-{emulate.memory_gb:g}gb" if emulate else "real"
    return (chips, f"{chips}x"), (gbps, f"{gbps:g}G"), (emulate, played)
