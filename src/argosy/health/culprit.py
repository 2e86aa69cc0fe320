"""Whom a cause points at, by name, and who only suffered.

Must not know how causes are found.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from argosy.contracts.incident import Culprit
from argosy.health.book import UNKNOWN
from argosy.health.clues import Clue
from argosy.health.places import same_chip

SUFFERERS_MAX = 8
# Lines of launchers that tell by which code a worker ended, and codes that stand for a signal.
EXITS = frozenset({"elastic.worker_failed", "elastic.summary", "deepspeed.exit"})
SIGNALS = range(129, 193)
# Who raised an error that nobody knows may have been the one that failed.
OWN_ERROR = "python.error"


def culprit_of(root: Clue, clues: Sequence[Clue]) -> Culprit:
    """Name the culprit of a cause that was `placed`: rank, chip, host or link, as far as anything tells."""
    if root.culprit == "chip":
        return _with_rank(_chip(root), root, clues)
    if root.culprit == "link":
        return _link(root, clues)
    if root.culprit == "rank":
        return _rank(root)
    if root.culprit == "host":
        return Culprit(kind="host", name=root.host or _host_of(root))
    # Where a file or a service is at fault, whoever met it is the place to look.
    told = root.culprit == "code" or (root.culprit == "unknown" and root.fault_class != UNKNOWN)
    return Culprit(kind=root.culprit, name=_spot(root) if told else "")


def placed(root: Clue, clues: Sequence[Clue]) -> Clue:
    """Fill in what a cause lacks of host, chip and rank from others that say the same, where they agree."""
    alike = [clue for clue in clues if clue.role == "cause" and clue.fault_class == root.fault_class]
    odd = _odd_one(alike) if root.field("other") else None
    if odd is not None and odd != root.rank:
        root = replace(root, rank=odd, host="", chip="")
    alike = [clue for clue in alike if clue.rank == root.rank or clue.rank is None or root.rank is None]
    hosts = {clue.host for clue in alike if clue.host}
    chips = {same_chip(clue.chip): clue.chip for clue in alike if clue.chip}
    ranks = {clue.rank for clue in alike if clue.rank is not None}
    return replace(
        root,
        host=root.host or (hosts.pop() if len(hosts) == 1 else ""),
        chip=root.chip or (chips.popitem()[1] if len(chips) == 1 else ""),
        rank=ranks.pop() if root.rank is None and len(ranks) == 1 else root.rank,
    )


def _odd_one(clues: Iterable[Clue]) -> int | None:
    """Name the rank that several others each found to differ from themselves; None where less is told."""
    pairs = {frozenset((clue.number("one"), clue.number("other"))) for clue in clues if clue.field("other")}
    odd = frozenset.intersection(*pairs) if len(pairs) > 1 else frozenset()
    return next(iter(odd)) if len(odd) == 1 else None


def _host_of(root: Clue) -> str:
    local = root.field("local")
    if root.rank is None and not local:
        return ""
    return f"host of local rank {local}" if root.rank is None else f"host of rank {root.rank}"


def sufferers_of(culprit: Culprit, root: Clue, clues: Sequence[Clue]) -> tuple[set[int], list[str]]:
    """Tell which ranks, and hosts of unknown ranks, only suffered: they print symptoms and no cause."""
    ranks: set[int] = set()
    hosts: set[str] = set()
    # Where nobody is named, the first who failed suffered, too; but who ended first by itself may know why.
    first = first_to_end(clues) if root.fault_class == UNKNOWN else None
    own = {root.rank, rank_in(culprit)} if root.fault_class != UNKNOWN else {first.rank if first else None}
    for clue in clues:
        if root.fault_class == UNKNOWN and clue.signature == OWN_ERROR:
            continue
        if clue.role == "symptom" and clue.rank is not None and clue.rank not in own:
            ranks.add(clue.rank)
        elif clue.role == "symptom" and clue.rank is None and clue.host and clue.host != root.host:
            hosts.add(clue.host)
    return ranks, sorted(host for host in hosts if host not in culprit.name)[:SUFFERERS_MAX]


def first_to_end(clues: Iterable[Clue]) -> Clue | None:
    """Find the line of the rank that ended first, by itself and with an error, as a launcher tells it."""
    ended = [clue for clue in clues if clue.signature in EXITS and clue.rank is not None]
    failed = [clue for clue in ended if (clue.number("code") or 0) > 0 and clue.number("code") not in SIGNALS]
    return min(failed, key=lambda clue: (clue.at_us is None, clue.at_us or 0, clue.order), default=None)


def rank_in(culprit: Culprit) -> int | None:
    """Read the rank that a culprit's name tells."""
    found = re.search(r"\brank (\d{1,9})\b", culprit.name)
    return int(found[1]) if found else None


def _chip(root: Clue) -> Culprit:
    chip = root.chip or ("" if root.line.local_rank is None or root.depth < 2 else str(root.line.local_rank))
    if chip and (root.host or root.rank is None or root.chip):
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
