"""From sightings to clues: what each line says once its code is looked up, with who it is about, alike ones counted.

Must not know which clue is the cause of which.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from argosy.health.book import NO_REMEDY, Book
from argosy.health.denials import counts_none, denied, may_deny
from argosy.health.lines import Line
from argosy.health.lived import asserted
from argosy.health.places import place_in
from argosy.health.sightings import Sighting
from argosy.health.signature import HARDWARE, Role, Signature

# Ports come and go while a host starts; so long after its boot that is no fault.
BOOT_US = 180_000_000
DIGITS_MAX, COUNTED_MAX = 9, 18
NEAR_LINES, ERROR_LINES = 6, 80
# Say where the whole job ran, or where what failed did.
HOST_OF_JOB = frozenset({"scheduler.ran_on", "host.named"})
# What a process prints itself comes in the order in which it happened; what is below it may be written down late.
LAYER_DEPTH = {
    "kernel": 0,
    "driver": 0,
    "fabric": 1,
    "scheduler": 1,
    "storage": 2,
    "runtime": 2,
    "framework": 2,
    "user": 2,
    "launcher": 3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """What one line says, with its like.

    signature: its name. fault_class: what it speaks for; of contexts and symptoms what it hints at. rank, host, chip,
    link: whom it is about, as far as it says. peer: another host or rank that it names. order: its place among all
    clues. count: lines alike. code: as printed, empty where there is none.
    """

    signature: str
    role: Role
    layer: str
    meaning: str
    line: Line
    order: int
    fault_class: str = ""
    remedy: str = ""
    culprit: str = "unknown"
    strength: int = 2
    at_us: int | None = None
    count: int = 1
    code: str = ""
    rank: int | None = None
    host: str = ""
    chip: str = ""
    link: str = ""
    peer: str = ""
    fields: Mapping[str, str] | None = None

    @property
    def family(self) -> str:
        """The part of the class before the dot."""
        return self.fault_class.partition(".")[0]

    @property
    def kin(self) -> str:
        """What it shares with clues that say the same: hardware's faults show in many ways, others are of one class."""
        return self.family if self.family in HARDWARE else self.fault_class

    @property
    def depth(self) -> int:
        """How deep in the machine its printer sits: 0 for the kernel, 3 for the launcher."""
        return LAYER_DEPTH.get(self.layer, 2)

    @property
    def began_us(self) -> int:
        """When it happened, microseconds; a time-out tells how long before its line the wait began."""
        elapsed_ms = self.number("elapsed") if self.signature == "timeout.watchdog" else None
        return (self.at_us or 0) - (elapsed_ms or 0) * 1_000

    def field(self, name: str) -> str:
        """Give a field that the pattern named, or nothing."""
        return (self.fields or {}).get(name, "")

    def number(self, name: str) -> int | None:
        """Give a field as a number; None where it is none, or longer than any that a program counts to."""
        text = self.field(name)
        return int(text) if text.removeprefix("-").isdecimal() and len(text) <= COUNTED_MAX else None


def gather(sightings: Iterable[Sighting], book: Book) -> tuple[Clue, ...]:
    """Read sightings line by line, in the order of time where all tell it: harmless lines go, each line says one thing.

    Of several causes on one line the strongest stays, then the one that the book names first; symptoms on that line say
    nothing new.
    """
    places = {signature.name: index for index, signature in enumerate(book.signatures)}
    clues: list[Clue] = []
    order = count()
    for seen in _lines(sightings):
        seen = _asserted(seen)
        said = [_clue(sighting, book, next(order)) for sighting in seen]
        if seen and (any(clue.role == "harmless" for clue in said) or counts_none(seen[0].line.text)):
            said = [clue for clue in said if clue.role == "cause" and clue.strength > 2 and clue.family in HARDWARE]
        said = _shared(said)
        causes = [clue for clue in said if clue.role == "cause"]
        if causes:
            clues.append(min(causes, key=lambda clue: (-clue.strength, places.get(clue.signature, 0))))
        else:
            clues += [clue for clue in said if clue.role == "symptom"][:1]
        clues += [clue for clue in said if clue.role == "context"]
    return tuple(_lent_hosts(_ranks_of_errors(_chips_named(clues))))


def _lines(sightings: Iterable[Sighting]) -> list[list[Sighting]]:
    """Put sightings of one line together, and lines in the order of time; logs without times keep their own, behind."""
    lines: dict[tuple[str, int], list[Sighting]] = {}
    timeless = set()
    for sighting in sightings:
        lines.setdefault((sighting.line.source, sighting.line.number), []).append(sighting)
        if sighting.at_us is None:
            timeless.add(sighting.line.source)

    def key(item: tuple[tuple[str, int], list[Sighting]]) -> tuple[bool, int, str, int]:
        (source, number), seen = item
        return (True, 0, source, number) if source in timeless else (False, seen[0].at_us or 0, source, number)

    return [seen for _, seen in sorted(lines.items(), key=key)]


def _asserted(seen: Sequence[Sighting]) -> list[Sighting]:
    """Leave out what a line only supposes to be the reason, and what it denies."""
    text = seen[0].line.text
    told = asserted(text)
    if told == text and not may_deny(text):
        return list(seen)
    return [one for one in seen if one.signature.role not in ("cause", "symptom") or _holds(one.signature, text, told)]


def _holds(signature: Signature, text: str, told: str) -> bool:
    """Tell whether a signature's words stand in a line and are not denied there; causes count where they are told."""
    pattern = f"(?i:{signature.pattern})" if signature.ignore_case else signature.pattern
    found = re.search(pattern, text)
    if found is None:
        # The line is kept shorter than it was searched.
        return signature.role == "symptom" or told == text
    if signature.role == "cause" and told != text and not re.search(pattern, told):
        return False
    begin, end = _core(signature, found)
    return not denied(text, begin, end)


def _core(signature: Signature, found: re.Match[str]) -> tuple[int, int]:
    """Give the place of what a pattern is about: its match, or the literal in it where it begins with anything."""
    if found.start() or not signature.pattern.startswith(("^", "(?i)^")):
        return found.span()
    lower = found[0].lower()
    places = [(at, at + len(text)) for text in signature.literals if (at := lower.find(text.lower())) >= 0]
    return min(places, default=found.span())


def _clue(sighting: Sighting, book: Book, order: int) -> Clue:
    line, fields = sighting.line, sighting.fields
    clue = Clue(
        signature=sighting.signature.name,
        role=sighting.signature.role,
        layer=sighting.signature.layer,
        meaning=sighting.signature.meaning,
        line=line,
        order=order,
        fault_class=sighting.signature.fault_class,
        remedy=sighting.signature.remedy,
        culprit=sighting.signature.culprit,
        strength=sighting.signature.strength,
        at_us=sighting.at_us,
        count=1 + sighting.repeats,
        rank=_number(fields, "rank", "rank2", "missing") if line.rank is None or _names_other(fields) else line.rank,
        host=_first(fields, "host", "node", "node3") or line.host,
        chip=fields.get("chip", ""),
        link=_first(fields, "link", "link2", "port", "slave", "dev", "module", "module2"),
        peer=_first(fields, "peer", "peer_rank"),
        fields=fields,
    )
    clue = _placed(_looked_up(clue, sighting.signature, fields, book))
    if clue.layer == "fabric" and line.booted and line.at_us is not None and line.at_us < BOOT_US:
        return replace(clue, role="context", fault_class="")
    return clue


def _placed(clue: Clue) -> Clue:
    """Give a cause whom its own words name, where nothing else tells."""
    if clue.role != "cause" or (clue.rank is not None and clue.host and clue.chip):
        return clue
    place = place_in(clue.line.text)
    return replace(
        clue,
        rank=place.rank if clue.rank is None else clue.rank,
        host=clue.host or place.host,
        chip=clue.chip or (place.chip if clue.culprit == "chip" else ""),
    )


def _first(fields: Mapping[str, str], *names: str) -> str:
    """Give the first of several fields that is told."""
    return next((fields[name] for name in names if fields.get(name)), "")


def _names_other(fields: Mapping[str, str]) -> bool:
    """Tell whether the line is about another rank than the one that prints it."""
    return bool(fields.get("rank") or fields.get("rank2") or fields.get("missing"))


def _number(fields: Mapping[str, str], *names: str) -> int | None:
    """Read the first field that is a number; longer ones than any rank are none."""
    for name in names:
        if fields.get(name, "").isdecimal() and len(fields[name]) <= DIGITS_MAX:
            return int(fields[name])
    return None


def _looked_up(clue: Clue, signature: Signature, fields: Mapping[str, str], book: Book) -> Clue:
    """Let the code that a line carries say what the line means."""
    if signature.name not in book.table_of:
        return clue
    code = fields.get("code", "") or (f"-{fields['signal']}" if fields.get("signal") else "")
    table = book.tables[book.table_of[signature.name]]
    known = book.code(signature.name, code)
    if known is None:
        return replace(clue, role="symptom", code=code, meaning=f"{table.what} {code}, which is in no table here")
    said = replace(
        clue,
        code=code,
        fault_class=known.fault_class,
        remedy=known.remedy,
        meaning=f"{table.what} {code}: {known.meaning}",
    )
    if known.remedy in NO_REMEDY:
        return replace(said, role="context" if known.remedy == "none" else "symptom", strength=2)
    if fields.get("severity", "").lower().startswith("non"):
        return replace(said, role="context", fault_class="")
    kind = book.fault_class(known.fault_class).culprit
    return replace(said, role="cause", strength=min(known.strength, clue.strength or 3), culprit=kind)


def _chips_named(clues: Sequence[Clue]) -> list[Clue]:
    """Give causes about a chip the name that a line just above or below states: some records span several lines."""
    named: dict[tuple[str, int], str] = {}
    for clue in clues:
        if clue.role == "context" and clue.chip:
            for away in range(NEAR_LINES, -1, -1):
                named[clue.line.source, clue.line.number + away] = clue.chip
                named.setdefault((clue.line.source, clue.line.number - away), clue.chip)
    return [
        replace(clue, chip=named[clue.line.source, clue.line.number])
        if clue.role == "cause" and not clue.chip and (clue.line.source, clue.line.number) in named
        else clue
        for clue in clues
    ]


def _ranks_of_errors(clues: Sequence[Clue]) -> list[Clue]:
    """Give causes without a rank that of the Python error they stand in, where only its first line tells one."""
    opened: dict[str, Clue] = {}
    made = []
    for clue in clues:
        if clue.signature == "python.traceback":
            opened[clue.line.source] = clue
        above = opened.get(clue.line.source)
        near = above is not None and 0 < clue.line.number - above.line.number <= ERROR_LINES
        inside = near and clue.role == "cause" and clue.layer not in ("kernel", "driver", "launcher", "scheduler")
        if above is not None and inside and clue.rank is None:
            clue = replace(clue, rank=above.rank, host=clue.host or above.host)
        made.append(clue)
    return made


def _shared(said: Sequence[Clue]) -> list[Clue]:
    """Give all that one line says the rank and host that any part of it names."""
    ranks = {clue.rank for clue in said if clue.rank is not None}
    hosts = {clue.host for clue in said if clue.host}
    rank, host = (ranks.pop() if len(ranks) == 1 else None), (hosts.pop() if len(hosts) == 1 else "")
    return [
        replace(clue, rank=rank if clue.rank is None else clue.rank, host=clue.host or host)
        if (clue.rank is None and rank is not None) or (not clue.host and host)
        else clue
        for clue in said
    ]


def _lent_hosts(clues: Sequence[Clue]) -> list[Clue]:
    """Give clues without a host the only one that is named, where it is said of the job or by most lines of a log.

    A host that a few lines name may be any of the job's.
    """
    hosts = {clue.host for clue in clues if clue.host}
    if len(hosts) != 1:
        return list(clues)
    host = hosts.pop()
    of_job = any(clue.signature in HOST_OF_JOB for clue in clues)
    named = Counter(clue.line.source for clue in clues if clue.host)
    of_log = Counter(clue.line.source for clue in clues)
    return [
        replace(clue, host=host)
        if not clue.host and (of_job or 2 * named[clue.line.source] > of_log[clue.line.source])
        else clue
        for clue in clues
    ]
