"""What a layout's places cost: times and memory of layers on each, the cut that follows, and what it makes of them.

Must not know wires between places, nor replicas.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from argosy.contracts.plan import EMBEDDING
from argosy.plan.costs.cost import UnitCost, payload_bytes, update_ms
from argosy.plan.costs.setting import Setting
from argosy.plan.costs.tables import PlaceSums, end_gb, holding_of, place_sums, state_sums, unit_times, worked
from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.pipelines.partition import Cut, Floats, Integers, StageCosts, fullest, partition, used_gb
from argosy.plan.pipelines.virtual import most_gb, recomputed


def make_cut(setting: Setting, layout: Layout) -> Cut | None:
    """Cut the layers; None where no cut fits."""
    costs = stage_costs(setting, layout)
    cut = partition(costs)
    return cut if cut is None or layout.virtual_stages == 1 else refilled(setting, layout, cut)


def refilled(setting: Setting, layout: Layout, cut: Cut) -> Cut | None:
    """Recompute as few layers as fit at each place of several stages, now that it is known which they are."""
    starts, ends, ways, counts = (np.array(row) for row in (cut.starts, cut.ends, cut.ways, cut.counts))
    for place, run in enumerate(layout.places):
        mine = np.arange(place, layout.stages, layout.depth)
        way = ways[mine].max() or len(layout.recomputes) - 1
        kept = sums_of(setting, layout, run).kept_gb
        rows = np.stack([np.tile(kept[0], (len(mine), 1)), kept[np.where(ways[mine], ways[mine], way)]])
        some = counts[mine]
        spare_gb = (run.chip_class.chip.memory_gb or 0.0) - standing_gb(setting, layout, cut, place)
        step = 1 if layout.partly else 0
        if not recomputed(rows, starts[mine], ends[mine], some, layout.depth, layout.held[place], spare_gb, step):
            return None
        counts[mine], ways[mine] = some, np.where(some > 0, np.where(ways[mine], ways[mine], way), 0)
    return replace(cut, ways=tuple(ways.tolist()), counts=tuple(counts.tolist()))


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
    return place_sums(setting, run.chip_class, layout.way(run), layout.recomputes, layout.shares.passed)


def stacked(rows: Sequence[Floats]) -> Floats:
    """Stack arrays; one alone is not copied."""
    return rows[0][None] if len(rows) == 1 else np.stack(rows)


def fixed_places_gb(setting: Setting, layout: Layout) -> Floats:
    """Give what each place holds besides layers, by (place, way to recompute); 10^9 bytes."""
    depth, begins = layout.depth, 0
    rows = np.zeros((depth, len(layout.recomputes)))
    for run in layout.runs:
        if run.places > 2 or (begins > 0 and begins + run.places < depth):
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

    def work() -> list[float]:
        ways = [layout.way(run, recompute) for recompute in layout.recomputes]
        return [end_gb(setting, run.chip_class, first, last, holding_of(way, held, layout.shares)) for way in ways]

    how = (run.tp, layout.cp, layout.ep, layout.microbatch_size, layout.recomputes)
    shards = (layout.zero_stage, layout.shards)
    return worked(setting, ("fixed", run.chip_class.name, how, shards, first, last, held), work)


def fixed_ms(setting: Setting, layout: Layout) -> Floats:
    """Give the time of what each stage has besides layers."""
    times = np.zeros(layout.stages)
    for stage, cost in zip((0, -1), ends_of(setting, layout), strict=True):
        times[stage] += cost.forward_ms + cost.backward_ms
    return times


def ends_of(setting: Setting, layout: Layout) -> tuple[UnitCost, UnitCost]:
    """Time the embedding on the first stage and the head on the last."""
    head, shards = setting.shape.num_layers, layout.shares.passed
    first, last = layout.runs[0], layout.runs[-1]
    return (
        unit_times(setting, first.chip_class, EMBEDDING, layout.way(first), shards),
        unit_times(setting, last.chip_class, head, layout.way(last), shards),
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


def update_lag_ms(setting: Setting, layout: Layout, cut: Cut, forward_ms: Sequence[float]) -> float:
    """Give what the optimizer's step adds to a step: what the pipeline's first forwards don't hide of any place's."""
    kinds, numbers = alike(layout)
    kind = np.tile(numbers, layout.virtual_stages)
    sums = stacked([update_sums(setting, layout, run) for run in kinds])
    stages = sums[kind, np.array(cut.ends)] - sums[kind, np.array(cut.starts)]
    for stage, run, unit in ((0, layout.runs[0], EMBEDDING), (-1, layout.runs[-1], setting.shape.num_layers)):
        stages[stage] += unit_update_ms(setting, layout, run, unit)
    places = stages.reshape(layout.virtual_stages, layout.depth).sum(axis=0)
    before = np.concatenate([[0.0], np.cumsum(forward_ms[: layout.depth - 1])])
    return float(np.maximum(0.0, places - before).max())


def update_sums(setting: Setting, layout: Layout, run: Run) -> Floats:
    """Sum the optimizer's step over the layers before each."""

    def work() -> Floats:
        each = {kind: unit_update_ms(setting, layout, run, kind) for kind in set(setting.kinds)}
        return np.concatenate([[0.0], np.cumsum([each[kind] for kind in setting.kinds])])

    return worked(setting, ("update sums", run.chip_class.name, run.tp, layout.ep, layout.shares.optimizer), work)


def unit_update_ms(setting: Setting, layout: Layout, run: Run, unit: int, shards: int = 0) -> float:
    """Time the optimizer's step of a unit, sharded as the layout says unless over so many; worked out once."""
    shards = shards or layout.shares.optimizer
    key = ("unit update", run.chip_class.name, unit, run.tp, layout.ep, shards)
    return worked(setting, key, lambda: update_ms(setting, run.chip_class, (unit,), layout.way(run), shards))


def between(sums: Floats, start: int, end: int) -> float:
    """Give the sum from one layer to before another."""
    return float(sums[end] - sums[start])


def place_gb(setting: Setting, layout: Layout, cut: Cut) -> tuple[float, ...]:
    """Give the memory of each place, all its stages together, 10^9 bytes.

    A place with several stages has some of each in flight.
    """
    if layout.virtual_stages == 1:
        costs = stage_costs(setting, layout)
        return tuple(used_gb(costs, cut, stage) for stage in range(layout.stages))
    sizes = []
    for place, run in enumerate(layout.places):
        kept = sums_of(setting, layout, run).kept_gb
        flying = []
        for stage in range(place, layout.stages, layout.depth):
            start, end, middle = cut.starts[stage], cut.ends[stage], cut.starts[stage] + cut.counts[stage]
            flying.append(between(kept[cut.ways[stage]], start, middle) + between(kept[0], middle, end))
        flying_gb = most_gb(np.array(flying), layout.depth, layout.held[place])
        sizes.append(standing_gb(setting, layout, cut, place) + flying_gb)
    return tuple(sizes)


def standing_gb(setting: Setting, layout: Layout, cut: Cut, place: int) -> float:
    """Give what a place of several stages holds whatever is in flight, 10^9 bytes."""
    run = layout.places[place]
    states = state_sums(setting, layout.way(run), layout.shares)
    stages = range(place, layout.stages, layout.depth)
    state_gb = sum(between(states, cut.starts[stage], cut.ends[stage]) for stage in stages)
    return max(fixed_place_gb(setting, layout, place, run)) + state_gb


def needed_gb(setting: Setting, layout: Layout) -> float:
    """Give the least memory that the fullest rank of a layout needs, whatever its chips have; 10^9 bytes."""
    return fullest(stage_costs(setting, layout))


def sent_bytes(setting: Setting, layout: Layout) -> tuple[float, ...]:
    """Give the bytes that a rank passes over each boundary, the more of what either side has."""
    if len(layout.runs) == 1:
        return (payload_bytes(setting, layout.way(layout.runs[0])),) * (layout.stages - 1)
    each = [payload_bytes(setting, layout.way(run)) for run in layout.places]
    return tuple(max(each[a], each[b]) for a, b in boundaries(layout))


def boundaries(layout: Layout) -> list[tuple[int, int]]:
    """List the places on both sides of each boundary between stages."""
    return [(layout.place_of(stage - 1), layout.place_of(stage)) for stage in range(1, layout.stages)]
