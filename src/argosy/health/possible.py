"""Which causes can be why the job ended, by order of time and by what can make what.

A lower layer's word counts before a program's, but not where the program had failed by itself before, and not where a
library only guesses at what the kernel tells of the same process. Must not know which of the causes left is the one.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from argosy.health.book import Book
from argosy.health.clues import Clue
from argosy.health.places import same_chip

# Kernels and programs of one machine write so far apart; clocks of two may differ as much.
LATE_US = 10_000_000
# Who follows a failure fails within so long.
FOLLOWS_US = 60_000_000
TOGETHER_US = 10_000_000
POWER_BEFORE_US = 600_000_000
OUTSIDE = frozenset({"kernel", "driver", "fabric", "scheduler"})
CHIPS = frozenset({"gpu", "npu"})
POWER = ("system.power_redundancy", "kernel.slot_power", "system.power_lost", "nvidia.power_brake")
GONE = frozenset({"scheduler.node_failure", "node.down"})
_PID = re.compile(r"\bpid(?:\(s\))?[ :=#]{0,2}(\d{2,9})\b")


def possible(causes: Sequence[Clue], clues: Sequence[Clue], book: Book) -> list[Clue]:
    """Leave out causes that can't be why the job ended; all stay where nothing else would be left."""
    kept = _with_power(_without_guesses(causes))
    own = _own_end(kept, clues, book)
    if own is not None:
        kept = [cause for cause in kept if cause is own or not _beside(cause, own, clues)]
    return _with_shared(kept, clues, book)


def _without_guesses(causes: Sequence[Clue]) -> list[Clue]:
    """Leave out what a program makes of a signal whose reason the kernel tells of the very process."""
    told = {pid for cause in causes if cause.layer in OUTSIDE for pid in _pids(cause)}
    guessed = [cause for cause in causes if cause.layer not in OUTSIDE and told.intersection(_pids(cause))]
    gone = {(cause.signature, cause.rank, cause.host) for cause in guessed}
    return [cause for cause in causes if (cause.signature, cause.rank, cause.host) not in gone]


def _pids(clue: Clue) -> set[str]:
    named = {clue.field(name) for name in ("pid", "pid2") if clue.field(name).isdecimal()}
    return named if clue.layer in OUTSIDE else named.union(_PID.findall(clue.line.text))


def _own_end(causes: Sequence[Clue], clues: Sequence[Clue], book: Book) -> Clue | None:
    """Find the program's own fault that is the first of all failures of processes."""
    failed = [
        clue
        for clue in (*clues, *causes)
        if clue.layer not in OUTSIDE and clue.at_us is not None and clue.role in ("cause", "symptom")
    ]
    first = min(failed, key=lambda clue: (clue.at_us or 0, clue.role != "cause", clue.order), default=None)
    own = next((cause for cause in causes if first is not None and cause.order == first.order), None)
    if own is None or own.strength < 2 or not book.fault_class(own.fault_class).own:
        return None
    return own


def _beside(cause: Clue, own: Clue, clues: Sequence[Clue]) -> bool:
    """Tell whether something outside of a program happened besides the program's own end."""
    if cause.layer not in OUTSIDE or cause.at_us is None or own.at_us is None:
        return False
    if own.family == "numeric" and cause.family in CHIPS:
        # A chip that computes wrongly makes such numbers.
        return False
    if cause.at_us > own.at_us:
        # Numbers that went wrong end no job by themselves.
        ended = own.strength > 2 and own.family != "numeric" and cause.at_us > own.at_us + LATE_US
        return ended or _followed(own, clues, cause.at_us)
    # What takes a process away is no bystander, and on the same machine even less.
    elsewhere = bool(cause.host) and cause.host != own.host and cause.rank in (None, own.rank)
    return elsewhere and cause.layer != "scheduler" and cause.family not in ("host", *CHIPS)


def _followed(own: Clue, clues: Iterable[Clue], until_us: int) -> bool:
    """Tell whether others failed after a program's end and before something else happened."""
    return own.at_us is not None and any(
        clue.layer not in OUTSIDE
        and clue.role in ("cause", "symptom")
        and clue.at_us is not None
        and clue.signature != own.signature
        and own.at_us <= clue.at_us <= min(until_us, own.at_us + FOLLOWS_US)
        for clue in clues
    )


def _with_shared(causes: Sequence[Clue], clues: Sequence[Clue], book: Book) -> list[Clue]:
    """Blame the machine where several of its chips are lost at once: they share power, board and switches."""
    lost: dict[str, list[Clue]] = {}
    for cause in causes:
        if cause.fault_class in ("gpu.lost", "npu.lost") and cause.chip and cause.at_us is not None:
            lost.setdefault(cause.host, []).append(cause)
    made = list(causes)
    for host, chips in lost.items():
        first = min(chips, key=lambda clue: (clue.at_us or 0, clue.order))
        began = first.at_us or 0
        together = [clue for clue in chips if (clue.at_us or 0) <= began + TOGETHER_US]
        if len({same_chip(clue.chip) for clue in together}) < 2:
            continue
        power = [clue for clue in clues if clue.signature in POWER and clue.host == host and _just_before(clue, began)]
        name = "node.power" if power else first.fault_class
        known = book.fault_class(name)
        gone = {clue.order for clue in (*together, *power)}
        said = replace(first, fault_class=name, culprit="host", chip="", remedy=known.remedy, meaning=first.meaning)
        made = [cause for cause in made if cause.order not in gone] + [said]
    return made


def _with_power(causes: Sequence[Clue]) -> list[Clue]:
    """Believe a power supply more where its machine is given up soon after, of which a scheduler knows no reason."""
    gone = [cause for cause in causes if cause.fault_class in GONE and cause.host and cause.at_us is not None]
    return [
        replace(cause, strength=max(cause.strength, *(one.strength for one in after)))
        if cause.fault_class == "node.power"
        and (after := [one for one in gone if one.host == cause.host and _just_before(cause, one.at_us or 0)])
        else cause
        for cause in causes
    ]


def _just_before(clue: Clue, began_us: int) -> bool:
    return clue.at_us is not None and began_us - POWER_BEFORE_US <= clue.at_us <= began_us
