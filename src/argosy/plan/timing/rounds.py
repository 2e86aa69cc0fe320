"""A pipeline's walk through one step, compiled: when each place is through, without listing what it does.

Also the one rule that all schedules are made of: what a place does next. After a while a pipeline's rounds repeat, all
clocks later by the same time; whole periods are then added at once, so the work does not grow with the micro-batches.
Plain numbers and arrays; must not know schedules by name, plans or wires.
"""

import numpy as np
from numpy.typing import NDArray

from argosy.contracts.compiled import compiled

# Two rounds are alike when no clock differs by more than this part of the time between them.
TOLERANCE = 1e-9
# A pipeline whose rounds never repeat within so many goes on at the pace it had since the last power of two.
ROUNDS_MAX = 8192

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def next_kind(forwards: int, backwards: int, weights: int, total: int, warmup: int, lag: int) -> int:
    """Tell what a place does next, having done so many of each: 0 forward, 1 backward, 2 weights' gradients, -1 is out.

    total: pieces of each kind. warmup: forwards before the first pair of a forward and a backward. lag: backwards whose
    weights' gradients wait meanwhile; negative where they are made at once.
    """
    if lag >= 0 and weights < (total if backwards == total else backwards - lag):
        return 2
    if forwards < total and forwards <= warmup + backwards:
        return 0
    return 1 if backwards < total else -1


def chunk_of(kind: int, number: int, places: int, virtual_stages: int) -> tuple[int, int]:
    """Tell which of its stages a place works on, and on which micro-batch, in its piece of work `number` of a kind.

    Each stage takes micro-batches in groups of as many as there are places; backward begins with the last stage.
    """
    if virtual_stages == 1:
        return 0, number
    group, rest = divmod(number, places * virtual_stages)
    chunk, within = divmod(rest, places)
    return (chunk if kind == 0 else virtual_stages - 1 - chunk), group * places + within


_next_kind = compiled(next_kind)
_chunk_of = compiled(chunk_of)


@compiled
def advance(
    sizes: tuple[int, int, int],
    order: Counts,
    times: tuple[Floats, Floats],
    clocks: Floats,
    done: Counts,
    sent: Counts,
    free: Floats,
    inbox: Floats,
    last: Floats,
    limit: int,
) -> None:
    """Let all places work, each until it waits for what nobody sends or begins its pair `limit` + place.

    sizes: places, virtual stages, pieces of each kind. order: warm-up and lag by place. times: (forward, backward,
    weights) by stage, (sending, delay) by boundary. done: by kind and place. sent: results by direction and stage.
    free: wires by direction and boundary of places. inbox: arrivals by direction, stage and micro-batch, in a ring.
    last: when the last work began, by stage.
    """
    places, virtual, total = sizes
    works, posts = times
    stages, window = places * virtual, inbox.shape[2]
    moving = True
    while moving:
        moving = False
        for place in range(places - 1, -1, -1):
            warmup, lag = order[place]
            while True:
                kind = _next_kind(done[0, place], done[1, place], done[2, place], total, warmup, lag)
                pair = kind == 0 and done[0, place] == warmup + done[1, place]
                if kind < 0 or (pair and done[1, place] >= limit + place):
                    break
                chunk, microbatch = _chunk_of(kind, done[kind, place], places, virtual)
                stage = chunk * places + place
                start = clocks[place]
                source = stage - 1 if kind == 0 else stage + 1
                if kind < 2 and 0 <= source < stages:
                    if sent[kind, source] <= microbatch:
                        break
                    start = max(start, inbox[kind, stage, microbatch % window])
                clocks[place] = start + works[stage, kind]
                last[stage] = start
                done[kind, place] += 1
                moving = True
                if kind < 2:
                    sent[kind, stage] += 1
                    target = stage + 1 if kind == 0 else stage - 1
                    if 0 <= target < stages:
                        boundary = min(stage, target)
                        wire = boundary % places
                        free[kind, wire] = max(free[kind, wire], clocks[place]) + posts[boundary, 0]
                        inbox[kind, target, microbatch % window] = free[kind, wire] + posts[boundary, 1]


@compiled
def stand(clocks: Floats, sent: Counts, free: Floats, inbox: Floats, into: Floats) -> int:
    """Write down all clocks, queues and results under way that rounds move; gives how many."""
    places, stages, window = len(clocks), sent.shape[1], inbox.shape[2]
    count = 0
    for place in range(places):
        into[count] = clocks[place]
        count += 1
    for wire in range(min(places, stages - 1)):
        for direction in range(2):
            into[count] = free[direction, wire]
            count += 1
    for stage in range(1, stages):
        for microbatch in range(sent[0, stage], sent[0, stage - 1]):
            into[count] = inbox[0, stage, microbatch % window]
            count += 1
        for microbatch in range(sent[1, stage - 1], sent[1, stage]):
            into[count] = inbox[1, stage - 1, microbatch % window]
            count += 1
    return count


@compiled
def alike(now: Floats, anchor: Floats, count: int) -> bool:
    """Tell whether all stand as at the anchor, later by the same time."""
    growth = now[0] - anchor[0]
    furthest = 0.0
    for index in range(count):
        furthest = max(furthest, abs(now[index] - anchor[index] - growth))
    return bool(furthest <= TOLERANCE * growth)


@compiled
def skip(
    pieces: int,
    microbatches: int,
    time_ms: float,
    clocks: Floats,
    done: Counts,
    sent: Counts,
    free: Floats,
    inbox: Floats,
    last: Floats,
) -> None:
    """Let all stand so many pieces of work, micro-batches and so much time later."""
    places, stages, window = len(clocks), len(last), inbox.shape[2]
    before = np.empty(window)
    for place in range(places):
        clocks[place] += time_ms
        for kind in range(3):
            done[kind, place] += pieces
    for direction in range(2):
        for place in range(places):
            free[direction, place] += time_ms
        for stage in range(stages):
            sent[direction, stage] += microbatches
            for index in range(window):
                before[index] = inbox[direction, stage, index] + time_ms
            for index in range(window):
                inbox[direction, stage, (index + microbatches) % window] = before[index]
    for stage in range(stages):
        last[stage] += time_ms


@compiled
def through(
    sizes: tuple[int, int, int], order: Counts, times: tuple[Floats, Floats], begins_ms: Floats
) -> tuple[Floats, Floats]:
    """Run a whole step: when each place ends, and when each stage's last piece of work began.

    Arguments as for `advance`; begins_ms: each place's clock at first. Warm-ups must not hold every micro-batch, as
    those of GPipe do: what is under way is kept in a ring of that size.
    """
    places, virtual, total = sizes
    stages = places * virtual
    clocks, last, free = np.empty(places), np.zeros(stages), np.zeros((2, places))
    done, sent = np.zeros((3, places), np.int64), np.zeros((2, stages), np.int64)
    pieces, group = (1, 1) if virtual == 1 else (places * virtual, places)
    window, head = 2, 0
    for place in range(places):
        clocks[place] = begins_ms[place]
        window = max(window, order[place, 0] + 2)
        head = max(head, order[place, 0] + place)
    window, full = min(window, total // virtual), (total - head) // pieces
    inbox = np.zeros((2, stages, window))
    anchor, now = np.empty(3 * places + 2 * stages * window), np.empty(3 * places + 2 * stages * window)
    round_, since, patience = 0, 0, 1
    searching = True
    advance(sizes, order, times, clocks, done, sent, free, inbox, last, round_ * pieces)
    stand(clocks, sent, free, inbox, anchor)
    while round_ < full:
        round_, since = round_ + 1, since + 1
        advance(sizes, order, times, clocks, done, sent, free, inbox, last, round_ * pieces)
        if not searching:
            continue
        count = stand(clocks, sent, free, inbox, now)
        if round_ == ROUNDS_MAX or alike(now, anchor, count):
            skipped = (full - round_) // since * since
            growth = (now[0] - anchor[0]) * (skipped // since)
            skip(skipped * pieces, skipped * group, growth, clocks, done, sent, free, inbox, last)
            round_ += skipped
            searching = False  # less than a period is left
        elif since >= patience:
            anchor, now = now, anchor
            since, patience = 0, 2 * patience
    advance(sizes, order, times, clocks, done, sent, free, inbox, last, total)
    return clocks, last
