"""What places with several stages each hold at their fullest, and how few of their layers they need to recompute.

An interleaved place has micro-batches of several stages in flight, and how many of each changes from one piece of work
to the next; the fullest moment counts. Compiled; plain numbers and arrays. Must not know plans or times.
"""

import numpy as np
from numpy.typing import NDArray

from argosy.contracts.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled
def most_gb(sizes: Floats, places: int, held: int) -> float:
    """Give the most that a place has in flight. sizes: of one micro-batch of each of its stages, in their order.

    held: micro-batches that are in flight at most (`schedules.held_microbatches`), fewer than its warm-up asks for
    where there are no more. From then on a backward follows every forward, in rounds that repeat: a round takes as many
    micro-batches as there are places through each stage, so the fullest moment is where one of the two changes stages.
    """
    virtual = len(sizes)
    most, period = 0.0, places * virtual
    for turn in range(-1, 2 * virtual + 1):
        # A turn of the forwards, then of the backwards; at first there is none yet.
        back = 0 if turn < 0 else (turn * places - held) % period if turn < virtual else (turn - virtual) * places
        held_gb = 0.0
        for stage in range(virtual):
            forwards = _passed(held + back, stage, places, virtual)
            held_gb += sizes[stage] * (forwards - _passed(back, virtual - 1 - stage, places, virtual))
        most = max(most, held_gb)
    return most


@compiled
def _passed(pieces: int, turn: int, places: int, virtual: int) -> int:
    """Count the micro-batches among so many pieces of work that were of the stage whose turn comes so late."""
    rounds, rest = divmod(pieces, places * virtual)
    return rounds * places + min(places, max(0, rest - turn * places))


@compiled
def recomputed(
    kept: Floats, starts: Integers, ends: Integers, counts: Integers, places: int, held: int, spare_gb: float, step: int
) -> bool:
    """Change how many layers of each stage of a place are recomputed to as few as fit; tell whether that is possible.

    kept: by (0: as it is, 1: recomputed; stage, layers before), what one micro-batch keeps of the layers before.
    starts, ends: of the stages. spare_gb: what micro-batches may use. step: layers that only go together; 0: all of a
    stage.
    """
    virtual = len(starts)
    sizes = np.zeros(virtual)
    for stage in range(virtual):
        sizes[stage] = _kept(kept, stage, starts[stage], ends[stage], counts[stage])
    # First as many more as it takes, from the stage that is in flight most; then fewer where that fits.
    for more in (True, False):
        changed = True
        while changed and (not more or most_gb(sizes, places, held) > spare_gb):
            changed = False
            for stage in range(virtual) if more else range(virtual - 1, -1, -1):
                layers, was, size = ends[stage] - starts[stage], counts[stage], sizes[stage]
                count = was + (step or layers) * (1 if more else -1)
                if count < 0 or count > layers:
                    continue
                counts[stage] = count
                sizes[stage] = _kept(kept, stage, starts[stage], ends[stage], count)
                if more or most_gb(sizes, places, held) <= spare_gb:
                    changed = True
                    if more and most_gb(sizes, places, held) <= spare_gb:
                        break
                else:
                    counts[stage], sizes[stage] = was, size
    return most_gb(sizes, places, held) <= spare_gb


@compiled
def _kept(kept: Floats, stage: int, start: int, end: int, count: int) -> float:
    middle = start + count
    size: float = kept[1, stage, middle] - kept[1, stage, start] + kept[0, stage, end] - kept[0, stage, middle]
    return size


@compiled
def refill(
    kept: Floats,
    kinds: Integers,
    ends: Integers,
    chosen: tuple[Integers, Integers],
    held: Integers,
    spare_gb: Floats,
    step: int,
) -> bool:
    """Change at all places how many layers of each stage are recomputed to as few as fit; tell whether that is so.

    kept: by (kind of place, way to recompute, layers before). kinds, held, spare_gb: by place. ends, chosen: by stage,
    where it ends, the way that it recomputes and how many of its layers; the latter two are changed. step: as above.
    """
    places, (ways, counts) = len(kinds), chosen
    virtual, last = len(ends) // places, kept.shape[1] - 1
    starts, mine = np.zeros_like(ends), np.zeros(virtual, np.int64)
    starts[1:] = ends[:-1]
    rows = np.zeros((2, virtual, kept.shape[2]))
    for place in range(places):
        kind, most = kinds[place], 0
        for turn in range(virtual):
            mine[turn] = place + turn * places
            most = max(most, ways[mine[turn]])
        for turn in range(virtual):
            rows[0, turn] = kept[kind, 0]
            rows[1, turn] = kept[kind, ways[mine[turn]] or most or last]
        some = counts[mine]
        if not recomputed(rows, starts[mine], ends[mine], some, places, held[place], spare_gb[place], step):
            return False
        for turn in range(virtual):
            counts[mine[turn]] = some[turn]
            ways[mine[turn]] = (ways[mine[turn]] or most or last) if some[turn] > 0 else 0
    return True
