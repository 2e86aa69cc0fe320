"""A shuffle that needs no memory: a keyed permutation of 0..size-1, any part of which can be asked for alone.

A Feistel network over the next even number of bits, applied again while the result lies outside (cycle walking). Only
integer arithmetic is used, so the order is the same on every machine and under every version of numpy. Knows nothing of
tokens.
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.uint64]

_ROUNDS = 6
# At most 3/4 of the numbers that the bits can hold lie outside, so a longer walk is as likely as 1 in 10^124.
_WALK_MAX = 1_000
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def permuted(positions: Numbers, size: int, seed: int, epochs: Numbers) -> Numbers:
    """Where each position (0..size-1) goes in its epoch; for a fixed seed and epoch every target occurs once.

    positions and epochs are arrays of equal length; size: at least 1; seed: any integer.
    """
    if size < 1 or (positions >= size).any():
        # Such a position may lie on a walk that never comes inside.
        raise ValueError(f"a shuffle of {size:,} places; size must be at least 1, and every position less than it")
    half_bits = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    keys = _mix(_mix(np.full_like(epochs, seed % (1 << 64))) + epochs)
    places = _feistel(positions, keys, half_bits)
    for _ in range(_WALK_MAX):
        outside = places >= size
        if not outside.any():
            return places
        places[outside] = _feistel(places[outside], keys[outside], half_bits)
    raise RuntimeError(f"a shuffle of {size:,} places with seed {seed} did not end in {_WALK_MAX:,} rounds")


def _feistel(places: Numbers, keys: Numbers, half_bits: np.uint64) -> Numbers:
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    left, right = places >> half_bits, places & mask
    for number in range(_ROUNDS):
        left, right = right, left ^ (_mix(_mix(keys + np.uint64(number)) + right) & mask)
    return (left << half_bits) | right


def _mix(values: Numbers) -> Numbers:
    """Scatter 64 bits (the finaliser of splitmix64; Steele, Lea, Flood 2014). Wraps around by intent."""
    values = values + _GOLDEN
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
