"""A replica's forwards and backwards of one step, timed without listing them: when each place is through.

Gives what `plan.timing.walk` gives, to rounding, with work that does not grow with the micro-batches. Must not know
plans, exchanges or updates.
"""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from argosy.plan.timing.rounds import through
from argosy.plan.timing.schedules import warmup_forwards, weight_lag
from argosy.plan.timing.walk import Passage, Pipeline

PASSES_KEPT = 1024

Lines = Mapping[float, float]
"""Times of a row of events: event i happens at the latest of offset + i x slope, by slope."""


@lru_cache(maxsize=PASSES_KEPT)
def passage(pipeline: Pipeline, begins_ms: tuple[float, ...]) -> Passage:
    """Time a pipeline from each place's clock on; its schedule must allow the micro-batches (`check_schedule`)."""
    if pipeline.schedule == "gpipe":
        return through_gpipe(pipeline, begins_ms)
    counts = (pipeline.schedule, pipeline.places, pipeline.microbatches, pipeline.virtual_stages)
    schedule, places, microbatches, virtual = counts
    order = [
        (warmup_forwards(schedule, place, places, microbatches, virtual), weight_lag(schedule, place))
        for place in range(places)
    ]
    works = np.array(pipeline.works_ms, dtype=np.float64)
    posts = np.array(pipeline.posts_ms, dtype=np.float64).reshape(-1, 2)
    sizes = (places, virtual, microbatches * virtual)
    ends, last = through(sizes, np.array(order, dtype=np.int64), (works, posts), np.array(begins_ms, dtype=np.float64))
    return Passage(ends_ms=tuple(ends.tolist()), last_ms=tuple(last.tolist()))


def through_gpipe(pipeline: Pipeline, begins_ms: tuple[float, ...]) -> Passage:
    """Time all forwards, then all backwards: a row of servers with constant times, solved in closed form."""
    works_ms, posts_ms = pipeline.works_ms, pipeline.posts_ms
    count, last = len(works_ms), pipeline.microbatches - 1
    arrivals: Lines = {}
    clocks = []
    for s in range(count):
        done = served(arrivals, begins_ms[s], works_ms[s][0])
        clocks.append(at(done, last))
        arrivals = sent(done, posts_ms[s]) if s < count - 1 else {}
    ends = [0.0] * count
    for s in reversed(range(count)):
        done = served(arrivals, clocks[s], works_ms[s][1])
        ends[s] = at(done, last)
        arrivals = sent(done, posts_ms[s - 1]) if s else {}
    starts = tuple(end - backward_ms for end, (_, backward_ms, _) in zip(ends, works_ms, strict=True))
    return Passage(ends_ms=tuple(ends), last_ms=starts)


def served(arrivals: Lines, free_ms: float, work_ms: float) -> dict[float, float]:
    """Serve events one after the other, each for work_ms, from free_ms on: when each is done.

    Event i waits for its own arrival or for what is left of the events before; of a line of arrivals the last to come
    or the first counts, as it is slower than the server or not.
    """
    done = {work_ms: free_ms + work_ms}
    for slope, offset in arrivals.items():
        pace = max(slope, work_ms)
        done[pace] = max(done.get(pace, 0.0), offset + work_ms)
    return done


def sent(events: Lines, post_ms: tuple[float, float]) -> dict[float, float]:
    """Send events over an idle wire: when each arrives."""
    sending_ms, delay_ms = post_ms
    return {slope: offset + delay_ms for slope, offset in served(events, 0.0, sending_ms).items()}


def at(events: Lines, index: int) -> float:
    """Tell when event `index` happens."""
    return max(offset + index * slope for slope, offset in events.items())
