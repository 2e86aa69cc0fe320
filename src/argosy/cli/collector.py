"""Tells Python's collector of cyclic garbage that a command's objects mostly stay until it ends.

A search makes millions of small objects without cycles; looking through all of them again and again takes a tenth of
its time. Must not know what a command makes.
"""

import gc

NEW_MAX, TIMES = 200_000, 20
"""The youngest are looked through after so many new objects, all after so many times so many times that."""


def collect_seldom() -> None:
    """Look seldom for cyclic garbage in this process."""
    gc.set_threshold(NEW_MAX, TIMES, TIMES)
