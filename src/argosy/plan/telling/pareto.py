"""The Pareto front of a job's plans: those that no other beats in speed, price, power and chips together.

Gathers, compares and words them. Must not prefer one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.plan.telling.course import duration_text, money_text
from argosy.plan.telling.explain import (
    chips_text,
    marked,
    plan_chips,
    predicted,
    price_text,
    rate_text,
    share_text,
    time_text,
)
from argosy.plan.telling.prices import price_line

SHOWN_MAX = 12
TRILLION = 1e12
UNKNOWN = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What plans are compared by; of all but tokens_per_second less is better. None where a price or power is unknown.

    gap: how far the step may be from the least that the chips in use allow; None where no bound is known.
    chips_by_class: how many of each; by their sum alone plans are compared.
    """

    tokens_per_second: float
    cost_per_trillion_tokens: float | None
    power_kw: float | None
    chips: int
    gap: float | None = None
    chips_by_class: dict[str, int] = field(default_factory=dict)

    def beats(self, other: "Figures") -> bool:
        """Tell whether this is no worse in anything and better in something; what is unknown beats nothing."""
        return self.key != other.key and all(a <= b for a, b in zip(self.key, other.key, strict=True))

    @property
    def key(self) -> tuple[float, ...]:
        """All that is compared, less being better."""
        cost, power = (UNKNOWN if one is None else one for one in (self.cost_per_trillion_tokens, self.power_kw))
        return -self.tokens_per_second, cost, power, float(self.chips)


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """What is left of many plans.

    plans: those that no other beats, fastest first. beaten: the others' figures, for a picture.
    """

    plans: tuple[Plan, ...]
    beaten: tuple[Figures, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontRow:
    """One plan of a front in words. best: what it is best at. whole: all steps of the job, and their price."""

    chips: str
    step: str
    tokens_per_second: str
    cost: str
    power: str
    whole: str
    gap: str
    best: str


def pareto_front(plans: Sequence[Plan]) -> Front:
    """Keep the plans that no other beats, fastest first; of equal ones the first."""
    told = [figures_of(plan) for plan in plans]
    unlike = {each.key: (each, plan) for each, plan in zip(reversed(told), reversed(plans), strict=True)}
    ordered = [unlike[key] for key in sorted(unlike)]
    beaten = [figures for figures, _ in ordered if any(other.beats(figures) for other, _ in ordered)]
    return Front(plans=tuple(plan for figures, plan in ordered if figures not in beaten), beaten=tuple(beaten))


def figures_of(plan: Plan) -> Figures:
    """Read a plan's figures off its prediction; chips that are played have no price."""
    told = predicted(plan)
    return Figures(
        tokens_per_second=told.tokens_per_second,
        cost_per_trillion_tokens=None if plan.emulated else told.cost_per_trillion_tokens,
        power_kw=told.power_kw,
        chips=sum(plan_chips(plan).values()),
        gap=told.gap,
        chips_by_class=plan_chips(plan),
    )


def front_notes(front: Front, classes: Sequence[ChipClass]) -> list[str]:
    """Say what the gaps and the prices of a front are; nothing of what it has none of."""
    gaps = "gap: how much longer a step is than the least that is proven for the chips of its row (loose)."
    known = any(predicted(plan).gap is not None for plan in front.plans)
    return [*filter(None, [gaps if known else "", price_line(front.plans, classes)])]


def front_rows(front: Front, job: Job, classes: Sequence[ChipClass]) -> list[FrontRow]:
    """Word the plans of a front, at most SHOWN_MAX of them: those best at something, others spread between them.

    classes: of the whole fleet, for kinds of chips that several have are told apart.
    """
    bests, names = best_at(front.plans), [one.name for one in classes]
    rows = shown(len(front.plans), list(bests))
    return [front_row(front.plans[index], job, bests.get(index, ""), names) for index in rows]


def shown(count: int, always: Sequence[int]) -> list[int]:
    """Choose which of so many rows are shown.

    >>> shown(5, [0]), shown(100, [0, 99, 50])
    ([0, 1, 2, 3, 4], [0, 11, 22, 33, 44, 50, 55, 66, 77, 88, 99])
    """
    if count <= SHOWN_MAX:
        return list(range(count))
    spread = SHOWN_MAX - len(always)
    return sorted({*always, *(index * count // spread for index in range(spread))})


def best_at(plans: Sequence[Plan]) -> dict[int, str]:
    """Say of the best plans what they are best at, by their place in the list."""
    told = [figures_of(plan) for plan in plans]
    axes: dict[str, list[float | None]] = {
        "fastest": [-each.tokens_per_second for each in told],
        "cheapest": [each.cost_per_trillion_tokens for each in told],
        "least power": [each.power_kw for each in told],
        "fewest chips": [each.chips for each in told],
    }
    found: dict[int, str] = {}
    for name, values in axes.items():
        known = {index: value for index, value in enumerate(values) if value is not None}
        if known:
            index = min(known, key=known.__getitem__)
            found[index] = f"{found[index]}, {name}" if index in found else name
    return found


def front_row(plan: Plan, job: Job, best: str, classes: Sequence[str]) -> FrontRow:
    """Word one plan. classes: the names of all that the fleet has."""
    told, figures = predicted(plan), figures_of(plan)
    cost = figures.cost_per_trillion_tokens
    seconds = job.train.steps * told.step_ms / 1e3
    whole = marked(duration_text(seconds), plan.emulated)
    tokens = job.train.steps * job.train.global_batch_size * job.train.sequence_length
    return FrontRow(
        chips=chips_text(plan, classes),
        step=marked(time_text(told.step_ms), plan.emulated),
        tokens_per_second=marked(rate_text(told.tokens_per_second), plan.emulated),
        cost="-" if cost is None else price_text(cost),
        power="-" if figures.power_kw is None else f"{figures.power_kw:,.3g} kW",
        whole=whole if cost is None else f"{whole}, {money_text(cost * tokens / TRILLION)}",
        gap="-" if told.gap is None else marked(share_text(told.gap), plan.emulated),
        best=best,
    )
