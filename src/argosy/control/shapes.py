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
    """All shapes by number. counts, first, needs: rungs of each shape, its first row, and a row for each rung.

    part_start: where each row's parts begin among parts (pool, level, nodes), and where the last ends. longest: the
    most rungs of a shape.
    """

    def __init__(self, kinds: int) -> None:
        self.all: list[Shape] = []
        self.number: dict[tuple[Rung, ...], int] = {}
        self.longest = self._counted = 0
        self.counts: Array = np.zeros(0, np.int64)
        self.first: Array = np.zeros(0, np.int64)
        self.needs: Array = np.zeros((0, kinds), np.int64)
        self.part_start: Array = np.zeros(1, np.int64)
        self.parts: Array = np.zeros((0, 3), np.int64)

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
        rows = [parts for shape in fresh for parts in shape.parts]
        ends = self.part_start[-1] + np.cumsum([len(parts) for parts in rows])
        flat = np.array([part for parts in rows for part in parts], np.int64).reshape(-1, 3)
        self.first = np.concatenate([self.first, len(self.needs) + np.cumsum(counts) - counts])
        self.counts = np.concatenate([self.counts, counts])
        self.needs = np.concatenate([self.needs, needs])
        self.part_start = np.concatenate([self.part_start, ends])
        self.parts = np.concatenate([self.parts, flat])
        self.longest = max(self.longest, int(counts.max()))
        self._counted = len(self.all)
