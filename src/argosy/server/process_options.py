"""What a server process is given to run with; must not know what it does with that."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from argosy.contracts.policy import Policy
from argosy.server.ground import Ground
from argosy.server.planning import Skills


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a server runs. folder: of its files. port: 0 for any. policy: None keeps the one it has.
    retire_missing: strike nodes out that the fleet no longer has. restored: the store was put back from an older copy.

    agents: nodes that get an agent on this host. owner: of the first token. ready: is told the URL.
    """

    folder: Path
    host: str
    port: int
    ground: Ground
    skills: Skills
    policy: Policy | None
    retire_missing: bool
    restored: bool
    agents: tuple[str, ...]
    owner: str
    ready: Callable[[str], None]
