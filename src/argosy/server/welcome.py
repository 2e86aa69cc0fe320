"""The tokens a service begins with: one for who began it, one for agents on its host; both lie in its folder.

Must not know who uses them.
"""

import asyncio
from pathlib import Path

from argosy.server import place
from argosy.server.heart import Heart
from argosy.server.loop import wall_us
from argosy.server.tokens import holder_of, issue

HERE = "this host"


async def first_tokens(heart: Heart, folder: Path, owner: str) -> str:
    """See that both tokens are there and good; gives the one that lets agents join. Raises InfrastructureError."""
    for name, holder, role in ((place.TOKEN_NAME, owner, "admin"), (place.JOIN_NAME, HERE, "join")):
        path = folder / name
        held = place.read_secret(path)
        if not held or holder_of(heart.store, held) is None:
            made = issue(holder, role, wall_us())
            await asyncio.wrap_future(heart.loop.write(made.statement))
            place.write_secret(path, made.secret)
    return place.read_secret(folder / place.JOIN_NAME)
