"""Lays a mix's problem out as arrays for the compiled search: times, memory, rings, by small numbers.

Gradients' rings are timed once for every span of layers, split and number of holders there can be, so that pricing a
mix is looking up. Must not know how mixes are searched for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, permutations

import numpy as np

from argosy.plan.mix.tables import Carrier, Floats, Integers, MixProblem

# Mixes of more replicas than this are not looked at: the tables of rings would grow too large.
REPLICAS_MAX = 2048

Tables = tuple[Integers, Floats, Floats, Floats, Floats, Floats, Floats, Floats]
"""Sizes of micro-batches; by (size, carrier, layer): seconds, state and stored bytes, each before the layer; room by
(size, carrier), below nothing where it wasn't measured; messages forward and backward by (size, boundary, carrier,
next); seconds of the optimizer's step by (size, carrier, layer)."""
Pool = tuple[Integers, Integers, Integers, Integers, int]
"""By carrier its class, TP degree and number of its split; chips by class; the batch."""
Rings = tuple[Integers, Floats, Floats, Integers]
"""Numbers of weights by (first layer, end); seconds of a ring by (class, class, split, holders, weights), and across
classes by (set of classes as bits, pieces, weights); shares by split."""
Factors = tuple[Floats, float]
"""How often the first stage waits for its message, by stages; the same of the last."""
Numbers = tuple[Tables, Pool, Rings, Factors]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """A problem on some classes of chips: what compiled code reads, and what its numbers of carriers mean."""

    numbers: Numbers
    carriers: tuple[Carrier, ...]
    stages_max: int


def arrays_of(problem: MixProblem, classes: Sequence[int]) -> Arrays:
    """Lay out a problem on these classes alone, fastest carrier first, whatever the classes' order."""
    seconds: dict[Carrier, float] = {}
    for table in problem.tables:
        for carrier, rows in zip(table.carriers, table.layer_s, strict=True):
            if carrier.chip_class in classes and carrier.tp <= problem.counts[carrier.chip_class]:
                seconds.setdefault(carrier, float(rows.sum()))
    carriers = tuple(sorted(seconds, key=lambda carrier: (seconds[carrier], carrier.tp)))
    shares = sorted({problem.shares(carrier.tp) for carrier in carriers})
    pool = (
        np.array([classes.index(carrier.chip_class) for carrier in carriers], dtype=np.int64),
        np.array([carrier.tp for carrier in carriers], dtype=np.int64),
        np.array([shares.index(problem.shares(carrier.tp)) for carrier in carriers], dtype=np.int64),
        np.array([problem.counts[each] for each in classes], dtype=np.int64),
        problem.batch,
    )
    deepest = min(problem.stages_max, problem.layers)
    first = np.array([problem.first_factor(depth) for depth in range(deepest + 1)], dtype=float)
    numbers = _tables(problem, carriers), pool, _rings(problem, classes, shares), (first, float(problem.last_factor))
    return Arrays(numbers=numbers, carriers=carriers, stages_max=deepest)


def _tables(problem: MixProblem, carriers: Sequence[Carrier]) -> Tables:
    sizes, layers, count = len(problem.tables), problem.layers, len(carriers)
    seconds, state, stored = (np.zeros((sizes, count, layers + 1)) for _ in range(3))
    room = np.full((sizes, count), -1.0)
    forward, backward = (np.full((sizes, layers + 1, count, count), np.inf) for _ in range(2))
    update = np.zeros((sizes, count, layers))
    for number, table in enumerate(problem.tables):
        rows = np.array([row for row, carrier in enumerate(table.carriers) if carrier in carriers], dtype=np.int64)
        mine = np.array([carriers.index(table.carriers[row]) for row in rows], dtype=np.int64)
        for total, each in ((seconds, table.layer_s), (state, table.state_bytes), (stored, table.stored_bytes)):
            total[number, mine, 1:] = np.cumsum(each[rows], axis=1)
        room[number, mine] = (table.limit_bytes - table.fixed_bytes)[rows]
        update[number, mine] = table.update_s[rows]
        for sent, each in ((forward, table.forward_s), (backward, table.backward_s)):
            sent[number][np.ix_(np.arange(layers + 1), mine, mine)] = each[:, rows][:, :, rows]
    each_size = np.array([table.microbatch_size for table in problem.tables], dtype=np.int64)
    return each_size, seconds, state, stored, room, forward, backward, update


def _rings(problem: MixProblem, classes: Sequence[int], shares: Sequence[int]) -> Rings:
    before = problem.weights_before
    spans = np.maximum(before[None, :] - before[:, None], 0.0)
    weights, numbers = np.unique(spans, return_inverse=True)
    most = max(1, min(problem.batch, sum(problem.counts[each] for each in classes), REPLICAS_MAX))
    rings = np.zeros((len(classes), len(classes), len(shares), most + 1, len(weights)))
    across = np.zeros((1 << len(classes), most * max(shares, default=1) + 1, len(weights)))
    members = np.arange(2, most + 1)[:, None]
    pieces = weights / np.arange(1, across.shape[1])[:, None]
    for a, b in combinations_with_replacement(range(len(classes)), 2):
        for split, share in enumerate(shares):
            there = problem.reduce_s(weights / share, members, classes[a], classes[b])
            back = problem.reduce_s(weights / share, members, classes[b], classes[a])
            rings[a, b, split, 2:] = rings[b, a, split, 2:] = np.maximum(there, back)
    for count in range(2, len(classes) + 1):
        for group in combinations(range(len(classes)), count):
            bits = sum(1 << each for each in group)
            for a, b in permutations(group, 2):
                each = problem.reduce_s(pieces, count, classes[a], classes[b])
                across[bits, 1:] = np.maximum(across[bits, 1:], each)
    return numbers.reshape(spans.shape).astype(np.int64), rings, across, np.array(shares, dtype=np.int64)
