"""Improves a mix by simulated annealing on its exact time, compiled; how many mixes are priced is fixed.

A mix is rows of integers, a kind of replica a row: the number of its micro-batches' size, its stages, its replicas,
then each stage's carrier and the layer after its last. After every change micro-batches are dealt anew, exactly. The
walk is drawn from a seed: a search repeats. Must not know what classes of chips or carriers are called.
"""

import numpy as np

from argosy.contracts.compiled import compiled
from argosy.plan.mix.arrays import (
    AGAIN,
    SECONDS,
    SPARED,
    STATE,
    STORED,
    Factors,
    Numbers,
    Pool,
    Rings,
    Tables,
)
from argosy.plan.mix.tables import Floats, Integers

# Columns of a row before its stages' carriers.
SIZE, STAGES, REPLICAS, HEAD = 0, 1, 2, 3
# How much slower a change is taken with a chance of 1/e, at the beginning and at the end.
HOT, COLD = 0.03, 0.0003
# Halvings of the limit on the slowest stage when layers are cut anew.
HALVINGS = 14
# Lehmer's generator, with the factor of Park, Miller and Stockmeyer (1993).
FACTOR, MODULUS = 48271, 2147483647


@compiled
def _again_s(lacking: float, spared: float, again_s: float) -> float:
    """Seconds of recomputing as much as memory lacks; infinite if all that is spared doesn't do."""
    if lacking <= 0:
        return 0.0
    return lacking / spared * again_s if lacking <= spared else np.inf


@compiled
def _orderly(row: Integers, pool: Pool, ratio: int) -> bool:
    """Whether stages on one class stand in a row at one TP degree, and the next class's is near it."""
    met, last = 0, row[HEAD]
    for stage in range(1, row[STAGES]):
        carrier = row[HEAD + stage]
        if carrier == last:
            continue
        met |= 1 << pool.classes[last]
        one, two = pool.degrees[last], pool.degrees[carrier]
        if met >> pool.classes[carrier] & 1 or max(one, two) > ratio * min(one, two):
            return False
        last = carrier
    return True


@compiled
def _pace(row: Integers, tables: Tables, factors: Factors) -> tuple[float, float]:
    """Seconds of the slowest stage, and of the first micro-batch and the optimizer's step; infinite if not allowed."""
    size, stages, width = row[SIZE], row[STAGES], (len(row) - HEAD) // 2
    slowest_s, fill_s, update_s, first = 0.0, 0.0, 0.0, 0
    sums, layers = tables.sums, tables.sums.shape[3] - 1
    for stage in range(stages):
        carrier, end = row[HEAD + stage], row[HEAD + width + stage]
        if end <= first or end > layers:
            return np.inf, np.inf
        flying = stages if factors.level else stages - stage
        own_s = sums[SECONDS, size, carrier, end] - sums[SECONDS, size, carrier, first]
        lacking = sums[STATE, size, carrier, end] - sums[STATE, size, carrier, first] - tables.room[size, carrier]
        lacking += flying * (sums[STORED, size, carrier, end] - sums[STORED, size, carrier, first])
        if lacking > 0:
            spared = flying * (sums[SPARED, size, carrier, end] - sums[SPARED, size, carrier, first])
            own_s += _again_s(lacking, spared, sums[AGAIN, size, carrier, end] - sums[AGAIN, size, carrier, first])
            if own_s == np.inf:
                return np.inf, np.inf
        if stage < stages - 1:
            factor = factors.first[stages] if stage == 0 else 1.0
            own_s += factor * tables.forward[size, end, carrier, row[HEAD + stage + 1]]
        if stage > 0:
            factor = factors.last if stage == stages - 1 else 1.0
            own_s += factor * tables.backward[size, first, row[HEAD + stage - 1], carrier]
        fill_s += own_s
        slowest_s = max(slowest_s, own_s)
        update_s = max(update_s, tables.update[size, carrier, first])
        first = end
    if first != layers or slowest_s == np.inf:
        return np.inf, np.inf
    return slowest_s, fill_s - factors.hidden * (fill_s - slowest_s) + update_s


@compiled
def deal(rows: Integers, tables: Tables, factors: Factors, batch: int) -> tuple[float, Integers]:
    """Give the least seconds in which the batch is trained, and each row's micro-batches; infinite if not allowed.

    Every row does one at least, or as many as it has stages. From the time that fractions of micro-batches would need,
    one is added wherever it is done first; then the last to end gives up what the batch doesn't need.
    """
    slowest_s, fill_s, least = np.zeros(len(rows)), np.zeros(len(rows)), np.ones(len(rows), np.int64)
    counts, samples = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    rate, done, time_s, trained = 0.0, 0.0, 0.0, 0
    for index in range(len(rows)):
        slowest_s[index], fill_s[index] = _pace(rows[index], tables, factors)
        if fill_s[index] == np.inf:
            return np.inf, counts
        samples[index] = rows[index, REPLICAS] * tables.sizes[rows[index, SIZE]]
        rate += samples[index] / slowest_s[index]
        done += samples[index] * (1 - fill_s[index] / slowest_s[index])
        if factors.filled:
            least[index] = rows[index, STAGES]
        time_s = max(time_s, fill_s[index] + (least[index] - 1) * slowest_s[index])
    time_s = max(time_s, (batch - done) / rate)
    for index in range(len(rows)):
        counts[index] = int((time_s - fill_s[index]) / slowest_s[index] + 1e-9) + 1
        trained += counts[index] * samples[index]
    ends_s = fill_s + counts * slowest_s
    while trained < batch:
        soonest = int(np.argmin(ends_s))
        counts[soonest] += 1
        ends_s[soonest] = fill_s[soonest] + counts[soonest] * slowest_s[soonest]
        trained += samples[soonest]
    ends_s = fill_s + (counts - 1) * slowest_s
    while True:
        latest = int(np.argmax(ends_s))
        if counts[latest] <= least[latest] or trained - samples[latest] < batch:
            return ends_s[latest], counts
        counts[latest] -= 1
        ends_s[latest] = fill_s[latest] + (counts[latest] - 1) * slowest_s[latest]
        trained -= samples[latest]


@compiled
def _holders_s(rows: Integers, stage: Integers, pool: Pool, chip_s: Floats) -> float:
    """Seconds of one ring for a unit of weight, as slow as its slowest holder.

    A holder's chips share what they send, and a node's network with the other chips that its replica has there.
    """
    slowest_s, members = 0.0, 0
    for index in range(len(rows)):
        row, used = rows[index], 0
        carrier = row[HEAD + stage[index]]
        each = pool.classes[carrier]
        for other in range(row[STAGES]):
            if pool.classes[row[HEAD + other]] == each:
                used += pool.degrees[row[HEAD + other]]
        part = min(1.0, used / pool.nodes[each])
        slowest_s = max(slowest_s, chip_s[each] * part / pool.degrees[carrier])
        members += row[REPLICAS]
    return 2 * (members - 1) / members * slowest_s


@compiled
def _run(rows: Integers, stage: Integers, pool: Pool, rings: Rings, weights: int, phases: Floats) -> float:
    """Seconds of one ring for some layers; `phases`: those inside each class of chips, and across them, last."""
    count = len(pool.chips)
    holders, least = np.zeros(count, np.int64), np.full(count, len(rings.shares), np.int64)
    for index in range(len(rows)):
        carrier = rows[index, HEAD + stage[index]]
        each = pool.classes[carrier]
        holders[each] += rows[index, REPLICAS]
        least[each] = min(least[each], pool.split[carrier])
    total, smallest, bits, pieces = holders.sum(), least.min(), 0, rings.across.shape[1] - 1
    ring_s = 0.0
    for a in range(count):
        if holders[a]:
            bits += 1 << a
            pieces = min(pieces, holders[a] * rings.shares[least[a]])
            phases[a] = rings.pairs[a, a, least[a], holders[a], weights]
            for b in range(a, count):
                if holders[b] > (a == b):
                    ring_s = max(ring_s, rings.pairs[a, b, smallest, total, weights])
    phases[count] = rings.across[bits, pieces, weights]
    return ring_s


@compiled
def sums(rows: Integers, seconds: Floats, pool: Pool, rings: Rings, factors: Factors) -> tuple[float, float]:
    """Give the seconds of summing gradients with one ring and in three phases, each by its slowest stage.

    With one ring what the last backwards of the stages hide doesn't count. seconds: of the layers before, as in Tables.
    """
    width, layers, count = (rows.shape[1] - HEAD) // 2, rings.weights.shape[0] - 1, len(pool.chips)
    stage, begun, phases = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64), np.zeros(count + 1)
    # By row: of its present stage with one ring, in phases inside classes and across, and what all its stages hide.
    sent_s = np.zeros((len(rows), 4))
    one_max, inside_max, across_max, first = 0.0, 0.0, 0.0, 0
    while first < layers:
        end = layers
        for index in range(len(rows)):
            end = min(end, rows[index, HEAD + width + stage[index]])
        if len(rings.chip_s):
            ring_s = rings.weights[first, end] * _holders_s(rows, stage, pool, rings.chip_s)
        else:
            ring_s = _run(rows, stage, pool, rings, rings.numbers[first, end], phases)
        for index in range(len(rows)):
            carrier, size = rows[index, HEAD + stage[index]], rows[index, SIZE]
            sent_s[index, 0] += ring_s
            sent_s[index, 1] += phases[pool.classes[carrier]]
            sent_s[index, 2] += phases[count]
            if rows[index, HEAD + width + stage[index]] == end:
                sent_s[index, 3] += factors.drained * (
                    seconds[size, carrier, end] - seconds[size, carrier, begun[index]]
                )
                one_s = sent_s[index, 0]
                one_max = max(one_max, factors.shown * one_s + max(0.0, one_s - sent_s[index, 3]))
                inside_max, across_max = max(inside_max, sent_s[index, 1]), max(across_max, sent_s[index, 2])
                sent_s[index, :3] = 0.0
                stage[index] += 1
                begun[index] = end
        first = end
    return one_max, inside_max + across_max


@compiled
def step_s(rows: Integers, numbers: Numbers, ring_weight: float, longest_s: float) -> float:
    """Give the seconds of a step; infinite if not allowed or longer than asked.

    ring_weight: how much of the sums' time is one ring's, the rest is three phases'.
    """
    tables, pool, rings, factors = numbers
    left, total = pool.chips.copy(), 0
    for index in range(len(rows)):
        if factors.ratio and not _orderly(rows[index], pool, factors.ratio):
            return np.inf
        total += rows[index, REPLICAS]
        for stage in range(rows[index, STAGES]):
            carrier = rows[index, HEAD + stage]
            left[pool.classes[carrier]] -= rows[index, REPLICAS] * pool.degrees[carrier]
    if left.min() < 0 or rows[:, REPLICAS].min() < 1 or total > rings.replicas_max:
        return np.inf
    compute_s, _ = deal(rows, tables, factors, pool.batch)
    if compute_s >= longest_s:
        return np.inf
    one_s, phased_s = sums(rows, tables.sums[SECONDS], pool, rings, factors)
    return compute_s + ring_weight * one_s + (1 - ring_weight) * phased_s


@compiled
def _draw(seed: Integers, below: int) -> int:
    seed[0] = seed[0] * FACTOR % MODULUS
    return int(seed[0] % below)


@compiled
def _ends_within(row: Integers, tables: Tables, level: bool, limit_s: float, ends: Integers) -> bool:
    """Whether stages of at most so many seconds, each as long as it may be, hold all layers; where they end."""
    size, stages, sums, end = row[SIZE], row[STAGES], tables.sums, 0
    layers = sums.shape[3] - 1
    for stage in range(stages):
        carrier, first, flying = row[HEAD + stage], end, stages if level else stages - stage
        before_s = sums[SECONDS, size, carrier, first]
        room = tables.room[size, carrier] + sums[STATE, size, carrier, first]
        room += flying * sums[STORED, size, carrier, first]
        while end < layers - (stages - 1 - stage):
            work_s = sums[SECONDS, size, carrier, end + 1] - before_s
            lacking = sums[STATE, size, carrier, end + 1] + flying * sums[STORED, size, carrier, end + 1] - room
            if lacking > 0:
                spared = flying * (sums[SPARED, size, carrier, end + 1] - sums[SPARED, size, carrier, first])
                again_s = sums[AGAIN, size, carrier, end + 1] - sums[AGAIN, size, carrier, first]
                work_s += _again_s(lacking, spared, again_s)
            if work_s > limit_s:
                break
            end += 1
        if end == first:
            return False
        ends[stage] = end
    return bool(end == layers)


@compiled
def cut_evenly(row: Integers, tables: Tables, level: bool) -> bool:
    """Cut a row's layers so that its slowest stage is quickest, messages left out; tell whether they fit."""
    width, ends = (len(row) - HEAD) // 2, np.zeros(row[STAGES], np.int64)
    low_s, high_s = 0.0, 0.0
    for stage in range(row[STAGES]):
        size, carrier = row[SIZE], row[HEAD + stage]
        high_s = max(high_s, tables.sums[SECONDS, size, carrier, -1] + tables.sums[AGAIN, size, carrier, -1])
    if not _ends_within(row, tables, level, high_s, ends):
        return False
    for _ in range(HALVINGS):
        middle_s = (low_s + high_s) / 2
        if _ends_within(row, tables, level, middle_s, ends):
            high_s = middle_s
        else:
            low_s = middle_s
    _ends_within(row, tables, level, high_s, ends)
    row[HEAD + width : HEAD + width + row[STAGES]] = ends
    return True


@compiled
def fit(rows: Integers, pool: Pool, seed: Integers, fill: bool) -> bool:
    """Take replicas away until the chips do, and put some where chips are left, if asked to."""
    classes, degrees, chips, batch = pool.classes, pool.degrees, pool.chips, pool.batch
    left, each = chips.copy(), np.zeros((len(rows), len(chips)), np.int64)
    for index in range(len(rows)):
        for stage in range(rows[index, STAGES]):
            carrier = rows[index, HEAD + stage]
            each[index, classes[carrier]] += degrees[carrier]
        left -= each[index] * rows[index, REPLICAS]
    begin = _draw(seed, len(rows))
    for turn in range(len(rows)):
        index, less = (begin + turn) % len(rows), 0
        for kind in range(len(chips)):
            if left[kind] < 0 and each[index, kind]:
                less = max(less, -(left[kind] // each[index, kind]))
        less = min(less, rows[index, REPLICAS] - 1)
        rows[index, REPLICAS] -= less
        left += less * each[index]
    if left.min() < 0:
        return False
    for turn in range(len(rows) if fill else 0):
        index = (begin + turn) % len(rows)
        more = max(0, batch - rows[index, REPLICAS])
        for kind in range(len(chips)):
            if each[index, kind]:
                more = min(more, left[kind] // each[index, kind])
        rows[index, REPLICAS] += more
        left -= more * each[index]
    return True


@compiled
def _shift(rows: Integers, index: int, seed: Integers) -> bool:
    """Move a cut by a layer, also where other rows have the same cut; and at times another one."""
    row = rows[index]
    width, stages = (len(row) - HEAD) // 2, row[STAGES]
    if stages < 2:
        return False
    place = HEAD + width + _draw(seed, stages - 1)
    end, by = row[place], 1 if _draw(seed, 2) else -1
    row[place] += by
    if _draw(seed, 2):
        for other in range(len(rows)):
            for stage in range(rows[other, STAGES] - 1):
                if other != index and rows[other, HEAD + width + stage] == end:
                    rows[other, HEAD + width + stage] += by
    if _draw(seed, 3) == 0:
        row[HEAD + width + _draw(seed, stages - 1)] += 1 if _draw(seed, 2) else -1
    return True


@compiled
def _choose(rows: Integers, index: int, tables: Tables, level: bool, pool: Pool, seed: Integers) -> bool:
    """Put another carrier in place of one: in one stage, in all of its row, or everywhere."""
    row = rows[index]
    stage, carrier, reach = _draw(seed, row[STAGES]), _draw(seed, len(pool.classes)), _draw(seed, 3)
    old = row[HEAD + stage]
    row[HEAD + stage] = carrier
    for other in range(len(rows)):
        for each in range(rows[other, STAGES]):
            if rows[other, HEAD + each] == old and (reach == 2 or (reach == 1 and other == index)):
                rows[other, HEAD + each] = carrier
    if _draw(seed, 2):
        cut_evenly(row, tables, level)
    return bool(carrier != old) and fit(rows, pool, seed, _draw(seed, 2) == 1)


@compiled
def _swap(row: Integers, tables: Tables, level: bool, seed: Integers) -> bool:
    """Swap two stages' carriers."""
    one, two = HEAD + _draw(seed, row[STAGES]), HEAD + _draw(seed, row[STAGES])
    row[one], row[two] = row[two], row[one]
    if _draw(seed, 2):
        cut_evenly(row, tables, level)
    return bool(row[one] != row[two])


@compiled
def _part(row: Integers, pool: Pool, seed: Integers) -> bool:
    """Part a stage in two; either half may get another carrier."""
    width, stages = (len(row) - HEAD) // 2, row[STAGES]
    stage = _draw(seed, stages)
    first, end = row[HEAD + width + stage - 1] if stage else 0, row[HEAD + width + stage]
    if stages >= width or end - first < 2:
        return False
    for each in range(stages, stage, -1):
        row[HEAD + each], row[HEAD + width + each] = row[HEAD + each - 1], row[HEAD + width + each - 1]
    row[HEAD + width + stage] = (first + end) // 2
    if _draw(seed, 2):
        row[HEAD + stage + _draw(seed, 2)] = _draw(seed, len(pool.classes))
    row[STAGES] = stages + 1
    return True


@compiled
def _join(row: Integers, seed: Integers) -> bool:
    """Give a stage's layers to its neighbour."""
    width, stages = (len(row) - HEAD) // 2, row[STAGES]
    if stages < 2:
        return False
    stage = _draw(seed, stages)
    last = row[HEAD + width + stages - 1]
    for each in range(stage, stages - 1):
        row[HEAD + each], row[HEAD + width + each] = row[HEAD + each + 1], row[HEAD + width + each + 1]
    row[STAGES] = stages - 1
    row[HEAD + width + stages - 2] = last
    return True


@compiled
def _resize(rows: Integers, index: int, tables: Tables, level: bool, seed: Integers) -> bool:
    """Take micro-batches of another size, in one row or in all."""
    size = _draw(seed, len(tables.sizes))
    changed = bool(size != rows[index, SIZE])
    rows[index, SIZE] = size
    if _draw(seed, 2):
        rows[:, SIZE] = size
    if _draw(seed, 2):
        cut_evenly(rows[index], tables, level)
    return changed


@compiled
def _recount(rows: Integers, index: int, pool: Pool, seed: Integers) -> bool:
    """Take more replicas, or fewer."""
    by = 1 + _draw(seed, rows[index, REPLICAS] // (4 if _draw(seed, 2) else 16) + 1)
    rows[index, REPLICAS] += by if _draw(seed, 2) else -by
    return bool(rows[index, REPLICAS] > 0) and fit(rows, pool, seed, _draw(seed, 2) == 1)


@compiled
def _fork(rows: Integers, index: int, tables: Tables, level: bool, pool: Pool, seed: Integers) -> bool:
    """Give some of a row's replicas a row of their own, the last, changed in carrier or in size."""
    row, new = rows[index], rows[-1]
    if row[REPLICAS] < 2:
        return False
    new[:] = row
    new[REPLICAS] = 1 + _draw(seed, row[REPLICAS] - 1)
    row[REPLICAS] -= new[REPLICAS]
    how, stage = _draw(seed, 3), HEAD + _draw(seed, new[STAGES])
    old, carrier = new[stage], _draw(seed, len(pool.classes))
    if how == 0:
        new[SIZE] = _draw(seed, len(tables.sizes))
    for each in range(HEAD, HEAD + new[STAGES] if how else HEAD):
        if each == stage or (how == 1 and new[each] == old):
            new[each] = carrier
    if _draw(seed, 2):
        cut_evenly(new, tables, level)
    return fit(rows, pool, seed, _draw(seed, 2) == 1)


@compiled
def _move(rows: Integers, count: int, tables: Tables, level: bool, pool: Pool, seed: Integers) -> int:
    """Change a mix of so many rows at random; give its rows' number then, 0 where nothing came of it."""
    kind, index = _draw(seed, 100), _draw(seed, count)
    used, row = rows[:count], rows[index]
    if kind < 30:
        return count if _shift(used, index, seed) else 0
    if kind < 50:
        return count if _choose(used, index, tables, level, pool, seed) else 0
    if kind < 58:
        return count if _swap(row, tables, level, seed) else 0
    if kind < 72:
        if not (_part(row, pool, seed) if _draw(seed, 2) else _join(row, seed)):
            return 0
        if _draw(seed, 4):
            cut_evenly(row, tables, level)
        return count if fit(used, pool, seed, _draw(seed, 3) > 0) else 0
    if kind < 76:
        return count if _resize(used, index, tables, level, seed) else 0
    if kind < 90:
        return count if _recount(used, index, pool, seed) else 0
    if kind < 94:
        return count + 1 if count < len(rows) and _fork(rows[: count + 1], index, tables, level, pool, seed) else 0
    if kind < 97:
        if count < 2:
            return 0
        row[:] = rows[count - 1]
        return count - 1 if fit(rows[: count - 1], pool, seed, True) else 0
    return count if cut_evenly(row, tables, level) else 0


@compiled
def anneal(
    start: Integers, rows_max: int, numbers: Numbers, ring_weight: float, priced: int, number: int
) -> tuple[float, Integers]:
    """Give the least step found from a mix on, and its rows, at most so many; `priced` changes are tried.

    number: sets the walk; ring_weight: as in step_s.
    """
    seed, count, best_count = np.array([number]), len(start), len(start)
    rows = np.zeros((max(rows_max, count), start.shape[1]), np.int64)
    rows[:count] = start
    here_s = step_s(start, numbers, ring_weight, np.inf)
    best_s, best, tried = here_s, rows.copy(), rows.copy()
    heat, cooling = HOT, (COLD / HOT) ** (1.0 / priced)
    for _ in range(priced):
        heat *= cooling
        tried[:] = rows
        now = _move(tried, count, numbers[0], numbers[3].level, numbers[1], seed)
        if now == 0:
            continue
        # A change that is slower by a share x is taken with chance exp(-x / heat).
        longest_s = here_s * (1 - heat * np.log((1 + _draw(seed, MODULUS)) / MODULUS))
        there_s = step_s(tried[:now], numbers, ring_weight, longest_s)
        if there_s < longest_s:
            rows[:], count, here_s = tried, now, there_s
            if here_s < best_s:
                best_s, best_count = here_s, count
                best[:] = rows
    return best_s, best[:best_count]
