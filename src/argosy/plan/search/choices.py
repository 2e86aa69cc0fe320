"""What each choice of a plan is worth: the best that was found with that one choice made otherwise.

Searches anew on the chips that the plan uses, keeps what is otherwise in one trait and times the best of it; the plans
that were listed beside it are candidates too. Must not know why the planner chose.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.contracts.plan import SCHEDULES, Plan
from argosy.plan.search.fit import choose_parts
from argosy.plan.search.plans import sketch
from argosy.plan.search.predict import Timed, timed_again
from argosy.plan.search.search import Search, exchanged, has_form
from argosy.plan.telling.traits import Traits, is_sound, traits

# So many drafts are looked at for one that is otherwise, and so many of those are timed.
LOOKED_AT, TIMED = 200, 3
WITH, WITHOUT = "with them", "without them"


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
class Rival:
    """What another plan takes. cost: of 10^12 tokens, None where a price is unknown; text: it in words."""

    step_ms: float
    cost: float | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Where to look for other plans.

    search: the job's. used: the classes of the plan, with the nodes that it takes. listed: the plans that were found
    with it, by their number on the list.
    """

    search: Search
    job: Job
    classes: tuple[ChipClass, ...]
    used: tuple[ChipClass, ...]
    listed: Mapping[int, Plan]

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

    def rivals(self, texts: Mapping[int, str]) -> list[Rival]:
        """Give some of the listed plans. texts: what to say of them, by their number."""
        return [
            Rival(step_ms=told.step_ms, cost=told.cost_per_trillion_tokens, text=f"{text} (option {number})")
            for number, text in texts.items()
            if (told := self.listed[number].prediction)
        ]

    def with_class(self, name: str, wanted: bool, text: str) -> list[Rival]:
        """Give the listed plans that use a class, or those that don't."""
        users = [
            number
            for number, plan in self.listed.items()
            if any(stage.chip_class == name for replica in plan.replicas for stage in replica.stages) == wanted
        ]
        return self.rivals(dict.fromkeys(users, text))


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
    refits = [timed_again(draft) for draft in sound]
    fitting = [timed for timed in refits if timed is not None]
    there = [(one, traits(sketch(one.draft))) for one in [*found, *forced(asker, plan), *fitting]]
    large = [traits(sketch(draft)) for draft, again in zip(sound, refits, strict=True) if again is None]
    listed = {number: traits(other) for number, other in asker.listed.items()}

    def differing(name: str) -> list[Rival]:
        values = {number: found[name] for number, found in listed.items() if name in found}
        return asker.rivals({number: value for number, value in values.items() if value != here[name]})

    told = [trait_choice(plan, (name, value), there, large, differing(name)) for name, value in here.items()]
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
    plan: Plan,
    chosen: tuple[str, str],
    there: Sequence[tuple[Timed, Traits]],
    large: Sequence[Traits],
    listed: Sequence[Rival],
) -> Choice:
    """Find the best draft or listed plan that is otherwise in a trait, whatever the rest of it.

    chosen: the trait's name and value. there: timed drafts with their traits; large: traits of those that don't fit in
    memory; listed: the plans beside it that are otherwise.
    """
    name, here = chosen
    others = [(one, found[name]) for one, found in there if found.get(name, here) != here]
    values = list(dict.fromkeys(value for _, value in others))
    promising = [[pair for pair in others if pair[1] == value][:TIMED] for value in values[:TIMED]]
    drafts = [rival(timed, value) for pairs in promising for timed, value in pairs]
    found = compared(plan, name, here, [*drafts, *listed])
    too_large = dict.fromkeys(other[name] for other in large if other.get(name, here) not in (here, *values))
    return replace(found, too_large=tuple(too_large))


def class_choices(asker: Asker, plan: Plan) -> list[Choice]:
    """Tell what it would be without one of the classes in use, and with one that is left out."""
    used = asker.used
    names = {c.name for c in used}
    found = []
    for one in used if len(used) > 1 else ():
        rest = [c for c in used if c.name != one.name]
        others = [rival(timed, WITHOUT) for timed in asker.timed(rest, TIMED)]
        others += asker.with_class(one.name, False, WITHOUT)
        found.append(compared(plan, f"chips of {one.name}", "used", others))
    for one in asker.classes:
        if one.name not in names:
            others = [rival(timed, WITH) for timed in asker.timed([*used, one], TIMED)]
            others += asker.with_class(one.name, True, WITH)
            found.append(compared(plan, f"chips of {one.name}", "left out", others))
    return found


def rival(timed: Timed, text: str) -> Rival:
    """Say what a timed draft takes."""
    return Rival(step_ms=timed.timeline.step_ms, cost=timed.cost, text=text)


def compared(plan: Plan, name: str, here: str, others: Sequence[Rival]) -> Choice:
    """Set the best of others beside a plan."""
    told = plan.prediction
    if not others or told is None:
        return Choice(name=name, here=here)
    best = min(others, key=lambda one: one.step_ms)
    price, was = best.cost, told.cost_per_trillion_tokens
    return Choice(
        name=name,
        here=here,
        instead=best.text,
        step_ms=best.step_ms,
        change=best.step_ms / told.step_ms - 1,
        price_change=price / was - 1 if price and was and not plan.emulated else None,
    )
