"""The least time that a step could take on given chips, whatever the plan: a linear program over work, not over plans.

Proof. Take any plan of the forms that the planner knows. Every sequence of the batch passes every unit once, forward
and backward, on some stage; let x(c, u) be how many pass unit u on class c, so that sum over c of x(c, u) = batch. A
stage on tp x cp x ep chips that takes ep micro-batches of n sequences at once keeps its chips busy with unit u for at
least (forward + backward) x tp x cp / n chip-ms a sequence; let a(c, u) be the least of that over all ways to lay it,
without recompute, with all weights at home. No chip works on two things at once, and none works before a step's barrier
for the step after, so sum over u of a(c, u) x(c, u) <= chips(c) x step for every class. The program below minimises
step under these conditions alone: memory, pipelines, bubbles, messages between stages, gradients and updates can only
add to it. Besides, one micro-batch goes through all units one after the other, so a step is no shorter than the sum of
the least times of units, weights' gradients left out since they may wait. QED. Must not know how plans are found.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import linprog

from argosy.contracts.plan import EMBEDDING
from argosy.plan.costs.setting import Setting
from argosy.plan.costs.tables import unit_times, worked
from argosy.plan.pipelines.grid import Freedom, Part, ways
from argosy.plan.pipelines.layouts import Layout


def least_step_ms(setting: Setting, parts: Sequence[Part], batch: int, freedom: Freedom) -> float:
    """Give a time that no step of a batch on these chips is shorter than; 0 where nothing can be said."""
    if len(freedom.sizes) > 1:
        # The search tries only some sizes; the bound is for all, of which the largest wastes least.
        freedom = replace(freedom, sizes=tuple(sorted({*freedom.sizes, batch})))
    key = ("least", tuple((part.chip_class.name, part.chips) for part in parts), batch, freedom)
    return worked(
        setting, key, lambda: max(_shared_ms(setting, parts, batch, freedom), _alone_ms(setting, parts, freedom))
    )


def _shared_ms(setting: Setting, parts: Sequence[Part], batch: int, freedom: Freedom) -> float:
    """Solve the program: minimise step; variables are x(c, u) by class, then like units, and last the step."""
    likes = unit_counts(setting)
    costs = np.array([[least_chip_ms(setting, part, unit, freedom) for unit in likes] for part in parts])
    usable = np.isfinite(costs)
    if not usable.any(axis=0).all():
        return 0.0
    classes, units = costs.shape
    # In parts of the batch and of the longest of the times, so that the solver meets numbers near 1.
    scale = float(costs[usable].max())
    busy = np.zeros((classes, classes * units + 1))
    passed = np.zeros((units, classes * units + 1))
    for c in range(classes):
        busy[c, c * units : (c + 1) * units] = np.where(usable[c], costs[c], 0.0) / scale
        busy[c, -1] = -float(parts[c].chips)
        passed[:, c * units : (c + 1) * units] = np.eye(units)
    goal = np.zeros(classes * units + 1)
    goal[-1] = 1.0
    solved = linprog(
        goal,
        A_ub=busy,
        b_ub=np.zeros(classes),
        A_eq=passed,
        b_eq=np.array([float(count) for count in likes.values()]),
        bounds=[(0, None if fine else 0) for fine in usable.ravel()] + [(0, None)],
        method="highs",
    )
    return float(solved.fun) * scale * batch * (1 - 1e-9) if solved.status == 0 else 0.0


def unit_counts(setting: Setting) -> Counter[int]:
    """Count like units: the embedding, each kind of layer, the head."""
    return Counter([EMBEDDING, *setting.kinds, setting.shape.num_layers])


def least_chip_ms(setting: Setting, part: Part, unit: int, freedom: Freedom) -> float:
    """Give the least chip-ms that a sequence takes through a unit on a class, over all ways to lay it."""
    key = ("least chip ms", part.chip_class.name, setting.kind(unit), freedom)
    laid = _ways(setting, part, freedom)
    return worked(setting, key, lambda: min((_chip_ms(setting, layout, unit) for layout in laid), default=np.inf))


def _ways(setting: Setting, part: Part, freedom: Freedom) -> list[Layout]:
    """List all ways to lay a place of a class; once, for many parts share a class."""
    key = ("ways", part.chip_class.name, freedom)
    return worked(setting, key, lambda: list(ways(setting, [part.chip_class], freedom)))


def _chip_ms(setting: Setting, layout: Layout, unit: int) -> float:
    run = layout.runs[0]
    cost = unit_times(setting, run.chip_class, unit, layout.way(run))
    return (cost.forward_ms + cost.backward_ms) * run.tp * layout.cp / layout.microbatch_size


def _alone_ms(setting: Setting, parts: Iterable[Part], freedom: Freedom) -> float:
    """Give the least time of one micro-batch through all units, each where it is quickest."""
    total = sum(
        count * min((_pass_ms(setting, part, unit, freedom) for part in parts), default=0.0)
        for unit, count in unit_counts(setting).items()
    )
    return total if np.isfinite(total) else 0.0


def _pass_ms(setting: Setting, part: Part, unit: int, freedom: Freedom) -> float:
    """Give the least time of one micro-batch through a unit on a class; endless where there is no way."""

    def work() -> float:
        laid = _ways(setting, part, freedom)
        costs = [unit_times(setting, part.chip_class, unit, one.way(one.runs[0])) for one in laid]
        return min((cost.forward_ms + cost.backward_ms - cost.weight_ms for cost in costs), default=np.inf)

    return worked(setting, ("pass", part.chip_class.name, setting.kind(unit), freedom), work)
