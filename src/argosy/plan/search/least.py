"""The least time that a step could take on given chips, whatever the plan: a linear program over work, not over plans.

Proof. Take any plan of the forms that the planner knows. Every sequence of the batch passes every unit once, forward
and backward, on some stage of some class c laid some way w: tp x cp x ep chips take ep micro-batches of n sequences at
once. Let x(c, u, w) be how many sequences pass unit u so; over c and w they sum up to the batch.

Chips: a sequence keeps chips of c busy with u for a = (forward + backward) x tp x cp / n chip-ms or more: without
recompute, with all weights at home. No chip works on two things at once, and none works before a step's barrier for
the step after, so sum of a x over u and w <= chips(c) x step. Where the job may have fewer chips than all, or only so
much power, the same holds of all its classes together.

Sequences: a sequence is at one unit at a time, for e = forward + backward - (weights' gradients, which may wait) ms of
its micro-batch, and is under way for no longer than the step, so sum of e x over all <= batch x step.

The program minimises the step under these conditions alone: memory, pipelines, bubbles, messages between stages,
gradients and updates can only add to it. QED.

It is a bound for the ways there are: TP within a node, CP and EP as far as the search goes, micro-batches of every
size. By the roofline e grows with n and a falls, so for sizes between two that are looked at the a of the larger and
the e of the smaller are no more than theirs; where a profile was measured, sizes that it has no times for are none.
Must not know how plans are found.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog

from argosy.contracts.plan import EMBEDDING
from argosy.plan.costs.measured import Measured, profile_for
from argosy.plan.costs.setting import Setting
from argosy.plan.costs.tables import unit_times, worked
from argosy.plan.pipelines.grid import Freedom, Part, ways
from argosy.plan.pipelines.layouts import Layout
from argosy.plan.pipelines.partition import Floats

Point = tuple[float, float]
"""Chip-ms that a sequence takes through a unit, and ms that it is under way there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """What a plan may use at most of all chips together: how many, and kW at their rated power; None: no limit."""

    chips: int | None = None
    power_kw: float | None = None


NO_CAPS = Caps()


def least_step_ms(setting: Setting, parts: Sequence[Part], batch: int, freedom: Freedom, caps: Caps = NO_CAPS) -> float:
    """Give a time that no step of a batch on these chips is shorter than; 0 where nothing can be said."""
    key = ("least", tuple((part.chip_class.name, part.chips) for part in parts), batch, freedom, caps)
    return worked(setting, key, lambda: _least_ms(setting, parts, batch, freedom, caps))


def _least_ms(setting: Setting, parts: Sequence[Part], batch: int, freedom: Freedom, caps: Caps) -> float:
    """Solve the program: variables are x in parts of the batch, by class, like units and way, and last the step."""
    likes = unit_counts(setting)
    rows = [
        (c, u, point)
        for c, part in enumerate(parts)
        for u, unit in enumerate(likes)
        for point in unit_points(setting, part, unit, freedom, batch)
    ]
    if not parts or {u for _, u, _ in rows} != set(range(len(likes))):
        return 0.0
    # Times in parts of the longest, so that the solver meets numbers near 1.
    scale = max(chip_ms for _, _, (chip_ms, _) in rows)
    busy = np.zeros((len(parts) + 1, len(rows) + 1))
    passed = np.zeros((len(likes), len(rows) + 1))
    for column, (c, u, (chip_ms, way_ms)) in enumerate(rows):
        busy[c, column] = chip_ms / scale
        busy[-1, column] = way_ms / scale
        passed[u, column] = 1.0
    busy[:, -1] = [*(-float(part.chips) for part in parts), -float(batch)]
    busy = np.vstack([busy, *_capped(parts, busy[:-1], caps)])
    goal = np.zeros(len(rows) + 1)
    goal[-1] = 1.0
    solved = linprog(
        goal,
        A_ub=busy,
        b_ub=np.zeros(len(busy)),
        A_eq=passed,
        b_eq=np.array([float(count) for count in likes.values()]),
        bounds=(0, None),
        method="highs",
    )
    return float(solved.fun) * scale * batch * (1 - 1e-9) if solved.status == 0 else 0.0


def unit_counts(setting: Setting) -> Counter[int]:
    """Count like units: the embedding, each kind of layer, the head."""
    return Counter([EMBEDDING, *setting.kinds, setting.shape.num_layers])


def unit_points(setting: Setting, part: Part, unit: int, freedom: Freedom, batch: int) -> list[Point]:
    """List what a sequence through a unit costs on a class, of all ways to lay it those that none is better than."""
    chip_class, kind = part.chip_class, setting.kind(unit)

    def work() -> list[Point]:
        found: list[Point] = []
        for laid in _ways(setting, part, freedom, batch).values():
            points = [_point(setting, layout, kind) for layout in laid]
            found += points
            if profile_for(setting.measured, chip_class) is None and len(freedom.sizes) > 1:
                found += [(larger[0], smaller[1]) for smaller, larger in itertools.pairwise(points)]
        kept: list[Point] = []
        for point in sorted(found, key=lambda one: (one[1], one[0])):
            if not kept or point[0] < kept[-1][0]:
                kept.append(point)
        return kept

    return worked(setting, ("least points", chip_class.name, kind, freedom, batch), work)


def _ways(setting: Setting, part: Part, freedom: Freedom, batch: int) -> dict[object, list[Layout]]:
    """List all ways to lay a place of a class, by degrees and recompute, smaller micro-batches first.

    Once, many parts share one.
    """

    def work() -> dict[object, list[Layout]]:
        found: dict[object, list[Layout]] = {}
        sizes = sorted(set(_sizes(setting, part, freedom, batch)))
        for layout in ways(setting, [part.chip_class], replace(freedom, sizes=tuple(sizes))):
            found.setdefault((layout.runs[0].tp, layout.cp, layout.ep, layout.recomputes), []).append(layout)
        return found

    return worked(setting, ("least ways", part.chip_class.name, freedom, batch), work)


def _sizes(setting: Setting, part: Part, freedom: Freedom, batch: int) -> Iterable[int]:
    """Give the sizes of micro-batches to look at: those measured, else those tried and the whole batch."""
    if len(freedom.sizes) == 1:
        return freedom.sizes
    measured = profile_for(setting.measured, part.chip_class)
    return _measured_sizes(measured, part) if measured else (*freedom.sizes, batch)


def _measured_sizes(measured: Measured, part: Part) -> list[int]:
    tables = [table for (chip, _, _), table in measured.entries.items() if chip == part.chip_class.chip.name]
    return [entry.microbatch_size for table in tables for entry in table.values()]


def _point(setting: Setting, layout: Layout, unit: int) -> Point:
    run = layout.runs[0]
    cost = unit_times(setting, run.chip_class, unit, layout.way(run))
    whole_ms = cost.forward_ms + cost.backward_ms
    return whole_ms * run.tp * layout.cp / layout.microbatch_size, whole_ms - cost.weight_ms


def _capped(parts: Sequence[Part], of_classes: Floats, caps: Caps) -> list[Floats]:
    """Give what holds of all classes together: rows of the program."""
    rows = []
    kw = np.array([(part.chip_class.chip.tdp_w or 0.0) / 1e3 for part in parts])
    for weights, cap in ((np.ones(len(parts)), caps.chips), (kw, caps.power_kw)):
        if cap is not None:
            rows.append(np.append(weights @ of_classes[:, :-1], -float(cap)))
    return rows
