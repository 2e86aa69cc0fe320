"""Keeps the collector of cyclic garbage from holding everything up.

Left to itself it looks through all that the server remembers, again and again: with 12,500 agents that stops every
thread for 0.4 s each time. Here what is new is looked through often, so that it never gets much, and the rest once in
a long while, or as soon as so much memory came to be held that garbage may be why. Must not know what is remembered.
"""

import asyncio
import gc
from collections.abc import Callable

import psutil

NEW_MAX = 5_000
"""New objects, less those that went, after which the new ones are looked through at once."""
NEVER = 1_000_000_000
LOOK_S = 0.25
"""How often the new ones are looked through: what goes by itself meanwhile hides how many there are."""
WHOLE_LOOKS = 2_400
"""Every so many looks everything is looked through."""
GROWN, GROWN_BYTES = 1.25, 64 << 20
"""By how much memory may grow, as a factor and besides, before everything is looked through again."""


def resident_bytes() -> int:
    """Give the memory that this process holds."""
    return int(psutil.Process().memory_info().rss)


async def keep_tidy(resident: Callable[[], int] = resident_bytes) -> None:
    """Look after the collector of this process until cancelled. resident: gives the bytes that it holds."""
    gc.set_threshold(NEW_MAX, NEVER, NEVER)
    looks, held_bytes = 0, resident()
    while True:
        await asyncio.sleep(LOOK_S)
        looks += 1
        if looks < WHOLE_LOOKS and resident() <= held_bytes * GROWN + GROWN_BYTES:
            gc.collect(0)
            continue
        gc.collect()
        looks, held_bytes = 0, resident()
