"""What each choice of a plan is worth: the best that was found with that one choice made otherwise.

Searches anew on the chips that the plan uses, keeps what is otherwise in one trait and times the best of it. Must not
know why the planner chose.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.contracts.plan import SCHEDULES, Plan
from argosy.plan.search.drafts import refitted, sketch
from argosy.plan.search.fit import choose_parts
from argosy.plan.search.predict import Timed, time_draft
from argosy.plan.search.search import Search, exchanged, has_form
from argosy.plan.telling.traits import Traits, is_sound, traits

# So many drafts are looked at for one that is otherwise, and so many of those are timed.
LOOKED_AT, TIMED = 200, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One choice that a plan makes, beside the best other.

    name: what is chosen. here, instead: in words; instead is empty where nothing else was found that fits. change: how
    much longer a step would be, as a part of it; price_change: how much dearer a token; None where a price is unknown.
    too_large: what else was tried and does not fit in memory.
    """

    name: str
    here: str
    instead: str = ""
    step_ms: float | None = None
    change: float | None = None
    price_change: float | None = None
    too_large: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Where to look for other plans.

    search: the job's. used: the classes of the plan, with the nodes that it takes.
    """

    search: Search
    job: Job
    classes: tuple[ChipClass, ...]
    used: tuple[ChipClass, ...]

    def timed(self, classes: Sequence[ChipClass], limit: int, **freedom: Any) -> list[Timed]:
        """Time the most promising drafts on all that the job may have of some classes, best first.

        freedom: what of the search's freedom is otherwise.
        """
        found = self.search
        narrowed = replace(found.freedom, **freedom)
        search = Search(found.base, narrowed, found.batch)
        return [
            estimate.timed
            for parts in choose_parts(self.job, classes)[:1]
            for estimate in search.estimates(parts, found.batch, limit)
        ]


def choices(asker: Asker, plan: Plan) -> tuple[Choice, ...]:
    """Tell what each choice of a plan is worth, those that matter most first."""
    here = traits(plan)
    found = asker.timed(asker.used, LOOKED_AT)
    like = [one.draft for one in found if traits(sketch(one.draft)) == here][:1]
    freedom = asker.search.freedom
    stages = sorted({family.zero_stage for family in asker.search.families})
    sharded = [replace(draft, zero_stage=stage) for draft in like for stage in stages]
    changed = [other for draft in sharded for other in exchanged(draft, freedom)]
    changed += [replace(draft, schedule=name) for draft in like for name in SCHEDULES]
    sound = [draft for draft in changed if has_form(draft, freedom) and is_sound(sketch(draft))]
    refits = [refitted(draft) for draft in sound]
    fitting = [time_draft(draft) for draft in refits if draft is not None]
    there = [(one, traits(sketch(one.draft))) for one in [*found, *forced(asker, plan), *fitting]]
    large = [traits(sketch(draft)) for draft, again in zip(sound, refits, strict=True) if again is None]
    told = [trait_choice(plan, name, value, there, large) for name, value in here.items()]
    # Nobody asks about an axis that has one value in all there is.
    kept = [choice for choice in told if choice.instead or choice.name.split(" on ")[0] not in ("CP", "EP")]
    return tuple(sorted([*class_choices(asker, plan), *kept], key=lambda choice: -(choice.change or 0.0)))


def forced(asker: Asker, plan: Plan) -> Iterator[Timed]:
    """Time promising drafts for which a choice that the search may have passed by is forced otherwise.

    Those are the TP degree of each class, the size of micro-batches and the way to recompute.
    """
    stages = [stage for replica in plan.replicas for stage in replica.stages]
    for name in dict.fromkeys(stage.chip_class for stage in stages):
        used = {(name, stage.tp) for stage in stages if stage.chip_class == name}
        yield from asker.timed(asker.used, TIMED, without_tps=tuple(sorted(used)))
    freedom = asker.search.freedom
    for size in set(freedom.sizes) - {replica.microbatch_size for replica in plan.replicas}:
        yield from asker.timed(asker.used, TIMED, sizes=(size,))
    for recompute in set(freedom.recomputes) - {stage.recompute for stage in stages}:
        yield from asker.timed(asker.used, TIMED, recomputes=(recompute,))


def best_step_ms(asker: Asker) -> float | None:
    """Time the best that is found on the classes of a plan, as they are given; None where nothing fits."""
    return min((one.timeline.step_ms for one in asker.timed(asker.used, TIMED)), default=None)


def trait_choice(
    plan: Plan, name: str, here: str, there: Sequence[tuple[Timed, Traits]], large: Sequence[Traits]
) -> Choice:
    """Find the best draft that is otherwise in a trait, whatever the rest of it.

    there: timed drafts with their traits; large: traits of those that don't fit in memory.
    """
    others = [(one, found[name]) for one, found in there if found.get(name, here) != here]
    values = list(dict.fromkeys(value for _, value in others))
    promising = [[pair for pair in others if pair[1] == value][:TIMED] for value in values[:TIMED]]
    found = compared(plan, name, here, [pair for pairs in promising for pair in pairs])
    too_large = dict.fromkeys(other[name] for other in large if other.get(name, here) not in (here, *values))
    return replace(found, too_large=tuple(too_large))


def class_choices(asker: Asker, plan: Plan) -> list[Choice]:
    """Tell what it would be without one of the classes in use, and with one that is left out."""
    used = asker.used
    names = {c.name for c in used}
    found = []
    for one in used if len(used) > 1 else ():
        rest = [c for c in used if c.name != one.name]
        others = [(timed, "without them") for timed in asker.timed(rest, TIMED)]
        found.append(compared(plan, f"chips of {one.name}", "used", others))
    for one in asker.classes:
        if one.name not in names:
            others = [(timed, "with them") for timed in asker.timed([*used, one], TIMED)]
            found.append(compared(plan, f"chips of {one.name}", "left out", others))
    return found


def compared(plan: Plan, name: str, here: str, others: Sequence[tuple[Timed, str]]) -> Choice:
    """Set the best of other drafts beside a plan. others: each with the words for it."""
    told = plan.prediction
    if not others or told is None:
        return Choice(name=name, here=here)
    best, text = min(others, key=lambda pair: pair[0].timeline.step_ms)
    price, was = best.cost, told.cost_per_trillion_tokens
    return Choice(
        name=name,
        here=here,
        instead=text,
        step_ms=best.timeline.step_ms,
        change=best.timeline.step_ms / told.step_ms - 1,
        price_change=price / was - 1 if price and was and not plan.emulated else None,
    )
