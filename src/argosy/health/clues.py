"""From sightings to clues: what each line says once its code is looked up, with who it is about, alike ones counted.

Must not know which clue is the cause of which.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.health.book import NO_REMEDY, Book
from argosy.health.lines import Line
from argosy.health.sightings import Sighting
from argosy.health.signature import Role, Signature

# Ports come and go while a host starts; so long after its boot that is no fault.
BOOT_US = 180_000_000
DIGITS_MAX = 9
LAYER_DEPTH = {
    "kernel": 0,
    "driver": 0,
    "fabric": 1,
    "storage": 1,
    "runtime": 2,
    "scheduler": 2,
    "framework": 3,
    "user": 3,
    "launcher": 4,
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
    def depth(self) -> int:
        """How deep in the machine its printer sits: 0 for the kernel, 4 for the launcher."""
        return LAYER_DEPTH.get(self.layer, 3)

    def field(self, name: str) -> str:
        """Give a field that the pattern named, or nothing."""
        return (self.fields or {}).get(name, "")


def gather(sightings: Iterable[Sighting], book: Book) -> tuple[Clue, ...]:
    """Read sightings line by line, in the order of time where all tell it: harmless lines go, each line says one thing.

    Of several causes on one line the strongest stays, then the one that the book names first; symptoms on that line say
    nothing new.
    """
    places = {signature.name: index for index, signature in enumerate(book.signatures)}
    by_line: dict[tuple[str, int], list[Sighting]] = {}
    for sighting in sightings:
        by_line.setdefault((sighting.line.source, sighting.line.number), []).append(sighting)
    clues: list[Clue] = []
    for seen in by_line.values():
        said = [_clue(sighting, book, len(clues)) for sighting in seen]
        if any(clue.role == "harmless" for clue in said):
            said = [clue for clue in said if clue.role == "cause" and clue.strength > 2]
        causes = [clue for clue in said if clue.role == "cause"]
        if causes:
            clues.append(min(causes, key=lambda clue: (-clue.strength, places.get(clue.signature, 0))))
        else:
            clues += [clue for clue in said if clue.role == "symptom"][:1]
        clues += [clue for clue in said if clue.role == "context"]
    return tuple(replace(clue, order=order) for order, clue in enumerate(_alone_host(_chips_named(_ordered(clues)))))


def _ordered(clues: list[Clue]) -> list[Clue]:
    """Sort by time where every clue of a log has one; logs without times keep their own order, behind."""
    timeless = {clue.line.source for clue in clues if clue.at_us is None}

    def key(clue: Clue) -> tuple[bool, float, str, int]:
        if clue.line.source in timeless:
            return True, 0.0, clue.line.source, clue.line.number
        return False, float(clue.at_us or 0), clue.line.source, clue.line.number

    return sorted(clues, key=key)


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
        host=fields.get("host", "") or fields.get("node", "") or line.host,
        chip=fields.get("chip", ""),
        link=next((fields[name] for name in ("link", "port", "slave", "dev", "module") if fields.get(name)), ""),
        peer=fields.get("peer", "") or fields.get("peer_rank", ""),
        fields=fields,
    )
    clue = _looked_up(clue, sighting.signature, fields, book)
    if clue.layer == "fabric" and line.booted and line.at_us is not None and line.at_us < BOOT_US:
        return replace(clue, role="context", fault_class="")
    return clue


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
    near = 6
    named: dict[str, list[tuple[int, str]]] = {}
    for clue in clues:
        if clue.role == "context" and clue.chip:
            named.setdefault(clue.line.source, []).append((clue.line.number, clue.chip))
    out = []
    for clue in clues:
        spots = named.get(clue.line.source, ()) if clue.role == "cause" and not clue.chip else ()
        close = [
            (abs(number - clue.line.number), chip) for number, chip in spots if abs(number - clue.line.number) <= near
        ]
        out.append(replace(clue, chip=min(close)[1]) if close else clue)
    return out


def _alone_host(clues: Sequence[Clue]) -> list[Clue]:
    """Where all lines together name one host only, it is the host of all of them."""
    hosts = {clue.host for clue in clues if clue.host}
    if len(hosts) != 1:
        return list(clues)
    host = hosts.pop()
    return [clue if clue.host else replace(clue, host=host) for clue in clues]
