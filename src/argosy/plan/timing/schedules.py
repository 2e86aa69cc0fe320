"""The order in which each place of a pipeline runs forwards and backwards, and what it holds meanwhile.

The orders of torch.distributed.pipelining (2.13), so that a timeline of them is a timeline of what the trainer runs;
interleaved is Megatron-LM's too (arXiv 2104.04473). zero-bubble is ZB-H1 (arXiv 2401.10241): backward is split into the
part for the stage before (B) and the part for the own weights (W), which waits until it fills a gap. All are one rule:
so many forwards first, then a forward and a backward in turn. Must not know times.
"""

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import SCHEDULES
from argosy.plan.timing.rounds import chunk_of, next_kind

FORWARD = "F"
BACKWARD = "B"
WEIGHT = "W"
KINDS = (FORWARD, BACKWARD, WEIGHT)

Work = tuple[str, int, int]
"""One piece of work: F, B or W, the stage it belongs to, its micro-batch."""


def place_order(schedule: str, place: int, places: int, microbatches: int, virtual_stages: int = 1) -> tuple[Work, ...]:
    """List one place's work, first to last.

    >>> place_order("1f1b", 0, 2, 2)
    (('F', 0, 0), ('F', 0, 1), ('B', 0, 0), ('B', 0, 1))
    >>> place_order("zero-bubble", 1, 2, 2)
    (('F', 1, 0), ('B', 1, 0), ('F', 1, 1), ('B', 1, 1), ('W', 1, 0), ('W', 1, 1))
    """
    check_schedule(schedule, places, microbatches, virtual_stages)
    total = microbatches * virtual_stages
    warmup = warmup_forwards(schedule, place, places, microbatches, virtual_stages)
    lag = weight_lag(schedule, place)
    done = [0, 0, 0]
    order: list[Work] = []
    while (kind := next_kind(done[0], done[1], done[2], total, warmup, lag)) >= 0:
        chunk, microbatch = chunk_of(kind, done[kind], places, virtual_stages)
        order.append((KINDS[kind], chunk * places + place, microbatch))
        done[kind] += 1
    return tuple(order)


def warmup_forwards(schedule: str, place: int, places: int, microbatches: int, virtual_stages: int = 1) -> int:
    """Count the forwards that a place runs before its first pair of a forward and a backward."""
    after = places - 1 - place
    if schedule == "gpipe":
        return microbatches
    if schedule == "interleaved":
        return min((virtual_stages - 1) * places + 2 * after, microbatches * virtual_stages)
    return min(after, microbatches)


def weight_lag(schedule: str, place: int) -> int:
    """Count the backwards whose weights' gradients wait at a place; -1 where backward makes them at once.

    In ZB-H1 every place so has as many micro-batches in flight as the first.
    """
    return place if schedule == "zero-bubble" else -1


def held_microbatches(schedule: str, place: int, places: int, microbatches: int, virtual_stages: int = 1) -> int:
    """How many micro-batches' activations a place holds at most, each of one of its stages.

    With zero-bubble a micro-batch counts until its weights' gradients are made, though part of it is free before.

    >>> [held_microbatches("1f1b", place, 4, 16) for place in range(4)], held_microbatches("gpipe", 1, 4, 16)
    ([4, 3, 2, 1], 16)
    >>> [held_microbatches("interleaved", place, 4, 16, 2) for place in range(4)]
    [11, 9, 7, 5]
    """
    in_flight = warmup_forwards(schedule, place, places, microbatches, virtual_stages) + 1
    return min(in_flight + max(0, weight_lag(schedule, place)), microbatches * virtual_stages)


def check_schedule(schedule: str, places: int, microbatches: int, virtual_stages: int = 1) -> None:
    """Refuse what can't run: unknown schedules, too few micro-batches, counts that don't go into one another."""
    if schedule not in SCHEDULES:
        raise BadInputError(f"no schedule {schedule!r}; there are: {', '.join(SCHEDULES)}")
    if microbatches < 1:
        raise BadInputError(f"a replica with {microbatches} micro-batches does nothing; it needs at least 1")
    if schedule == "interleaved":
        return check_interleaved(places, microbatches, virtual_stages)
    if virtual_stages != 1:
        raise BadInputError(f"schedule {schedule} with {virtual_stages} virtual stages; it has 1, interleaved has more")
    if schedule != "gpipe" and microbatches < places:
        raise BadInputError(
            f"schedule {schedule} can't run {microbatches:,} micro-batches through {places} stages: it needs one a "
            "stage; use gpipe, more micro-batches or fewer stages"
        )
    return None


def check_interleaved(places: int, microbatches: int, virtual_stages: int) -> None:
    """Refuse an interleaved pipeline whose counts don't go into one another."""
    if virtual_stages < 2 or places < 2:
        raise BadInputError(
            f"schedule interleaved with {virtual_stages} virtual stages on each of {places} places; it needs 2 or more "
            "of both; use 1f1b"
        )
    if microbatches % places:
        below = microbatches // places * places
        nearest = f"{below} or {below + places}" if below else f"{places}"
        raise BadInputError(
            f"schedule interleaved runs micro-batches in groups of one a place: {microbatches:,} is no multiple of "
            f"{places}; nearest: {nearest}; or use 1f1b"
        )
