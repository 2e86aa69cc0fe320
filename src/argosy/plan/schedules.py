"""The order in which each pipeline stage runs its forwards and backwards.

The same orders as torch.distributed.pipelining's ScheduleGPipe and Schedule1F1B (torch 2.13), so that a timeline of
them is a timeline of what the trainer runs. Must not know times.
"""

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import SCHEDULES

FORWARD = "F"
BACKWARD = "B"


def stage_order(schedule: str, stage: int, stages: int, microbatches: int) -> tuple[tuple[str, int], ...]:
    """List one stage's work as (F or B, micro-batch), first to last.

    >>> stage_order("1f1b", 0, 2, 3)
    (('F', 0), ('F', 1), ('B', 0), ('F', 2), ('B', 1), ('B', 2))
    """
    check_schedule(schedule, stages, microbatches)
    if schedule == "gpipe":
        kinds = FORWARD * microbatches + BACKWARD * microbatches
    else:
        warmup = warmup_forwards(stage, stages, microbatches)
        kinds = FORWARD * warmup + (BACKWARD + FORWARD) * (microbatches - warmup) + BACKWARD * warmup
    return numbered(kinds)


def numbered(kinds: str) -> tuple[tuple[str, int], ...]:
    """Give each kind of work its own count of micro-batches from 0."""
    seen = {FORWARD: 0, BACKWARD: 0}
    order: list[tuple[str, int]] = []
    for kind in kinds:
        order.append((kind, seen[kind]))
        seen[kind] += 1
    return tuple(order)


def warmup_forwards(stage: int, stages: int, microbatches: int) -> int:
    """Count the forwards that a 1F1B stage runs before its first backward: its distance from the pipeline's end."""
    return min(microbatches, stages - stage)


def held_microbatches(schedule: str, stage: int, stages: int, microbatches: int) -> int:
    """How many micro-batches' activations a stage holds at most.

    >>> held_microbatches("1f1b", 1, 4, 16), held_microbatches("gpipe", 1, 4, 16)
    (3, 16)
    """
    return microbatches if schedule == "gpipe" else warmup_forwards(stage, stages, microbatches)


def check_schedule(schedule: str, stages: int, microbatches: int) -> None:
    """Refuse what the trainer would refuse: unknown schedules, and 1F1B with fewer micro-batches than stages."""
    if schedule not in SCHEDULES:
        raise BadInputError(f"no schedule {schedule!r}; there are: {', '.join(SCHEDULES)}")
    if microbatches < 1:
        raise BadInputError(f"a replica with {microbatches} micro-batches does nothing; it needs at least 1")
    if schedule == "1f1b" and microbatches < stages:
        raise BadInputError(
            f"schedule 1f1b can't run {microbatches} micro-batches through {stages} stages: it needs one a stage; "
            "use gpipe, more micro-batches or fewer stages"
        )


def choose_schedule(stages: int, microbatches: int) -> str:
    """Pick 1f1b, which holds the fewest activations, wherever it runs; else gpipe."""
    return "1f1b" if microbatches >= stages else "gpipe"
