"""Whom a cause points at, by name, and who only suffered.

Must not know how causes are found.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from argosy.contracts.incident import Culprit
from argosy.health.clues import Clue
from argosy.health.words import rank_words

SUFFERERS_MAX = 8


def culprit_of(root: Clue, clues: Sequence[Clue]) -> Culprit:
    """Name the culprit of a cause: rank, chip, host or link, as far as anything tells."""
    if root.culprit == "chip":
        return _with_rank(_chip(root), root, clues)
    if root.culprit == "link":
        return _link(root, clues)
    if root.culprit == "rank":
        return _rank(root)
    if root.culprit == "host":
        return Culprit(kind="host", name=root.host or ("" if root.rank is None else f"host of rank {root.rank}"))
    return Culprit(kind=root.culprit, name=_spot(root) if root.culprit == "code" else "")


def sufferers_of(culprit: Culprit, root: Clue, clues: Iterable[Clue]) -> tuple[str, ...]:
    """Tell which ranks and hosts only suffered: they print symptoms and no cause."""
    ranks, hosts = set(), set()
    for clue in clues:
        if clue.role == "symptom" and clue.rank is not None and clue.rank != root.rank:
            ranks.add(clue.rank)
        elif clue.role == "symptom" and clue.rank is None and clue.host and clue.host != root.host:
            hosts.add(clue.host)
    named = [rank_words(ranks)] if ranks else []
    named += sorted(host for host in hosts if host not in culprit.name)[:SUFFERERS_MAX]
    return tuple(named)


def _chip(root: Clue) -> Culprit:
    chip = root.chip or ("" if root.line.local_rank is None or root.depth < 2 else str(root.line.local_rank))
    if chip and (root.host or root.rank is None):
        link = f" link {root.link}" if root.link else ""
        return Culprit(kind="chip", name=f"{root.host} chip {chip}{link}".strip())
    if root.rank is not None:
        return Culprit(kind="rank", name=f"rank {root.rank}" + (f" on {root.host}" if root.host else ""))
    if root.host:
        return Culprit(kind="host", name=root.host)
    return Culprit(kind="chip")


def _with_rank(culprit: Culprit, root: Clue, clues: Sequence[Clue]) -> Culprit:
    """Add the rank that suffered the same on that chip's host, where one says so."""
    alike = (clue for clue in clues if clue.role == "cause" and clue.family == root.family and clue.rank is not None)
    rank = next((clue.rank for clue in alike if clue.host in ("", root.host)), None)
    if culprit.kind != "chip" or not culprit.name or rank is None:
        return culprit
    return Culprit(kind="chip", name=f"{culprit.name} (rank {rank})")


def _rank(root: Clue) -> Culprit:
    if root.rank is not None:
        return Culprit(kind="rank", name=f"rank {root.rank}")
    local = root.field("local") or ("" if root.line.local_rank is None else str(root.line.local_rank))
    if local:
        return Culprit(kind="rank", name=f"{root.host} local rank {local}".strip())
    return Culprit(kind="host", name=root.host) if root.host else Culprit(kind="rank")


def _link(root: Clue, clues: Sequence[Clue]) -> Culprit:
    """Name the host whose own port speaks; else the peer that several hosts complain of; else the two ends."""
    if root.chip:
        link = f" link {root.link}" if root.link else ""
        return Culprit(kind="link", name=f"{root.host} chip {root.chip}{link}".strip())
    alike = [clue for clue in clues if clue.signature == root.signature and clue.peer]
    complained = Counter(clue.peer for clue in {(each.host, each.peer): each for each in alike}.values())
    if complained and (most := complained.most_common(1)[0])[1] > 1:
        return Culprit(kind="host", name=most[0])
    if root.peer:
        own = root.host or ("" if root.rank is None else f"rank {root.rank}")
        return Culprit(kind="link", name=f"{own} to {root.peer}" if own else root.peer)
    own = root.host or ("" if root.rank is None else f"rank {root.rank}")
    return Culprit(kind="link", name=f"{own} port {root.link}".strip() if root.link else own)


def _spot(root: Clue) -> str:
    return "" if root.rank is None else f"rank {root.rank}"
