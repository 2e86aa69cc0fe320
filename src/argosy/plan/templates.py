"""A template: one way to lay one replica over a sequence of classes, its layers cut, its stages timed.

Must not know how many replicas there are in all, nor the batch.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.contracts.fleet import LongLink
from argosy.contracts.plan import EMBEDDING, Send, Stage, Wire
from argosy.network.wires import send_ms
from argosy.plan.cost import UnitCost, payload_bytes
from argosy.plan.layouts import Layout, Run
from argosy.plan.links import Holder, boundary_wire
from argosy.plan.partition import Cut, Floats, Integers, StageCosts, fullest, partition, used_gb
from argosy.plan.setting import Setting
from argosy.plan.tables import PlaceSums, end_gb, holding_of, layer_sums, place_sums, state_sums, unit_times, worked

Streams = Mapping[frozenset[str], int]
"""How many ranks send over the link between two sites at once, by the pair of sites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A layout with its layers cut and its stages timed, update left out. wires, sent_bytes: of its boundaries.

    forward_ms, backward_ms, weight_ms: by stage. pace_ms: from one micro-batch to the next in the steady state.
    fill_ms: what a single micro-batch would take, as far as more of them don't hide it.
    """

    layout: Layout
    cut: Cut
    forward_ms: tuple[float, ...]
    backward_ms: tuple[float, ...]
    weight_ms: tuple[float, ...]
    wires: tuple[Wire, ...]
    sent_bytes: tuple[float, ...]
    pace_ms: float
    fill_ms: float

    @property
    def sends(self) -> tuple[Send, ...]:
        """What joins its stages."""
        pairs = zip(self.wires, self.sent_bytes, strict=True)
        return tuple(Send(wire=wire.name, payload_bytes=sent) for wire, sent in pairs)


def make_template(setting: Setting, layout: Layout, links: Sequence[LongLink]) -> Template | None:
    """Cut the layers for a layout and time its stages; None where no cut fits in memory."""
    if layout.stages > setting.shape.num_layers:
        return None
    cut = worked(setting, ("cut", layout.key), lambda: make_cut(setting, layout))
    if cut is None:
        return None
    times = worked(setting, ("times", layout.key), lambda: stage_times(setting, layout, cut))
    streams = crossing_streams([layout])
    key = ("wires", layout.shape, tuple(streams.values()))
    wires = worked(setting, key, lambda: boundary_wires(layout, links, streams))
    return joined(setting, layout, cut, times, wires)


def make_cut(setting: Setting, layout: Layout) -> Cut | None:
    """Cut the layers; None where no cut fits."""
    costs = stage_costs(setting, layout)
    cut = partition(costs)
    if cut is None or layout.virtual_stages == 1:
        return cut
    fits = (gb <= place.chip_class.chip.memory_gb for gb, place in zip(place_gb(setting, layout, cut), layout.places))
    return cut if all(fits) else None


def joined(
    setting: Setting, layout: Layout, cut: Cut, times: tuple[tuple[float, ...], ...], wires: tuple[Wire, ...]
) -> Template:
    """Make the template of timed stages and the wires between them."""
    sent = sent_bytes(setting, layout)
    posts_ms = [send_ms(wire, bytes_) for wire, bytes_ in zip(wires, sent, strict=True)]
    hops_ms = [post + wire.one_way_ms for post, wire in zip(posts_ms, wires, strict=True)]
    pace_ms, fill_ms = rhythm(layout, times, posts_ms, hops_ms)
    return Template(
        layout=layout,
        cut=cut,
        forward_ms=times[0],
        backward_ms=times[1],
        weight_ms=times[2],
        wires=wires,
        sent_bytes=sent,
        pace_ms=pace_ms,
        fill_ms=fill_ms,
    )


def rejoined(setting: Setting, template: Template, links: Sequence[LongLink], streams: Streams) -> Template:
    """Give a template's boundaries over long links the share that so many streams leave them."""
    if not any(wire.long_link for wire in template.wires):
        return template
    times = (template.forward_ms, template.backward_ms, template.weight_ms)
    wires = boundary_wires(template.layout, links, streams)
    return joined(setting, template.layout, template.cut, times, wires)


def rhythm(
    layout: Layout, times: Sequence[Sequence[float]], posts_ms: Sequence[float], hops_ms: Sequence[float]
) -> tuple[float, float]:
    """Estimate pace and fill of a schedule; the timeline has the last word.

    Pace: the slowest place or wire, or where a place lets only so many micro-batches in, its longest loop: they share
    the time of one there and back. Fill: all stages there and back; places with several stages fill with the first of
    them, and zero-bubble fills gaps with weights' gradients (arXiv 2104.04473, 2401.10241).
    """
    depth = layout.depth
    stages = [forward + backward for forward, backward in zip(times[0], times[1], strict=True)]
    works = [sum(stages[place::depth]) for place in range(depth)]
    pace = max(*works, *posts_ms, 0.0)
    if layout.schedule == "interleaved":
        others = (sum(works) - max(works)) / layout.virtual_stages
        return pace, max(works) + others + 2 * sum(hops_ms[: depth - 1])
    if layout.schedule != "gpipe":
        loop = 0.0
        for s in range(depth - 1, -1, -1):
            loop += works[s] + (2 * hops_ms[s] if s < depth - 1 else 0.0)
            pace = max(pace, loop / (depth - s) if s < depth - 1 else works[s])
    fill = sum(works) + 2 * sum(hops_ms)
    if layout.schedule == "zero-bubble":
        fill -= 2 * (sum(times[2]) - max(times[2]))
    return pace, max(fill, max(works))


def may_hold(setting: Setting, layout: Layout) -> bool:
    """Tell quickly that a layout can't hold the model: if its chips are too few for the states of all layers."""
    have = sum((run.chip_class.chip.memory_gb or 0.0) * run.places for run in layout.runs)
    return min(float(state_sums(setting, layout.way(run), layout.shares)[-1]) for run in layout.runs) <= have


def stage_costs(setting: Setting, layout: Layout) -> StageCosts:
    """Tabulate what layers cost at each stage of a layout.

    With virtual stages each stage of a place may use an equal part of what the place's fixed holdings leave.
    """
    kinds, numbers = alike(layout)
    sums = [sums_of(setting, layout, run) for run in kinds]
    virtual, held = layout.virtual_stages, np.array(layout.held, dtype=float)
    fixed_gb = fixed_places_gb(setting, layout)
    limits = np.array([run.chip_class.chip.memory_gb or 0.0 for run in kinds])[numbers]
    if virtual > 1:
        limits = (limits - fixed_gb.max(axis=1)) / virtual
        fixed_gb = np.zeros_like(fixed_gb)
    return StageCosts(
        ms=stacked([one.total_ms for one in sums]),
        kept_gb=stacked([one.kept_gb for one in sums]),
        state_gb=stacked([state_sums(setting, layout.way(run), layout.shares) for run in kinds]),
        kinds=np.tile(numbers, virtual),
        held=np.tile(held / virtual, virtual),
        limit_gb=np.tile(limits, virtual),
        fixed_ms=fixed_ms(setting, layout),
        fixed_gb=np.tile(fixed_gb, (virtual, 1)),
        partly=layout.partly,
    )


def alike(layout: Layout) -> tuple[list[Run], Integers]:
    """List runs that differ in class or TP, and which of them each place is of."""
    kinds = list({(run.chip_class.name, run.tp): run for run in layout.runs}.values())
    names = [(run.chip_class.name, run.tp) for run in kinds]
    of_runs = [names.index((run.chip_class.name, run.tp)) for run in layout.runs]
    return kinds, np.repeat(np.array(of_runs), [run.places for run in layout.runs])


def sums_of(setting: Setting, layout: Layout, run: Run) -> PlaceSums:
    """Give what layers cost at a run's places."""
    return place_sums(setting, run.chip_class, layout.way(run), layout.recomputes, layout.shares.weight)


def stacked(rows: Sequence[Floats]) -> Floats:
    """Stack arrays; one alone is not copied."""
    return rows[0][None] if len(rows) == 1 else np.stack(rows)


def fixed_places_gb(setting: Setting, layout: Layout) -> Floats:
    """Give what each place holds besides layers, by (place, way to recompute); 10^9 bytes."""
    depth, begins = layout.depth, 0
    rows = np.zeros((depth, len(layout.recomputes)))
    for run in layout.runs:
        if run.places > 2 or (0 < begins and begins + run.places < depth):
            inner = min(max(begins, 1), depth - 2)
            rows[begins : begins + run.places] = fixed_place_gb(setting, layout, inner, run)
        begins += run.places
    rows[0] = fixed_place_gb(setting, layout, 0, layout.runs[0])
    rows[-1] = fixed_place_gb(setting, layout, depth - 1, layout.runs[-1])
    if len(layout.runs) > 1 or depth > 2:
        for place in inner_edges(layout):
            rows[place] = fixed_place_gb(setting, layout, place, layout.places[place])
    return rows


def inner_edges(layout: Layout) -> list[int]:
    """List the places next to the ends, which are neither first nor last."""
    return sorted({place for place in (1, layout.depth - 2) if 0 < place < layout.depth - 1})


def fixed_place_gb(setting: Setting, layout: Layout, place: int, run: Run) -> list[float]:
    """Give what a place of a run holds besides layers, by way to recompute; 10^9 bytes."""
    first, last = place == 0, place == layout.depth - 1
    # What an inner place holds besides layers is the same whatever is in flight.
    held = layout.held[place] if first or last else 1
    if layout.virtual_stages > 1:
        # A head's backward follows its forward at once, whatever else is in flight.
        held = 1 if last else -(-held // layout.virtual_stages)
    ways = [layout.way(run, recompute) for recompute in layout.recomputes]
    return [end_gb(setting, run.chip_class, first, last, holding_of(way, held, layout.shares)) for way in ways]


def fixed_ms(setting: Setting, layout: Layout) -> Floats:
    """Give the time of what each stage has besides layers."""
    times = np.zeros(layout.stages)
    for stage, cost in zip((0, -1), ends_of(setting, layout), strict=True):
        times[stage] += cost.forward_ms + cost.backward_ms
    return times


def ends_of(setting: Setting, layout: Layout) -> tuple[UnitCost, UnitCost]:
    """Time the embedding on the first stage and the head on the last."""
    head, weight = setting.shape.num_layers, layout.shares.weight
    first, last = layout.runs[0], layout.runs[-1]
    return (
        unit_times(setting, first.chip_class, EMBEDDING, layout.way(first), weight),
        unit_times(setting, last.chip_class, head, layout.way(last), weight),
    )


def stage_times(setting: Setting, layout: Layout, cut: Cut) -> tuple[tuple[float, ...], ...]:
    """Give forward, backward and the weights' part of it, each by stage."""
    kinds, numbers = alike(layout)
    sums = [sums_of(setting, layout, run) for run in kinds]
    kind = np.tile(numbers, layout.virtual_stages)
    start, end, way = np.array(cut.starts), np.array(cut.ends), np.array(cut.ways)
    middle = start + np.array(cut.counts)
    forwards = stacked([one.forward_ms for one in sums])
    backwards = stacked([one.backward_ms for one in sums])
    weights = stacked([one.weight_ms for one in sums])
    forward = forwards[kind, end] - forwards[kind, start]
    backward = backwards[kind, way, middle] - backwards[kind, way, start]
    backward += backwards[kind, 0, end] - backwards[kind, 0, middle]
    weight = weights[kind, end] - weights[kind, start]
    for stage, cost in zip((0, -1), ends_of(setting, layout), strict=True):
        forward[stage] += cost.forward_ms
        backward[stage] += cost.backward_ms
        weight[stage] += cost.weight_ms
    return tuple(forward.tolist()), tuple(backward.tolist()), tuple(weight.tolist())


def between(sums: Floats, start: int, end: int) -> float:
    """Give the sum from one layer to before another."""
    return float(sums[end] - sums[start])


def place_gb(setting: Setting, layout: Layout, cut: Cut) -> tuple[float, ...]:
    """Give the memory of each place, all its stages together, 10^9 bytes.

    What is in flight at a place with several stages counts as that of the fullest of them.
    """
    if layout.virtual_stages == 1:
        costs = stage_costs(setting, layout)
        return tuple(used_gb(costs, cut, stage) for stage in range(layout.stages))
    sizes = []
    for place, run in enumerate(layout.places):
        states = state_sums(setting, layout.way(run), layout.shares)
        state_gb, kept_gb = 0.0, 0.0
        for stage in range(place, layout.stages, layout.depth):
            start, end, middle = cut.starts[stage], cut.ends[stage], cut.starts[stage] + cut.counts[stage]
            again = layout.way(run, layout.recomputes[cut.ways[stage]])
            kept = between(layer_sums(setting, run.chip_class, again, layout.shares.weight).kept_gb, start, middle)
            kept += between(
                layer_sums(setting, run.chip_class, layout.way(run), layout.shares.weight).kept_gb, middle, end
            )
            state_gb, kept_gb = state_gb + between(states, start, end), max(kept_gb, kept)
        fixed = max(fixed_place_gb(setting, layout, place, run))
        sizes.append(fixed + state_gb + layout.held[place] * kept_gb)
    return tuple(sizes)


def stages_of(setting: Setting, template: Template) -> tuple[Stage, ...]:
    """Make a template's stages, with times, shares and memory; each is made once."""
    layout, cut = template.layout, template.cut
    return worked(setting, ("stages", layout.key, cut), lambda: _stages(setting, template))


def _stages(setting: Setting, template: Template) -> tuple[Stage, ...]:
    layout, cut = template.layout, template.cut
    memory_gb = place_gb(setting, layout, cut)
    stages = []
    for stage, (start, end) in enumerate(zip(cut.starts, cut.ends, strict=True)):
        run = layout.places[layout.place_of(stage)]
        recompute = layout.recomputes[cut.ways[stage]] if cut.counts[stage] else layout.recomputes[0]
        count = cut.counts[stage]
        backward_ms = template.backward_ms[stage]
        stages.append(
            Stage(
                first_layer=start,
                end_layer=end,
                chip_class=run.chip_class.name,
                forward_ms=template.forward_ms[stage],
                backward_ms=backward_ms,
                backward_shares=shares(setting, template, stage),
                weight_share=min(1.0, template.weight_ms[stage] / backward_ms),
                tp=run.tp,
                cp=layout.cp,
                ep=layout.ep,
                recompute=recompute,
                recompute_layers=count if 0 < count < end - start else None,
                memory_gb=memory_gb[layout.place_of(stage)],
                memory_limit_gb=run.chip_class.chip.memory_gb or 0.0,
            )
        )
    return tuple(stages)


def shares(setting: Setting, template: Template, stage: int) -> tuple[float, ...]:
    """Give the part of a stage's backward that each of its units takes, ascending."""
    layout, cut = template.layout, template.cut
    run = layout.places[layout.place_of(stage)]
    plain, again = layout.way(run), layout.way(run, layout.recomputes[cut.ways[stage]])
    middle = cut.starts[stage] + cut.counts[stage]
    layers = range(cut.starts[stage], cut.ends[stage])
    units = [(setting.kind(layer), again if layer < middle else plain) for layer in layers]
    units = [(EMBEDDING, plain)] * (stage == 0) + units
    units += [(setting.shape.num_layers, plain)] * (stage == layout.stages - 1)
    weight = layout.shares.weight
    times = [unit_times(setting, run.chip_class, unit, way, weight).backward_ms for unit, way in units]
    return tuple(time / sum(times) for time in times)


def sent_bytes(setting: Setting, layout: Layout) -> tuple[float, ...]:
    """Give the bytes that a rank passes over each boundary, the more of what either side has."""
    if len(layout.runs) == 1:
        return (payload_bytes(setting, layout.way(layout.runs[0])),) * (layout.stages - 1)
    each = [payload_bytes(setting, layout.way(run)) for run in layout.places]
    return tuple(max(each[a], each[b]) for a, b in boundaries(layout))


def boundaries(layout: Layout) -> list[tuple[int, int]]:
    """List the places on both sides of each boundary between stages."""
    return [(layout.place_of(stage - 1), layout.place_of(stage)) for stage in range(1, layout.stages)]


def crossing_streams(layouts: Iterable[Layout]) -> Streams:
    """Count the ranks that send over each pair of sites at once: those of every boundary that crosses it, all replicas."""
    streams: Counter[frozenset[str]] = Counter()
    for layout in layouts:
        for before, after in itertools.pairwise(layout.runs):
            sites = frozenset((before.chip_class.site, after.chip_class.site))
            if len(sites) > 1:
                streams[sites] += max(layout.width(before), layout.width(after)) * layout.count
    return streams


def boundary_wires(layout: Layout, links: Sequence[LongLink], streams: Streams) -> tuple[Wire, ...]:
    """Find the wire of each boundary of a layout, one that crosses sites with its share of the link."""
    places = layout.places
    of_class: Counter[str] = Counter()
    before: list[int] = []
    for place in places:
        before.append(of_class[place.chip_class.name])
        of_class[place.chip_class.name] += 1
    holders = [
        Holder(
            chip_class=run.chip_class, tp=run.tp, width=layout.width(run), class_stages=of_class[run.chip_class.name]
        )
        for run in places
    ]
    wires: dict[tuple[int, int], Wire] = {}
    for a, b in boundaries(layout):
        if (a, b) not in wires:
            sites = frozenset((holders[a].chip_class.site, holders[b].chip_class.site))
            sharing = streams.get(sites, 1) if len(sites) > 1 else 1
            wires[a, b] = boundary_wire(holders[a], holders[b], before[a], before[b], sharing, links)
    return tuple(wires[pair] for pair in boundaries(layout))


def needed_gb(setting: Setting, layout: Layout) -> float:
    """Give the least memory that the fullest rank of a layout needs, whatever its chips have; 10^9 bytes."""
    return fullest(stage_costs(setting, layout))
