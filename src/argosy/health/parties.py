"""Who is meant, in fields that programs can act on, and advice that names them.

Must not know how a cause is found, nor how its culprit is put in words.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from argosy.contracts.incident import Culprit, Party
from argosy.health.clues import Clue
from argosy.health.culprit import rank_in
from argosy.health.origins import is_host
from argosy.health.outlived import PROGRESS
from argosy.health.words import rank_words

SUFFERED_MAX = 100_000
_RANK = re.compile(r"\d{1,9}")
_PLACE = re.compile(r"\{(host|chip|rank)\|([^{}]*)\}")


def blamed(culprit: Culprit, root: Clue, places: Mapping[int, Party]) -> tuple[Party, ...]:
    """Give whom a cause blames, or where it showed; both ends of a link that no port of its own speaks for.

    places: as `places_of` gives them.
    """
    told = rank_in(culprit)
    own = _party_of(root if told is None else replace(root, rank=told), places)
    if culprit.kind == "host" and is_host(culprit.name) and culprit.name != own.host:
        return (Party(host=culprit.name),)
    if culprit.kind == "link" and root.peer and not root.chip:
        peer = Party(rank=int(root.peer)) if _RANK.fullmatch(root.peer) else Party(host=root.peer)
        return (peer,) if own == Party() else (own, peer)
    return () if own == Party() else (own,)


def _party_of(root: Clue, places: Mapping[int, Party]) -> Party:
    known = Party() if root.rank is None else places.get(root.rank, Party())
    local = (
        "" if root.culprit != "chip" or root.line.local_rank is None or root.depth < 2 else str(root.line.local_rank)
    )
    pid = root.number("pid")
    return Party(
        host=root.host or known.host,
        chip=root.chip or local,
        rank=root.rank,
        process=root.field("program") or known.process,
        pid=next((each for each in (pid, root.line.pid) if each is not None), known.pid),
    )


def places_of(clues: Iterable[Clue]) -> dict[int, Party]:
    """Gather where each rank is, as far as any line tells; of several hosts or processes the first."""
    found: dict[int, Party] = {}
    for clue in clues:
        if clue.rank is not None:
            own = clue.line.rank == clue.rank or clue.line.rank is None
            pid = clue.number("pid") if own else None
            told = clue.line.pid if own and pid is None else pid
            known = found.get(clue.rank, Party(rank=clue.rank))
            found[clue.rank] = replace(
                known,
                host=known.host or (clue.host if own else ""),
                pid=told if known.pid is None else known.pid,
            )
    return found


def parties(ranks: Iterable[int], hosts: Iterable[str], places: Mapping[int, Party]) -> tuple[Party, ...]:
    """Give ranks with all that is known of them, then hosts that none of them is on."""
    named = [places.get(rank) or Party(rank=rank) for rank in sorted(set(ranks))[:SUFFERED_MAX]]
    taken = {party.host for party in named}
    return (*named, *(Party(host=host) for host in hosts if host not in taken))


def in_words(ranks: Iterable[int], hosts: Iterable[str]) -> tuple[str, ...]:
    """Write ranks, then hosts, as a person would."""
    named = tuple(ranks)
    return (*([rank_words(named)] if named else []), *hosts)


def advice_for(advice: str, one: Party) -> str:
    """Put the names of a culprit into advice, as far as it has them.

    >>> advice_for("Cordon {host|the host}; reset {chip|the GPU}.", Party(host="node-17", chip="3"))
    'Cordon node-17; reset GPU 3 of node-17.'
    """

    def name(found: re.Match[str]) -> str:
        kind, words = found[1], found[2]
        if kind == "chip" and one.chip:
            return f"{words.removeprefix('the ')} {one.chip}" + (f" of {one.host}" if one.host else "")
        if kind == "rank" and one.rank is not None:
            return f"rank {one.rank}"
        return one.host if kind == "host" and one.host else words

    text = _PLACE.sub(name, advice)
    where = " of ".join(part for part in ("" if one.rank is None else f"rank {one.rank}", one.host) if part)
    named = not where or (one.host and one.host in text) or (one.rank is not None and f"rank {one.rank}" in text)
    return text if named else f"{text} It showed on {where}."


def again_from(clues: Iterable[Clue], family: str) -> str:
    """Say from which step to go on, as far as logs tell; a checkpoint is not named where storage failed."""
    told = [clue for clue in clues if clue.signature == PROGRESS]
    steps, saved = ([each for clue in told if (each := clue.number(name)) is not None] for name in ("last", "saved"))
    last = f"the last step told is {max(steps):,}" if steps else ""
    if not saved or family == "storage":
        return f" Go on from the last checkpoint; {last}." if last else ""
    return f" Go on from the checkpoint of step {max(saved):,}{f'; {last}' if last else ''}."
