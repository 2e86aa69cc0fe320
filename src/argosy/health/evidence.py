"""What an Incident shows of clues: the cause first, then what followed, each kind of line once.

Must not know how the cause was found.
"""

from collections.abc import Iterable, Iterator
from pathlib import PurePath

from argosy.contracts.incident import Evidence
from argosy.health.clues import Clue
from argosy.health.telling import sources_of, words_of

EVIDENCE_MAX = 12
TEXT_MAX = 400


def evidence_of(root: Clue, clues: Iterable[Clue]) -> Iterator[Evidence]:
    """Give the cause first, then what followed, each kind of line once with all who printed it."""
    kinds: dict[tuple[str, str], list[Clue]] = {}
    shown = (root, *(clue for clue in clues if clue.role != "context" or clue.fault_class))
    for clue in shown:
        if clue.line != root.line or clue is root:
            kinds.setdefault((clue.signature, clue.code), []).append(clue)
    for alike in list(kinds.values())[:EVIDENCE_MAX]:
        first = alike[0]
        place = f"{PurePath(first.line.source).name}:{first.line.number}"
        who = sources_of(alike)
        source = f"{who}, {place}" if who else place
        text = words_of(first)[:TEXT_MAX]
        yield Evidence(source=source, text=text, at_us=first.at_us, borrowed=first.line.borrowed, layer=first.layer)
