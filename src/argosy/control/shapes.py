"""The rungs that waiting jobs share, kept once each, with the chips by kind they take, also as arrays.

A shape keeps its number until all are worked out anew. Must not know jobs or queues.
"""

from collections.abc import Sequence
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
    """All shapes by number, and as tables that `count` brings up to date.

    sizes: of each shape how many rungs it has, and the row of its first. starts: of each rung where its needs (kind,
    amount) and its parts (pool, level, nodes) begin; the row behind the last tells where they end. longest: the most
    rungs of a shape.
    """

    def __init__(self) -> None:
        self.all: list[Shape] = []
        self.number: dict[tuple[Rung, ...], int] = {}
        self.longest = self._counted = 0
        self.sizes: Array = np.zeros((0, 2), np.int64)
        self.starts: Array = np.zeros((1, 2), np.int64)
        self.needs: Array = np.zeros((0, 2), np.int64)
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
        first = len(self.starts) - 1 + np.cumsum(counts) - counts
        needs = [[row for row in need if row[1] > 0] for shape in fresh for need in shape.needs]
        parts = [rows for shape in fresh for rows in shape.parts]
        ends = np.array([(len(need), len(rows)) for need, rows in zip(needs, parts, strict=True)], np.int64)
        self.sizes = np.concatenate([self.sizes, np.stack([counts, first], axis=1)])
        self.starts = np.concatenate([self.starts, self.starts[-1] + ends.reshape(-1, 2).cumsum(axis=0)])
        self.needs = np.concatenate([self.needs, _table(needs, 2)])
        self.parts = np.concatenate([self.parts, _table(parts, 3)])
        self.longest = max(self.longest, int(counts.max()))
        self._counted = len(self.all)


def _table(groups: Sequence[Sequence[tuple[int, ...]]], width: int) -> Array:
    return np.array([row for rows in groups for row in rows], np.int64).reshape(-1, width)
