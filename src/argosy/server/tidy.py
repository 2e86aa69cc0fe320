"""Keeps the collector of cyclic garbage from holding everything up.

Left to itself it looks through all that the server remembers, again and again: with 12,500 agents that stops every
thread for 0.4 s each time. Here what is new is looked through often, so that it never gets much, and the rest once in
a long while. Must not know what is remembered.
"""

import asyncio
import gc
from itertools import count

NEW_MAX = 5_000
"""New objects, less those that went, after which the new ones are looked through at once."""
NEVER = 1_000_000_000
LOOK_S = 0.25
"""How often the new ones are looked through: what goes by itself meanwhile hides how many there are."""
WHOLE_LOOKS = 2_400
"""Every so many looks everything is looked through."""


async def keep_tidy() -> None:
    """Look after the collector of this process until cancelled."""
    gc.set_threshold(NEW_MAX, NEVER, NEVER)
    for look in count(1):
        await asyncio.sleep(LOOK_S)
        gc.collect(2 if look % WHOLE_LOOKS == 0 else 0)
