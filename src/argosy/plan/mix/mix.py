"""Chooses replicas, how many of each, and their micro-batches, for the least time of a step.

Simulated annealing on the exact time from the best mixes of replicas that are all alike, for each class of chips alone
and for all together. Must not know files, networks or classes' names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.plan.mix.anneal import HEAD, REPLICAS, SIZE, STAGES, anneal, cut_evenly, deal, step_s
from argosy.plan.mix.arrays import Arrays, arrays_of
from argosy.plan.mix.sync import sync_s
from argosy.plan.mix.tables import Integers, MixProblem, Pipeline, Sums

# Kinds of replicas in a mix at most; changes tried in one walk, and how many fewer over a single class.
PARTS_MAX, TRIED, ALONE_FEWER = 5, 120_000, 3
# Seeds of the walks over several classes; where one ring is asked for, one more keeps replicas alike.
WALKS = (12345, 20264)
# Of a plan for three phases: how much one ring's time counts, so that it is good by that rule too.
RING_WEIGHT = 0.05
# Ways to lay one replica over several kinds of chips that are tried where no kind holds a whole one.
SPREADS_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MixPart:
    """So many replicas of one kind, each with so many micro-batches a step."""

    pipeline: Pipeline
    replicas: int
    microbatches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The plan: its parts, seconds of a step (compute and messages), and of summing gradients by each rule."""

    parts: tuple[MixPart, ...]
    compute_s: float
    one_ring_s: float
    three_phases_s: float

    def step_s(self, sums: Sums) -> float:
        """Give the time of a step if gradients are summed by this rule."""
        return self.compute_s + (self.one_ring_s if sums == "one_ring" else self.three_phases_s)


def plan_mix(problem: MixProblem, sums: Sums = "one_ring", parts_max: int = PARTS_MAX, tried: int = TRIED) -> Mix:
    """Find the fastest mix if gradients are summed by this rule; an error when nothing fits.

    parts_max: kinds of replicas at most; tried: changes in one walk, the effort.

    Never slower than what it finds for one class of the pool alone. A mix for three phases may be slightly slower than
    the fastest, for the sake of one ring.
    """
    check(problem)
    measured = {carrier.chip_class for table in problem.tables for carrier in table.carriers}
    classes = tuple(index for index, count in enumerate(problem.counts) if count and index in measured)
    groups: list[tuple[int, ...]] = [(index,) for index in classes]
    groups += [classes] if len(classes) > 1 else []
    found = [mix for group in groups for mix in _walks(problem, group, sums, parts_max, tried)]
    if not found:
        raise NeverFitsError(
            "no replica fits: even split over all stages and tensor-parallel degrees that were measured, some layer "
            "needs more memory than its chip has, or the pool has too few chips"
        )
    weight = _ring_weight(sums)
    return min(found, key=lambda mix: mix.compute_s + weight * mix.one_ring_s + (1 - weight) * mix.three_phases_s)


def plan_alike(problem: MixProblem) -> Mix:
    """Find the fastest mix of which all replicas are alike, with one ring."""
    return plan_mix(problem, "one_ring", 1)


def improved(
    problem: MixProblem, parts: Sequence[tuple[Pipeline, int]], tried: int, seed: int = WALKS[0]
) -> list[tuple[Pipeline, int]]:
    """Change pipelines and how many there are of each for a shorter step with one ring; nothing if they don't fit."""
    arrays = arrays_of(problem, [index for index, count in enumerate(problem.counts) if count])
    rows = rows_of(problem, arrays, parts)
    if step_s(rows, arrays.numbers, 1.0, np.inf) == np.inf:
        for row in rows:
            cut_evenly(row, arrays.numbers[0], arrays.numbers[3].level)
    found_s, found = anneal(rows, PARTS_MAX, arrays.numbers, 1.0, tried, seed)
    return [(_pipeline(problem, arrays, row), int(row[REPLICAS])) for row in found] if np.isfinite(found_s) else []


def rows_of(problem: MixProblem, arrays: Arrays, parts: Sequence[tuple[Pipeline, int]]) -> Integers:
    """Write pipelines, and how many there are of each, as rows of numbers."""
    rows = np.zeros((len(parts), HEAD + 2 * arrays.stages_max), dtype=np.int64)
    for row, (pipeline, replicas) in zip(rows, parts, strict=True):
        stages, after = len(pipeline.ends), HEAD + arrays.stages_max
        size = [table.microbatch_size for table in problem.tables].index(pipeline.microbatch_size)
        row[[SIZE, STAGES, REPLICAS]] = size, stages, replicas
        row[HEAD : HEAD + stages] = [arrays.carriers.index(carrier) for carrier in pipeline.carriers]
        row[after : after + stages] = pipeline.ends
    return rows


def check(problem: MixProblem) -> None:
    """Refuse a pool without chips, a batch of nothing, or no tables."""
    if problem.batch < 1 or not problem.tables or min(problem.counts, default=0) < 0 or not sum(problem.counts):
        raise BadInputError(
            f"a mix needs chips, tables and a batch of at least 1; got chips {problem.counts}, "
            f"{len(problem.tables)} tables, batch {problem.batch}"
        )


def _ring_weight(sums: Sums) -> float:
    return 1.0 if sums == "one_ring" else RING_WEIGHT


def _walks(problem: MixProblem, classes: tuple[int, ...], sums: Sums, parts_max: int, tried: int) -> Iterator[Mix]:
    """Give the best mix of every walk over these classes."""
    arrays = arrays_of(problem, classes)
    begin = _begin(arrays, sums)
    if begin is None:
        return
    walks = [(parts_max, seed) for seed in WALKS]
    if sums == "one_ring":
        walks.append((1, WALKS[0]))
    for rows_max, seed in dict.fromkeys(walks) if len(classes) > 1 else walks[:1]:
        effort = tried if len(classes) > 1 else max(1, tried // ALONE_FEWER)
        _, rows = anneal(begin, rows_max, arrays.numbers, _ring_weight(sums), effort, seed)
        yield _mix(problem, arrays, rows)


def _begin(arrays: Arrays, sums: Sums) -> Integers | None:
    """Give the fastest mix of replicas that are all alike and evenly cut, each on one carrier if any such fits."""
    for layouts in (_uniform(arrays), _spread(arrays)):
        best_s, best = np.inf, None
        for picks in layouts:
            for size in range(len(arrays.numbers[0][0])):
                row = _row(arrays, size, picks)
                if not cut_evenly(row[0], arrays.numbers[0], arrays.numbers[3].level):
                    continue
                time_s = step_s(row, arrays.numbers, _ring_weight(sums), best_s)
                if time_s < best_s:
                    best_s, best = time_s, row
        if best is not None:
            return best
    return None


def _row(arrays: Arrays, size: int, picks: Sequence[int]) -> Integers:
    """Make a row of as many replicas of these carriers as the pool holds, not cut yet; one where it holds none."""
    (sizes, *_), (classes, degrees, _, chips, _, batch), _, _ = arrays.numbers
    used = np.zeros(len(chips), dtype=np.int64)
    np.add.at(used, classes[list(picks)], degrees[list(picks)])
    most = min(int(chips[kind] // used[kind]) for kind in range(len(chips)) if used[kind])
    row = np.zeros((1, HEAD + 2 * arrays.stages_max), dtype=np.int64)
    row[0, SIZE], row[0, STAGES] = size, len(picks)
    row[0, REPLICAS] = max(1, min(most, -(-batch // int(sizes[size]))))
    row[0, HEAD : HEAD + len(picks)] = picks
    return row


def _uniform(arrays: Arrays) -> Iterator[tuple[int, ...]]:
    for carrier in range(len(arrays.carriers)):
        for stages in range(1, arrays.stages_max + 1):
            yield (carrier,) * stages


def _spread(arrays: Arrays) -> Iterator[tuple[int, ...]]:
    """Lay a replica over two carriers, or over one carrier of every class, in any order, by numbers of stages."""
    kinds = sorted({carrier.chip_class for carrier in arrays.carriers})
    by_class = [[n for n, carrier in enumerate(arrays.carriers) if carrier.chip_class == kind] for kind in kinds]
    groups: list[tuple[int, ...]] = [*permutations(range(len(arrays.carriers)), 2)]
    if len(kinds) > 2:
        groups += [order for group in product(*by_class) for order in permutations(group)]
    made = 0
    for group in groups:
        for counts in product(range(1, arrays.stages_max), repeat=len(group)):
            if sum(counts) <= arrays.stages_max and made < SPREADS_MAX:
                made += 1
                yield tuple(carrier for carrier, count in zip(group, counts, strict=True) for _ in range(count))


def _mix(problem: MixProblem, arrays: Arrays, rows: Integers) -> Mix:
    """Write rows as a mix, equal ones together."""
    together: dict[tuple[int, ...], Integers] = {}
    after = HEAD + arrays.stages_max
    for row in rows:
        stages = int(row[STAGES])
        kind = (int(row[SIZE]), *row[HEAD : HEAD + stages].tolist(), *row[after : after + stages].tolist())
        if kind in together:
            together[kind][REPLICAS] += row[REPLICAS]
        else:
            together[kind] = row.copy()
    tables, _, _, factors = arrays.numbers
    compute_s, counts = deal(np.stack(list(together.values())), tables, factors, problem.batch)
    parts = [
        MixPart(pipeline=_pipeline(problem, arrays, row), replicas=int(row[REPLICAS]), microbatches=int(microbatches))
        for row, microbatches in zip(together.values(), counts, strict=True)
    ]
    holders = [(part.pipeline, part.replicas) for part in parts]
    return Mix(
        parts=tuple(parts),
        compute_s=float(compute_s),
        one_ring_s=sum(sync_s(problem, holders, "one_ring")),
        three_phases_s=sum(sync_s(problem, holders, "three_phases")),
    )


def _pipeline(problem: MixProblem, arrays: Arrays, row: Integers) -> Pipeline:
    """Read a row's pipeline."""
    stages, after = int(row[STAGES]), HEAD + arrays.stages_max
    return Pipeline(
        microbatch_size=problem.tables[int(row[SIZE])].microbatch_size,
        carriers=tuple(arrays.carriers[pick] for pick in row[HEAD : HEAD + stages]),
        ends=tuple(row[after : after + stages].tolist()),
    )
