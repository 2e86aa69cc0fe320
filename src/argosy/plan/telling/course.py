"""What a whole job takes by a plan: how long, until when, for how much; and whether that is in time.

Knows no clock: it is told what time it is. Must not choose.
"""

import datetime
from dataclasses import dataclass

from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.plan.telling.explain import marked, predicted, time_text

TOKENS_PRICED = 1e12
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
# The hour of the end is told while it is less than this away.
HOURS_TOLD_S = 2 * DAY_S
CENT = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """All steps of a job by one plan, checkpoints and faults left out.

    ends: about when, an ISO date-time. left_s: until the deadline, if there is one. in_time: before the deadline and
    within the time limit; None where there is neither. dollars: for the chips in use; None where a price is unknown or
    chips are emulated.
    """

    steps: int
    seconds: float
    ends: str
    deadline: str | None
    left_s: float | None
    time_limit_s: float | None
    in_time: bool | None
    dollars: float | None
    emulated: bool


def course(plan: Plan, job: Job, now: datetime.datetime, seconds_left: float | None) -> Course:
    """Work out what a job takes by a plan. seconds_left: until its deadline, if it has one."""
    told, train = predicted(plan), job.train
    seconds = train.steps * told.step_ms / 1e3
    limits = [limit for limit in (job.time_limit_s, seconds_left) if limit is not None]
    tokens = train.steps * train.global_batch_size * train.sequence_length
    price = None if plan.emulated else told.cost_per_trillion_tokens
    return Course(
        steps=train.steps,
        seconds=seconds,
        ends=end_of(now, seconds),
        deadline=job.objective.deadline,
        left_s=seconds_left,
        time_limit_s=job.time_limit_s,
        in_time=all(seconds <= limit for limit in limits) if limits else None,
        dollars=None if price is None else price * tokens / TOKENS_PRICED,
        emulated=plan.emulated,
    )


def end_of(now: datetime.datetime, seconds: float) -> str:
    """Tell when so many seconds are over; empty beyond the calendar."""
    try:
        return (now + datetime.timedelta(seconds=seconds)).isoformat(timespec="seconds")
    except OverflowError:
        return ""


def course_line(told: Course) -> str:
    """Say it in a line: `10,000 steps: 15.4 days (ends about 2026-12-16; deadline 2026-12-24), $36 k`."""
    ends = told.ends[:10] if told.seconds >= HOURS_TOLD_S else told.ends[:16].replace("T", " ")
    notes = [f"ends about {ends}"] if ends and told.seconds >= HOUR_S else []
    if told.deadline:
        notes.append(f"deadline {told.deadline}")
    took = marked(duration_text(told.seconds), told.emulated)
    steps = f"{told.steps:,} step{'' if told.steps == 1 else 's'}: {took}"
    cost = "" if told.dollars is None else f", {money_text(told.dollars)}"
    return f"{steps} ({'; '.join(notes)}){cost}" if notes else f"{steps}{cost}"


def late_lines(told: Course, plan: Plan) -> list[str]:
    """Say which limits a plan misses, by how much, and what would be in time; nothing where it is.

    plan: the one that the course is of, the fastest that was found if none is in time.
    """
    return [
        late_line(told, plan, name, limit_s, way)
        for name, limit_s, way in (
            ("time_limit", told.time_limit_s, f"time_limit: {-(-told.seconds // HOUR_S):.0f}h"),
            (f"the deadline {told.deadline}", told.left_s, "a later deadline"),
        )
        if limit_s is not None and told.seconds > limit_s
    ]


def late_line(told: Course, plan: Plan, name: str, limit_s: float, way: str) -> str:
    """Say that a limit is missed. way: which limit would not be."""
    step_ms, gap = told.seconds / told.steps * 1e3, predicted(plan).gap
    needed_ms, steps = limit_s / told.steps * 1e3, int(limit_s / told.seconds * told.steps)
    took, over = (marked(duration_text(each), told.emulated) for each in (told.seconds, told.seconds - limit_s))
    allowed = duration_text(limit_s)
    least_ms = step_ms / (1 + gap) if gap is not None else 0.0
    proven = f" (none here takes less than {time_text(least_ms)}, proven)" if needed_ms < least_ms else ""
    fewer = f", {steps:,} step{'' if steps == 1 else 's'}" if steps else ""
    return (
        f"too late: {name} leaves {allowed} and all steps take {took}, {over} too long; no plan that was found is in "
        f"time. In time would be steps of {time_text(needed_ms)}{proven}{fewer}, or {way}."
    )


def duration_text(seconds: float) -> str:
    """Write a duration with a unit that suits it.

    >>> duration_text(90), duration_text(5400), duration_text(30 * 3600), duration_text(1330560)
    ('1.5 min', '1.5 h', '30.0 h', '15.4 days')
    """
    for unit_s, unit in ((DAY_S, "days"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if seconds >= 1.5 * unit_s:
            return f"{seconds / unit_s:,.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def money_text(dollars: float) -> str:
    """Write a sum without more digits than it is known to.

    >>> money_text(36_120), money_text(1_234.4), money_text(0.052)
    ('$36.1 k', '$1,234', '$0.052')
    >>> money_text(0.0000012)
    'under $0.01'
    """
    if 0 < dollars < CENT:
        return "under $0.01"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if dollars >= limit:
            return f"${dollars / (1e3 if unit == 'k' else limit):,.3g} {unit}"
    return f"${dollars:,.0f}" if dollars >= 100 else f"${dollars:.2g}"
