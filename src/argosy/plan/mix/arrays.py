"""Lays a mix's problem out as arrays for the compiled search: times, memory, rings, by small numbers.

Gradients' rings are timed once for every span of layers, split and number of holders there can be, so that pricing a
mix is looking up. Must not know how mixes are searched for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, permutations
from typing import NamedTuple

import numpy as np

from argosy.plan.mix.tables import Carrier, Floats, Integers, MixProblem

# What Tables.sums has of each layer: its first index.
SECONDS, STATE, STORED, SPARED, AGAIN = range(5)
# Mixes of more replicas than this are not looked at: the tables of rings would grow too large.
REPLICAS_MAX = 2048


class Tables(NamedTuple):
    """What a stage takes and holds.

    sizes: of micro-batches. sums: by (what, size, carrier, layer), over the layers before: seconds, state and stored
    bytes, and of layers recomputed how much less they store and how much longer they take. room: by (size, carrier),
    endlessly below nothing where there is none or it wasn't measured. Messages by (size, boundary, carrier, next);
    seconds of the optimizer's step by (size, carrier, layer).
    """

    sizes: Integers
    sums: Floats
    room: Floats
    forward: Floats
    backward: Floats
    update: Floats


class Pool(NamedTuple):
    """By carrier its class, TP degree and number of its split; by class its chips and those of a node; the batch."""

    classes: Integers
    degrees: Integers
    split: Integers
    chips: Integers
    nodes: Integers
    batch: int


class Rings(NamedTuple):
    """What sums take.

    By (first layer, end) their numbers and weights. pairs: seconds of a ring by (class, class, split, holders, number);
    across: across classes by (set of classes as bits, pieces, number); shares: by split. chip_s: by class, where rings
    are as slow as their slowest holder; then nothing is looked up. replicas_max: a mix has at most so many.
    """

    numbers: Integers
    weights: Floats
    pairs: Floats
    across: Floats
    shares: Integers
    chip_s: Floats
    replicas_max: int


class Factors(NamedTuple):
    """How often the first stage waits for its message, by stages; the same of the last; the rest as of a Schedule."""

    first: Floats
    last: float
    hidden: float
    level: bool
    filled: bool
    drained: float
    shown: float
    ratio: int


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
    pool = Pool(
        classes=np.array([classes.index(carrier.chip_class) for carrier in carriers], dtype=np.int64),
        degrees=np.array([carrier.tp for carrier in carriers], dtype=np.int64),
        split=np.array([shares.index(problem.shares(carrier.tp)) for carrier in carriers], dtype=np.int64),
        chips=np.array([problem.counts[each] for each in classes], dtype=np.int64),
        nodes=np.array([problem.node_chips[each] if problem.node_chips else 1 for each in classes], dtype=np.int64),
        batch=problem.batch,
    )
    deepest = min(problem.stages_max, problem.layers)
    first = np.array([problem.first_factor(depth) for depth in range(deepest + 1)], dtype=float)
    how = problem.schedule
    factors = Factors(
        first=first,
        last=float(problem.last_factor),
        hidden=how.hidden,
        level=how.level,
        filled=how.filled,
        drained=how.drained,
        shown=how.shown,
        ratio=how.ratio,
    )
    numbers = _tables(problem, carriers), pool, _rings(problem, classes, shares), factors
    return Arrays(numbers=numbers, carriers=carriers, stages_max=deepest)


def _tables(problem: MixProblem, carriers: Sequence[Carrier]) -> Tables:
    sizes, layers, count = len(problem.tables), problem.layers, len(carriers)
    total = np.zeros((AGAIN + 1, sizes, count, layers + 1))
    room = np.full((sizes, count), -np.inf)
    forward, backward = (np.full((sizes, layers + 1, count, count), np.inf) for _ in range(2))
    update = np.zeros((sizes, count, layers))
    for number, table in enumerate(problem.tables):
        rows = np.array([row for row, carrier in enumerate(table.carriers) if carrier in carriers], dtype=np.int64)
        mine = np.array([carriers.index(table.carriers[row]) for row in rows], dtype=np.int64)
        parts = {SECONDS: table.layer_s, STATE: table.state_bytes, STORED: table.stored_bytes}
        if table.lean_bytes is not None and table.again_s is not None:
            parts |= {SPARED: table.stored_bytes - table.lean_bytes, AGAIN: table.again_s}
        for what, each in parts.items():
            total[what, number, mine, 1:] = np.cumsum(each[rows], axis=1)
        left = (table.limit_bytes - table.fixed_bytes)[rows]
        room[number, mine] = np.where(left < 0, -np.inf, left)
        update[number, mine] = table.update_s[rows]
        for sent, each in ((forward, table.forward_s), (backward, table.backward_s)):
            sent[number][np.ix_(np.arange(layers + 1), mine, mine)] = each[:, rows][:, :, rows]
    each_size = np.array([table.microbatch_size for table in problem.tables], dtype=np.int64)
    return Tables(
        sizes=each_size,
        sums=total,
        room=room,
        forward=forward,
        backward=backward,
        update=update,
    )


def _rings(problem: MixProblem, classes: Sequence[int], shares: Sequence[int]) -> Rings:
    before = problem.weights_before
    spans = np.maximum(before[None, :] - before[:, None], 0.0)
    most = max(1, min(problem.batch, sum(problem.counts[each] for each in classes)))
    split = np.array(shares, dtype=np.int64)
    if problem.chip_s:
        return Rings(
            numbers=np.zeros(spans.shape, dtype=np.int64),
            weights=spans,
            pairs=np.zeros((1, 1, 1, 1, 1)),
            across=np.zeros((1, 1, 1)),
            shares=split,
            chip_s=np.array([problem.chip_s[each] for each in classes], dtype=float),
            replicas_max=most,
        )
    weights, numbers = np.unique(spans, return_inverse=True)
    most = min(most, REPLICAS_MAX)
    return Rings(
        numbers=numbers.reshape(spans.shape).astype(np.int64),
        weights=spans,
        pairs=_pairs(problem, classes, shares, weights, most),
        across=_across(problem, classes, most * max(shares, default=1), weights),
        shares=split,
        chip_s=np.zeros(0),
        replicas_max=most,
    )


def _pairs(
    problem: MixProblem, classes: Sequence[int], shares: Sequence[int], weights: Floats, replicas_max: int
) -> Floats:
    rings = np.zeros((len(classes), len(classes), len(shares), replicas_max + 1, len(weights)))
    members = np.arange(2, replicas_max + 1)[:, None]
    for a, b in combinations_with_replacement(range(len(classes)), 2):
        for split, share in enumerate(shares):
            there = problem.reduce_s(weights / share, members, classes[a], classes[b])
            back = problem.reduce_s(weights / share, members, classes[b], classes[a])
            rings[a, b, split, 2:] = rings[b, a, split, 2:] = np.maximum(there, back)
    return rings


def _across(problem: MixProblem, classes: Sequence[int], pieces_max: int, weights: Floats) -> Floats:
    across = np.zeros((1 << len(classes), pieces_max + 1, len(weights)))
    pieces = weights / np.arange(1, pieces_max + 1)[:, None]
    for count in range(2, len(classes) + 1):
        for group in combinations(range(len(classes)), count):
            bits = sum(1 << each for each in group)
            for a, b in permutations(group, 2):
                each = problem.reduce_s(pieces, count, classes[a], classes[b])
                across[bits, 1:] = np.maximum(across[bits, 1:], each)
    return across
