"""Chance without a generator: a number from (seed, sequence, purpose), the same on every run and every replay."""

import hashlib


def chance(seed: int, sequence: int, purpose: str, below: int) -> int:
    """Draw a whole number from 0 to below - 1."""
    text = f"{seed}:{sequence}:{purpose}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") % max(1, below)
