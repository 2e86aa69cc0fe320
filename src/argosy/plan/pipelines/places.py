"""What a layout's places cost: times and memory of layers on each, the cut that follows, and what it makes of them.

Must not know wires between places, nor replicas.
"""

import itertools
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from argosy.contracts.plan import EMBEDDING
from argosy.plan.costs.cost import UnitCost, payload_bytes, update_ms
from argosy.plan.costs.setting import Setting
from argosy.plan.costs.tables import PlaceSums, end_gb, holding_of, place_sums, state_sums, unit_times, worked
from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.pipelines.partition import Cut, Floats, Integers, StageCosts, fullest, partition, used_gb
from argosy.plan.pipelines.virtual import most_gb, refill

Row = TypeVar("Row", Floats, Integers)


def make_cut(setting: Setting, layout: Layout) -> Cut | None:
    """Cut the layers; None where no cut fits."""
    costs = stage_costs(setting, layout)
    cut = partition(costs)
    return cut if cut is None or layout.virtual_stages == 1 else refilled(setting, layout, cut)


def refilled(setting: Setting, layout: Layout, cut: Cut) -> Cut | None:
    """Recompute as few layers as fit at each place of several stages, now that it is known which they are."""
    _, ends, ways, counts = cut.rows.copy()
    memory = np.array([run.chip_class.chip.memory_gb or 0.0 for run in layout.kinds])[numbers_of(layout)]
    spare_gb = memory - standing_gb(setting, layout, cut)
    kept, held = kind_sums(setting, layout).kept_gb, np.array(layout.held)
    step = 1 if layout.partly else 0
    if not refill(kept, numbers_of(layout), ends, (ways, counts), held, spare_gb, step):
        return None
    return Cut(ends=cut.ends, ways=tuple(ways.tolist()), counts=tuple(counts.tolist()))


def may_hold(setting: Setting, layout: Layout) -> bool:
    """Tell quickly that a layout can't hold the model: if its chips are too few for the states of all layers."""
    have = sum((run.chip_class.chip.memory_gb or 0.0) * run.places for run in layout.runs)
    return min(float(state_sums(setting, layout.way(run), layout.shares)[-1]) for run in layout.runs) <= have


def stage_costs(setting: Setting, layout: Layout) -> StageCosts:
    """Tabulate what layers cost at each stage of a layout.

    With virtual stages each stage of a place may use an equal part of what the place's fixed holdings leave.
    """
    sums, numbers, virtual = kind_sums(setting, layout), numbers_of(layout), layout.virtual_stages
    held, fixed_gb = np.array(layout.held, dtype=float), fixed_places_gb(setting, layout)
    limits = np.array([run.chip_class.chip.memory_gb or 0.0 for run in layout.kinds])[numbers]
    if virtual > 1:
        limits = (limits - fixed_gb.max(axis=1)) / virtual
        fixed_gb = np.zeros_like(fixed_gb)
    return StageCosts(
        ms=sums.total_ms,
        kept_gb=sums.kept_gb,
        state_gb=kind_states(setting, layout),
        kinds=repeated(numbers, virtual),
        held=repeated(held / virtual, virtual),
        limit_gb=repeated(limits, virtual),
        fixed_ms=fixed_ms(setting, layout),
        fixed_gb=repeated(fixed_gb, virtual),
        partly=layout.partly,
    )


def repeated(rows: Row, times: int) -> Row:
    """Repeat the rows of places for each of their stages; for a single one nothing is copied."""
    return rows if times == 1 else np.concatenate([rows] * times)


def numbers_of(layout: Layout) -> Integers:
    """Give the kind of each place."""
    return np.array(layout.numbers)


def kind_sums(setting: Setting, layout: Layout) -> PlaceSums:
    """Stack what layers cost by kind of place."""

    def work() -> PlaceSums:
        passed = layout.shares.passed
        each = [place_sums(setting, run.chip_class, layout.way(run), layout.recomputes, passed) for run in layout.kinds]
        return PlaceSums(
            forward_ms=np.stack([one.forward_ms for one in each]),
            weight_ms=np.stack([one.weight_ms for one in each]),
            backward_ms=np.stack([one.backward_ms for one in each]),
            total_ms=np.stack([one.total_ms for one in each]),
            kept_gb=np.stack([one.kept_gb for one in each]),
        )

    return worked(setting, ("kind sums", layout.kind_names, layout.how, passed_shards(layout)), work)


def passed_shards(layout: Layout) -> tuple[int, int]:
    """Name what of a layout's shards is sent in every micro-batch; cheaper to look up by than what it stands for."""
    return (layout.zero_stage, layout.shards) if layout.zero_stage > 1 else (0, 1)


def kind_states(setting: Setting, layout: Layout) -> Floats:
    """Stack what layers keep whatever is in flight by kind of place, 10^9 bytes."""
    key = ("kind states", layout.kind_names, layout.ep, layout.zero_stage, layout.shards)
    return worked(
        setting,
        key,
        lambda: np.stack([state_sums(setting, layout.way(run), layout.shares) for run in layout.kinds]),
    )


def fixed_places_gb(setting: Setting, layout: Layout) -> Floats:
    """Give what each place holds besides layers, by (place, way to recompute); 10^9 bytes."""
    depth, begins = layout.depth, 0
    rows = np.empty((depth, len(layout.recomputes)))
    if depth > 2:
        for run in layout.runs:
            # All inner places of a run hold the same.
            rows[begins : begins + run.places] = fixed_place_gb(setting, layout, 1, run)
            begins += run.places
    rows[0] = fixed_place_gb(setting, layout, 0, layout.runs[0])
    rows[-1] = fixed_place_gb(setting, layout, depth - 1, layout.runs[-1])
    return rows


def fixed_place_gb(setting: Setting, layout: Layout, place: int, run: Run) -> list[float]:
    """Give what a place of a run holds besides layers, by way to recompute; 10^9 bytes."""
    first, last = place == 0, place == layout.depth - 1
    # What an inner place holds besides layers is the same whatever is in flight.
    held = layout.held[place] if first or last else 1
    if layout.virtual_stages > 1:
        # A head's backward follows its forward at once, whatever else is in flight.
        held = 1 if last else -(-held // layout.virtual_stages)
    # No optimizer's state is held besides layers but that of the embedding and the head.
    shares = layout.shares if first or last else layout.shares.passed

    def work() -> list[float]:
        ways = [layout.way(run, recompute) for recompute in layout.recomputes]
        return [end_gb(setting, run.chip_class, first, last, holding_of(way, held, shares)) for way in ways]

    how = (run.tp, layout.how)
    shards = (layout.zero_stage, layout.shards) if first or last else passed_shards(layout)
    return worked(setting, ("fixed", run.chip_class.name, how, shards, first, last, held), work)


def fixed_ms(setting: Setting, layout: Layout) -> Floats:
    """Give the time of what each stage has besides layers."""
    times = np.zeros(layout.stages)
    for stage, cost in zip((0, -1), ends_of(setting, layout), strict=True):
        times[stage] += cost.forward_ms + cost.backward_ms
    return times


def ends_of(setting: Setting, layout: Layout) -> tuple[UnitCost, UnitCost]:
    """Time the embedding on the first stage and the head on the last."""
    head, first, last = setting.shape.num_layers, layout.runs[0], layout.runs[-1]

    def work() -> tuple[UnitCost, UnitCost]:
        passed = layout.shares.passed
        return (
            unit_times(setting, first.chip_class, EMBEDDING, layout.way(first), passed),
            unit_times(setting, last.chip_class, head, layout.way(last), passed),
        )

    names = (first.chip_class.name, first.tp, last.chip_class.name, last.tp)
    return worked(setting, ("ends of", names, layout.how, passed_shards(layout)), work)


def stage_times(setting: Setting, layout: Layout, cut: Cut) -> tuple[tuple[float, ...], ...]:
    """Give forward, backward and the weights' part of it, each by stage."""
    sums, kind = kind_sums(setting, layout), repeated(numbers_of(layout), layout.virtual_stages)
    start, end, way, count = cut.rows
    middle = start + count
    forward = sums.forward_ms[kind, end] - sums.forward_ms[kind, start]
    backward = sums.backward_ms[kind, way, middle] - sums.backward_ms[kind, way, start]
    backward += sums.backward_ms[kind, 0, end] - sums.backward_ms[kind, 0, middle]
    weight = sums.weight_ms[kind, end] - sums.weight_ms[kind, start]
    for stage, cost in zip((0, -1), ends_of(setting, layout), strict=True):
        forward[stage] += cost.forward_ms
        backward[stage] += cost.backward_ms
        weight[stage] += cost.weight_ms
    return tuple(forward.tolist()), tuple(backward.tolist()), tuple(weight.tolist())


def update_lag_ms(setting: Setting, layout: Layout, cut: Cut, forward_ms: Sequence[float]) -> float:
    """Give what the optimizer's step adds to a step: what the pipeline's first forwards don't hide of any place's."""
    kind, sums = repeated(numbers_of(layout), layout.virtual_stages), kind_updates(setting, layout)
    stages = sums[kind, cut.rows[1]] - sums[kind, cut.rows[0]]
    for stage, run, unit in ((0, layout.runs[0], EMBEDDING), (-1, layout.runs[-1], setting.shape.num_layers)):
        stages[stage] += unit_update_ms(setting, layout, run, unit)
    places = stages.reshape(layout.virtual_stages, layout.depth).sum(axis=0)
    before = np.concatenate([[0.0], np.cumsum(forward_ms[: layout.depth - 1])])
    return float(np.maximum(0.0, places - before).max())


def kind_updates(setting: Setting, layout: Layout) -> Floats:
    """Sum the optimizer's step over the layers before each, by kind of place."""

    def work() -> Floats:
        rows = []
        for run in layout.kinds:
            each = {kind: unit_update_ms(setting, layout, run, kind) for kind in set(setting.kinds)}
            rows.append(np.concatenate([[0.0], np.cumsum([each[kind] for kind in setting.kinds])]))
        return np.stack(rows)

    return worked(setting, ("kind updates", layout.kind_names, layout.ep, layout.shares.optimizer), work)


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
    sums, depth, kind = kind_sums(setting, layout), layout.depth, repeated(numbers_of(layout), layout.virtual_stages)
    start, end, way, count = cut.rows
    middle = start + count
    flying = sums.kept_gb[kind, way, middle] - sums.kept_gb[kind, way, start]
    flying += sums.kept_gb[kind, 0, end] - sums.kept_gb[kind, 0, middle]
    standing = standing_gb(setting, layout, cut).tolist()
    return tuple(
        standing[place] + most_gb(flying[place::depth].copy(), depth, layout.held[place]) for place in range(depth)
    )


def standing_gb(setting: Setting, layout: Layout, cut: Cut) -> Floats:
    """Give what each place of several stages holds whatever is in flight, 10^9 bytes."""
    states, kind = kind_states(setting, layout), repeated(numbers_of(layout), layout.virtual_stages)
    stages = states[kind, cut.rows[1]] - states[kind, cut.rows[0]]
    places: Floats = stages.reshape(layout.virtual_stages, layout.depth).sum(axis=0)
    fixed: Floats = fixed_places_gb(setting, layout).max(axis=1)
    return fixed + places


def needed_gb(setting: Setting, layout: Layout) -> float:
    """Give the least memory that the fullest rank of a layout needs, whatever its chips have; 10^9 bytes."""
    return fullest(stage_costs(setting, layout))


def sent_bytes(setting: Setting, layout: Layout) -> tuple[float, ...]:
    """Give the bytes that a rank passes over each boundary, the more of what either side has."""
    each = [payload_bytes(setting, layout.way(run)) for run in layout.kinds]
    if len(each) == 1:
        return (each[0],) * (layout.stages - 1)
    numbers = layout.numbers
    return tuple(max(each[numbers[a]], each[numbers[b]]) for a, b in boundaries(layout))


def boundaries(layout: Layout) -> list[tuple[int, int]]:
    """List the places on both sides of each boundary between stages."""
    places = [*range(layout.depth)] * layout.virtual_stages
    return list(itertools.pairwise(places))
