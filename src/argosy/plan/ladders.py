"""The sizes of an option out of the plans that were found for them: which are worth offering, and in what words.

Must not know how plans are found.
"""

from collections.abc import Sequence

from argosy.contracts.option import Option, Part, Size
from argosy.contracts.plan import Plan, Prediction
from argosy.plan.folding import Folded, fold

Sizes = dict[tuple[int, ...], Plan]
"""Nodes of each class -> the plan for them."""


def laddered(
    names: Sequence[str], found: Sizes, job: str, valid_until_us: int | None
) -> tuple[Option, tuple[Folded, ...]]:
    """Make an option of plans on some classes, and the folded plan of each size that is worth offering."""
    sizes = without_useless(found)
    ladder = tuple(size_of(names, nodes, plan) for nodes, plan in sizes.items())
    option = Option(name=" + ".join(names), job=job, ladder=ladder, valid_until_us=valid_until_us)
    return option, tuple(fold(plan) for plan in sizes.values())


def keep_faster(sizes: Sizes, nodes: tuple[int, ...], plan: Plan) -> None:
    """Keep a plan for its nodes unless a faster one is known."""
    known = sizes.get(nodes)
    if known is None or speed(plan) > speed(known):
        sizes[nodes] = plan


def without_useless(sizes: Sizes) -> Sizes:
    """Keep the sizes that are faster than all that take no more nodes of any class; largest first."""
    kept = {}
    for nodes, plan in sizes.items():
        smaller = [
            other
            for at, other in sizes.items()
            if at != nodes and all(few <= many for few, many in zip(at, nodes, strict=True))
        ]
        if all(speed(plan) > speed(other) for other in smaller):
            kept[nodes] = plan
    return dict(sorted(kept.items(), key=lambda item: (sum(item[0]), item[0]), reverse=True))


def size_of(names: Sequence[str], nodes: Sequence[int], plan: Plan) -> Size:
    """Say what a plan needs and what it is worth, in the scheduler's words."""
    told = told_of(plan)
    level = "node" if sum(nodes) == 1 else "site"
    return Size(
        parts=tuple(Part(chip_class=name, nodes=n, topology=level) for name, n in zip(names, nodes, strict=True)),
        tokens_per_second=told.tokens_per_second,
        efficiency=told.efficiency,
        cost_per_trillion_tokens=told.cost_per_trillion_tokens,
        power_kw=told.power_kw,
        emulated=plan.emulated,
    )


def speed(plan: Plan) -> float:
    """Give a plan's predicted tokens a second."""
    return told_of(plan).tokens_per_second


def told_of(plan: Plan) -> Prediction:
    """Give a plan's prediction, which the planner makes for each."""
    if plan.prediction is None:
        raise ValueError("a plan without a prediction can't be offered")
    return plan.prediction
