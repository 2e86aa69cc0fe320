"""A replica's forwards and backwards of one step, timed without listing them: when each stage is through.

Gives what the timeline's walk gives, to rounding, with work that does not grow with the micro-batches. Must not know
plans, exchanges or updates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

PASSES_KEPT = 1024
# Two rounds are alike when no clock differs by more than this part of the time between them.
TOLERANCE = 1e-9
# A pipeline whose rounds never repeat within so many goes on at the pace it had since the last power of two.
ROUNDS_MAX = 8192

Lines = Mapping[float, float]
"""Times of a row of events: event i happens at the latest of offset + i x slope, by slope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """When each stage is through with a step's work, and when its last backward began; ms."""

    ends_ms: tuple[float, ...]
    last_backward_ms: tuple[float, ...]


@lru_cache(maxsize=PASSES_KEPT)
def passage(
    schedule: str,
    works_ms: tuple[tuple[float, float], ...],
    posts_ms: tuple[tuple[float, float], ...],
    microbatches: int,
    begins_ms: tuple[float, ...],
) -> Passage:
    """Time a replica. works_ms: (forward, backward) by stage; posts_ms: (sending, delay) by boundary.

    begins_ms: each stage's clock at first. The schedule must allow the micro-batches (`schedules.check_schedule`).
    """
    if schedule == "gpipe":
        return through_gpipe(works_ms, posts_ms, microbatches, begins_ms)
    rounds = Rounds(works_ms, posts_ms, microbatches, begins_ms)
    rounds.run()
    return Passage(ends_ms=tuple(rounds.clocks), last_backward_ms=tuple(rounds.begun))


def through_gpipe(
    works_ms: Sequence[tuple[float, float]],
    posts_ms: Sequence[tuple[float, float]],
    microbatches: int,
    begins_ms: Sequence[float],
) -> Passage:
    """Time all forwards, then all backwards: a row of servers with constant times, solved in closed form."""
    count, last = len(works_ms), microbatches - 1
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
    starts = tuple(end - backward_ms for end, (_, backward_ms) in zip(ends, works_ms, strict=True))
    return Passage(ends_ms=tuple(ends), last_backward_ms=starts)


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


class Rounds:
    """1F1B in rounds: in round j every stage runs backward j, then its next forward, from the last stage to the first.

    What a forward sends is used a round later, so one walk down the stages is a round. After a while rounds repeat, all
    clocks later by the same time; whole periods are then added at once.
    """

    def __init__(
        self,
        works_ms: Sequence[tuple[float, float]],
        posts_ms: Sequence[tuple[float, float]],
        microbatches: int,
        begins_ms: Sequence[float],
    ) -> None:
        count = len(works_ms)
        self.works = works_ms
        self.posts = posts_ms
        self.microbatches = microbatches
        self.clocks = list(begins_ms)
        self.begun = [0.0] * count
        # By stage: when its queues up and down are free, and when the input of its next forward arrives.
        self.up, self.down, self.inbox = ([0.0] * count for _ in range(3))

    def run(self) -> None:
        """Run warm-up, rounds and drain."""
        self.warm_up()
        done, full = 0, self.microbatches - len(self.works)
        anchor, since, limit = self.state(), 0, 1
        while done < full:
            self.round(done)
            done, since = done + 1, since + 1
            growth = self.clocks[0] - anchor[0]
            if done == ROUNDS_MAX or self.alike(anchor, growth):
                periods = (full - done) // since
                self.shift(periods * growth)
                done += periods * since
                limit = self.microbatches  # no second search: less than a period is left
            if since >= limit:
                anchor, since, limit = self.state(), 0, 2 * limit
        for drained in range(done, self.microbatches):
            self.round(drained)

    def warm_up(self) -> None:
        """Run each stage's first forwards, one more than stages follow it."""
        count = len(self.works)
        arrivals = [0.0] * count
        for s in range(count):
            posted = []
            for arrival in arrivals[: count - s]:
                self.clocks[s] = max(self.clocks[s], arrival) + self.works[s][0]
                if s < count - 1:
                    posted.append(self.post(s))
            if s:
                self.inbox[s] = arrivals[count - s]
            arrivals = posted

    def post(self, stage: int) -> float:
        """Send a forward's result down; tells when it arrives."""
        sending_ms, delay_ms = self.posts[stage]
        self.down[stage] = max(self.down[stage], self.clocks[stage]) + sending_ms
        return self.down[stage] + delay_ms

    def round(self, index: int) -> None:
        """Run backward `index` of every stage and the forward after it, if there is one."""
        clocks, up, inbox, begun = self.clocks, self.up, self.inbox, self.begun
        count = len(clocks)
        last, gradient_ms = count - 1, 0.0
        for s in range(last, -1, -1):
            forward_ms, backward_ms = self.works[s]
            begun[s] = gradient_ms if gradient_ms > clocks[s] else clocks[s]
            clocks[s] = begun[s] + backward_ms
            if s:
                sending_ms, delay_ms = self.posts[s - 1]
                up[s] = (up[s] if up[s] > clocks[s] else clocks[s]) + sending_ms
                gradient_ms = up[s] + delay_ms
            if index + count - s < self.microbatches:
                clocks[s] = (inbox[s] if inbox[s] > clocks[s] else clocks[s]) + forward_ms
                if s < last:
                    inbox[s + 1] = self.post(s)

    def state(self) -> list[float]:
        """List all clocks and queues that rounds move."""
        return [*self.clocks, *self.up[1:], *self.down[:-1], *self.inbox[1:]]

    def alike(self, anchor: Sequence[float], growth: float) -> bool:
        """Tell whether all stand as at the anchor, later by the same time."""
        near = TOLERANCE * growth
        now = chain(self.clocks, self.up[1:], self.down[:-1], self.inbox[1:])
        return all(abs(a - b - growth) <= near for a, b in zip(now, anchor, strict=True))

    def shift(self, time_ms: float) -> None:
        """Let all clocks and queues stand so much later."""
        for row in (self.clocks, self.up, self.down, self.inbox):
            row[:] = [value + time_ms for value in row]
