"""What of this machine a profile is measured on: the chips, and how many of them share a layer.

Must not know how it is measured.
"""

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import NodeGroup


def read_degrees(text: str, chips: int) -> tuple[int, ...]:
    """Read TP degrees, each at most the chips of a node. Raises BadInputError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= chips for part in parts):
        raise BadInputError(f"--tp {text}: write degrees from 1 to {chips}, the chips of this machine, such as 1,2")
    return tuple(sorted({int(part) for part in parts}))


def find_group(groups: tuple[NodeGroup, ...], chip: str) -> NodeGroup:
    """Find the chips to measure on: those named, else the only kind there is. Raises BadInputError."""
    names = [group.chip for group in groups]
    if not chip and len(names) > 1:
        raise BadInputError(f"this machine has {', '.join(names)}; name one by --chip")
    found = next((group for group in groups if group.chip == (chip or names[0])), None)
    if found is None:
        raise BadInputError(f"--chip {chip}: this machine has {', '.join(names)}; run it on a machine that has {chip}")
    return found
