"""The rungs that waiting jobs share, kept once each, with the chips by kind they take, also as arrays.

A shape keeps its number until all are worked out anew. Must not know jobs or queues.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy.control.quota import Amounts
from argosy.control.rungs import Rung

Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """Rungs, best first, the chips by kind that each takes, and the nodes of each part by pool and level."""

    rungs: tuple[Rung, ...]
    needs: tuple[Amounts, ...]
    parts: tuple[tuple[tuple[int, int, int], ...], ...]


class Shapes:
    """All shapes by number. counts, starts, needs: rungs of each shape, its first row, and a row for each rung.

    part_start: the first of each row's parts among part_pool, part_level, part_nodes.
    """

    def __init__(self, kinds: int) -> None:
        self.all: list[Shape] = []
        self.number: dict[tuple[Rung, ...], int] = {}
        self._rows = 0
        self._counted = 0
        self.counts: Array = np.zeros(0, np.int64)
        self.starts: Array = np.zeros(0, np.int64)
        self.needs: Array = np.zeros((0, kinds), np.int64)
        self.part_start: Array = np.zeros(0, np.int64)
        self.part_pool: Array = np.zeros(0, np.int64)
        self.part_level: Array = np.zeros(0, np.int64)
        self.part_nodes: Array = np.zeros(0, np.int64)

    def __getitem__(self, number: int) -> Shape:
        return self.all[number]

    def add(self, rungs: tuple[Rung, ...], needs: tuple[Amounts, ...]) -> int:
        """Add a shape and give its number."""
        parts = tuple(tuple((part.pool, part.level, part.nodes) for part in rung.parts) for rung in rungs)
        self.number[rungs] = len(self.all)
        self.all.append(Shape(rungs, needs, parts))
        return len(self.all) - 1

    def count(self) -> None:
        """Bring the arrays up to date with the shapes added since."""
        fresh = self.all[self._counted :]
        if not fresh:
            return
        counts = np.array([len(shape.rungs) for shape in fresh], np.int64)
        needs = np.zeros((int(counts.sum()), self.needs.shape[1]), np.int64)
        for row, need in enumerate(need for shape in fresh for need in shape.needs):
            for kind, amount in need:
                needs[row, kind] = amount
        self._count_parts(fresh)
        self.starts = np.concatenate([self.starts, self._rows + np.cumsum(counts) - counts])
        self.counts = np.concatenate([self.counts, counts])
        self.needs = np.concatenate([self.needs, needs])
        self._rows += int(counts.sum())
        self._counted = len(self.all)

    def _count_parts(self, fresh: list[Shape]) -> None:
        """Append the parts of new shapes."""
        rows = [parts for shape in fresh for parts in shape.parts]
        sizes = np.array([len(parts) for parts in rows], np.int64)
        flat = np.array([part for parts in rows for part in parts], np.int64).reshape(-1, 3)
        self.part_start = np.concatenate([self.part_start, len(self.part_nodes) + np.cumsum(sizes) - sizes])
        self.part_pool = np.concatenate([self.part_pool, flat[:, 0]])
        self.part_level = np.concatenate([self.part_level, flat[:, 1]])
        self.part_nodes = np.concatenate([self.part_nodes, flat[:, 2]])
