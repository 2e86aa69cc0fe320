"""Chance from a seed: a small generator of whole numbers, the same on every machine and every run."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
_MASK = 2**64 - 1


class Dice:
    """A 64-bit xorshift* generator (Marsaglia 2003, Vigna 2016)."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) & _MASK or 1

    def below(self, limit: int) -> int:
        """Draw a whole number from 0 to limit - 1."""
        x = self._state
        x ^= x >> 12
        x = (x ^ (x << 25)) & _MASK
        x ^= x >> 27
        self._state = x
        return ((x * 0x2545F4914F6CDD1D) & _MASK) % limit

    def between(self, low: int, high: int) -> int:
        """Draw a whole number from low to high, both included."""
        return low + self.below(high - low + 1)

    def permille(self, chance: int) -> bool:
        """Say yes so many times in a thousand."""
        return self.below(1000) < chance

    def choice(self, items: Sequence[T]) -> T:
        """Draw one of some items."""
        return items[self.below(len(items))]
