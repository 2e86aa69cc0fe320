"""Keeps the kinds of replicas that the bound's linear program has found, with their numbers as arrays.

Must not know how they were found or what they are chosen for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.plan.mix.tables import Floats, Integers, MixProblem, Pace, Pipeline, pace

Kind = tuple[int, tuple[int, ...], tuple[int, ...]]
"""A replica by numbers: size of its micro-batches, indices of its stages' carriers in the table of that size, ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One kind of replica, how it runs, and the chips of each class it takes."""

    pipeline: Pipeline
    pace: Pace
    chips: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The numbers of many kinds of replicas, by kind; chips also by class of chips."""

    size: Floats
    fill_s: Floats
    slowest_s: Floats
    chips: Floats

    def worth(self, seconds: float) -> Floats:
        """Give the samples that each trains in so many seconds, counting parts of micro-batches."""
        left_s = seconds - self.fill_s
        return np.where(left_s >= 0, self.size * (1 + left_s / self.slowest_s), 0.0)

    def some(self, index: Integers | Sequence[int]) -> "Columns":
        """Give the numbers of some kinds."""
        rows = np.asarray(index, dtype=np.int64)
        return Columns(
            size=self.size[rows],
            fill_s=self.fill_s[rows],
            slowest_s=self.slowest_s[rows],
            chips=self.chips[rows],
        )


class Store:
    """All kinds found so far, numbered in the order in which they came."""

    def __init__(self, problem: MixProblem) -> None:
        self.problem = problem
        self.columns: list[Column] = []
        self._numbers: dict[Kind, int] = {}
        self._rows: list[tuple[list[float], Floats]] = []
        self._arrays: Columns | None = None

    def add(self, kinds: Iterable[Kind]) -> list[int]:
        """Give the numbers of these kinds, new ones timed and kept."""
        found = []
        for kind in kinds:
            if kind not in self._numbers:
                self._numbers[kind] = len(self.columns)
                self._keep(kind)
            found.append(self._numbers[kind])
        return found

    def _keep(self, kind: Kind) -> None:
        size, picked, ends = kind
        table = self.problem.table(size)
        pipeline = Pipeline(microbatch_size=size, carriers=tuple(table.carriers[index] for index in picked), ends=ends)
        column = column_of(self.problem, pipeline)
        self.columns.append(column)
        self._rows.append(([float(size), column.pace.fill_s, column.pace.slowest_s], column.chips))
        self._arrays = None

    def arrays(self) -> Columns:
        """Give the numbers of all kinds."""
        if self._arrays is None:
            times, chips = (np.array(part) for part in zip(*self._rows, strict=True))
            size, fill_s, slowest_s = times.T
            self._arrays = Columns(size=size, fill_s=fill_s, slowest_s=slowest_s, chips=chips)
        return self._arrays


def column_of(problem: MixProblem, pipeline: Pipeline) -> Column:
    """Time a replica and count its chips."""
    table = problem.table(pipeline.microbatch_size)
    picked = [table.carriers.index(carrier) for carrier in pipeline.carriers]
    return Column(pipeline=pipeline, pace=pace(problem, table, picked, pipeline.ends), chips=problem.chips(pipeline))
