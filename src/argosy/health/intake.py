"""From the bytes of logs to sightings: lines that match a signature, with who printed them when.

Blocks of any size go in, and only what matched is kept, so memory stays flat whatever a log's size or its lines'
lengths. Must not know how files are opened, nor what the sightings prove.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

from argosy.health.clocks import Anchor, Seen
from argosy.health.floods import Floods
from argosy.health.keeper import PASSING_FIELDS, Keeper, Taken
from argosy.health.lines import Line
from argosy.health.origins import Head, Origin, is_host, origin_of_path, read_head
from argosy.health.scanner import Hit, Needles, Scanner
from argosy.health.stamps import Stamp, boot_times
from argosy.health.steps import PROGRESSED, checkpoint_of, may_step, step_before_last, step_of

# A line longer than this is taken in pieces that overlap by more than any literal is long.
LINE_BYTES_MAX, OVERLAP_BYTES = 1 << 16, 1 << 10
BACK_LINES, BACK_BYTES = 40, 6_000
ANCHOR_LINE_BYTES_MAX, TEXT_CHARS_MAX, HEADINGS_MAX = 2_000, 800, 10_000
FIRST_LINES = 4
# Two pieces of a log tell its clock: enough of each, and of all logs of a clock, and of all clocks.
ANCHOR_BYTES, ANCHORS_EACH, ANCHORS_CLOCK, ANCHORS_MAX = 1 << 16, 20, 200, 30_000

# What collectors print before each host's part: `===== node-17 =====`, `==> logs/node-17.log <==`.
_RULE = rb"={3,}+|-{3,}+|\*{3,}+|#{2,}+"
_HEADING = re.compile(
    rb"(?:%b|==>) ?([\w./](?:[\w./-]{0,198}[\w./])?):? ?(?:%b|<==)\r?$" % (_RULE, _RULE), re.MULTILINE
)
_MAY_HEAD = re.compile(rb"\n(?===|--|##|\*\*|Name:)")
_HEADS = Needles(b"\n==", b"\n--", b"\n##", b"\n**", b"\nName:")
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])")
_SEQUENCE = re.compile(
    r"SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+), NumelIn=(?P<size>\d+).*? ran for (?P<ms>\d{1,10}) milli"
)
_TIMED = re.compile(rb"\d:\d\d:\d\d|\[ *\d+\.\d{3}|\b1\d{9}\.\d{3}")
_RANK_PREFIX = re.compile(r"(?=\[rank\d{1,7}\]:)")
# `kubectl describe pod` names what all its lines are about in the first.
_DESCRIBED = re.compile(
    rb"Name: +([\w.-]{1,253})\r?\n(?:Namespace|Node|Priority|Service Account): "
    rb"[^\n]{0,300}\n(?:(?:[ \t]|[A-Z][\w -]{0,40}:)[^\n]{0,2000}(?:\n|$)){0,2000}"
)
_REPORT = re.compile(r"(?:exitcode|error_file|traceback)\s*:")
_REPORT_FIELD = re.compile(r"^\s*(?P<name>time|host|rank)\s*: (?P<value>.*)$", re.MULTILINE)
_LOCAL = re.compile(r"\(local_rank: (\d{1,6})\)")


class Intake:
    """Takes one log in: `feed` its bytes in blocks of any size, then `close`."""

    def __init__(self, scanner: Scanner, keeper: Keeper, source: str, origin: Origin | None = None) -> None:
        """Begin a log. source: its name, as the user gave it; origin: who writes it, else read off the name."""
        self.source = source
        self.read_bytes = self.lines = 0
        self._scanner, self._keeper = scanner, keeper
        self._origin = origin_of_path(source) if origin is None else origin
        self._rest, self._skip, self._first = b"", 0, True
        self._tail = self._above = b""
        self._saved = ""
        self._done = 0
        self._booted = False
        self._headings: list[tuple[int, str]] = []
        self._floods = Floods()
        self._last: tuple[int, Stamp | None] = (-1, None)

    @property
    def rank(self) -> int | None:
        """The rank that the log's name tells."""
        return self._origin.rank

    def feed(self, data: bytes) -> None:
        """Take a block in."""
        self.read_bytes += len(data)
        block = self._rest + data if self._rest else data
        cut = block.rfind(b"\n") + 1
        if cut == 0 and len(block) < LINE_BYTES_MAX:
            self._rest = block
            return
        if cut == 0 or len(block) - cut > LINE_BYTES_MAX:
            self._take(block)
            self._rest = block[-OVERLAP_BYTES:]
            self._skip = len(self._rest)
        else:
            self._rest = block[cut:]
            self._take(block[:cut])
            self._skip = 0

    def close(self) -> None:
        """Take in what is left after the last line end."""
        if self._rest:
            self._take(self._rest)
            self._rest = b""
        self._anchor(self._tail)
        self._note_progress(self._tail)
        self._tail = b""

    def _take(self, block: bytes) -> None:
        """Search whole lines, or a piece of a long one."""
        begin = self._skip
        if b"\x1b" in block or b"\0" in block:
            begin = len(_plain(block[:begin])) if begin else 0
            block = _plain(block)
        if self._first:
            self._begin(block[:ANCHOR_BYTES])
        self._done -= begin
        block = block if begin else self._floods.thinned(block)
        self._read_headings(block)
        position = 0
        for hit in self._scanner.hits(block, begin):
            self.lines += block.count(b"\n", max(position, begin), hit.start)
            position = hit.start
            self._judge(block, hit)
        self.lines += block.count(b"\n", max(position, begin))
        self._keeper.roster.learn(block)
        self._saved = checkpoint_of(block) or self._saved
        if self._booted:
            self._boot(block)
        self._done += len(block)
        self._above = (self._above + block)[-BACK_BYTES:] if len(block) < BACK_BYTES else block[-BACK_BYTES:]
        self._tail = block[-ANCHOR_BYTES:] if len(block) >= ANCHOR_BYTES else (self._tail + block)[-ANCHOR_BYTES:]

    def _read_headings(self, block: bytes) -> None:
        """Find where the parts of hosts begin; the last heading of the block before still holds."""
        self._headings = [(-1, host) for _, host in self._headings[-1:]]
        marks = _MAY_HEAD.finditer(block) if _HEADS.stand_in(block) else ()
        for begin in chain((0,), (mark.end() for mark in marks)):
            found = _HEADING.match(block, begin)
            if found and len(self._headings) < HEADINGS_MAX:
                name = found[1].decode("utf-8", "replace")
                host = name if is_host(name) else origin_of_path(name).host
                self._headings += [(begin, host)] if host else []
            described = None if found else _DESCRIBED.match(block, begin)
            if described and len(self._headings) < HEADINGS_MAX:
                # What follows a pod's description is of whoever was spoken of before.
                before = self._headings[-1][1] if self._headings else ""
                self._headings += [(begin, described[1].decode("utf-8", "replace")), (described.end(), before)]

    def _under(self, start: int) -> Origin:
        """Tell whose part of a log a line stands in."""
        place = bisect_right(self._headings, start, key=lambda heading: heading[0])
        return Origin(host=self._headings[place - 1][1] if place else "")

    def _judge(self, block: bytes, hit: Hit) -> None:
        """Try the patterns of the signatures that a line has a literal of."""
        if self._floods.passes(hit):
            return
        kept = self._matches(block, hit)
        if all(one.signature.role == "harmless" for one in kept):
            self._scanner.note_dull(hit)
        elif not any(_is_telling(one) for one in kept):
            self._floods.note(hit, kept)

    def _matches(self, block: bytes, hit: Hit) -> list[Seen]:
        """Try the patterns on a line; one into which another rank wrote its own is taken apart."""
        whole = hit.line.decode("utf-8", "replace")
        kept = []
        for line in _apart(whole) if whole.find("[rank", 1) > 0 else (whole,):
            head: Head | None = None
            matched: list[tuple[int, dict[str, str]]] = []
            for index in hit.candidates:
                if self._scanner.may_match(index, line):
                    head = head or read_head(line)
                    fields = self._scanner.match(index, head.text)
                    if fields is not None:
                        matched.append((index, fields))
            if head is not None:
                kept += [self._keep(block, hit.start, head, *one) for one in self._believed(matched)]
        return kept

    def _believed(self, matched: list[tuple[int, dict[str, str]]]) -> list[tuple[int, dict[str, str]]]:
        """Leave out what stands in words that are harmless; said here, for not all alike lines are kept."""
        signatures = self._scanner.signatures
        if all(signatures[index].role != "harmless" for index, _ in matched):
            return matched
        return [one for one in matched if signatures[one[0]].holds_in_warnings]

    def _keep(self, block: bytes, start: int, head: Head, index: int, fields: Mapping[str, str]) -> Seen:
        origin = head.origin.or_else(self._under(start)).or_else(self._origin)
        stamp = head.stamp
        if _REPORT.match(head.text):
            origin, stamp = _report_origin(block, start, origin, stamp)
        borrowed = stamp is None
        stamp = stamp or self._stamp_before(block, start)
        self._last = (self._done + start, stamp)
        clocks = self._keeper.clocks
        if head.since_boot is not None and head.stamp is not None and head.stamp.kind == "wall":
            clocks.boots.setdefault(origin.host or self.source, []).append((head.stamp, head.since_boot.us))
        if stamp is not None and "SeqNum=" in head.text:
            self._anchor_sequence(head.text, stamp, origin)
        line = Line(
            source=self.source,
            number=self.lines + 1,
            text=head.text[:TEXT_CHARS_MAX],
            booted=stamp is not None and stamp.kind == "boot",
            rank=origin.rank,
            local_rank=origin.local_rank,
            host=origin.host,
            program=origin.program,
            pid=origin.pid,
            borrowed=borrowed and stamp is not None,
        )
        signature = self._scanner.signatures[index]
        return self._keeper.keep(Seen(line=line, signature=signature, fields=fields, stamp=stamp))

    def _stamp_before(self, block: bytes, start: int) -> Stamp | None:
        """Find the time of the nearest earlier line that has one, in this block or the one before."""
        above = (self._above if start < BACK_BYTES else b"") + block[max(0, start - BACK_BYTES) : start]
        at = self._done + start
        for line in reversed(above[-BACK_BYTES:].split(b"\n")[-BACK_LINES - 1 : -1]):
            at -= len(line) + 1
            if at <= self._last[0]:
                return self._last[1]
            stamp = read_head(line.decode("utf-8", "replace")).stamp if _TIMED.search(line) else None
            if stamp is not None:
                return stamp
        return None

    def _begin(self, head: bytes) -> None:
        """Learn from a log's first lines whether it counts time from the host's start, and its first anchors."""
        self._first = False
        timed = [line for line in head.splitlines()[:BACK_LINES] if _TIMED.search(line)][:FIRST_LINES]
        stamps = [read_head(line.decode("utf-8", "replace")).stamp for line in timed]
        self._booted = any(stamp is not None and stamp.kind == "boot" for stamp in stamps)
        described = _DESCRIBED.match(head)
        if described and not self._origin.host:
            self._origin = self._origin.or_else(Origin(host=described[1].decode("utf-8", "replace")))
        self._anchor(head)

    def _boot(self, block: bytes) -> None:
        """Look for lines of the kernel log that tell when the host was started."""
        name = self._origin.host or self.source
        for needle in (b"audit(", b"setting system clock to"):
            at = block.find(needle)
            while at >= 0 and len(self._keeper.clocks.booted.get(name, ())) < ANCHORS_EACH:
                first, last = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
                head = read_head(block[first : last if last >= 0 else len(block)].decode("utf-8", "replace"))
                if head.since_boot is not None:
                    found = boot_times(iter([(head.since_boot.us, head.text)]))
                    self._keeper.clocks.booted.setdefault(head.origin.host or name, []).extend(found)
                at = block.find(needle, at + 1)

    def _anchor(self, piece: bytes) -> None:
        """Note when steps were printed: ranks print them together, so they tell how far clocks are apart."""
        clocks, own = self._keeper.clocks, self._origin.host or self.source
        if clocks.counts.get(own, 0) >= ANCHORS_CLOCK or len(clocks.anchors) >= ANCHORS_MAX:
            return
        if not may_step(piece):
            return
        count = 0
        for raw in reversed(piece.splitlines()):
            if count >= ANCHORS_EACH:
                break
            if len(raw) > ANCHOR_LINE_BYTES_MAX or not _TIMED.search(raw):
                continue
            head = read_head(raw.decode("utf-8", "replace"))
            found = step_of(head.text)
            if found and head.stamp is not None and head.stamp.kind != "boot":
                self._add_anchor(("step", found), head.stamp, head.origin)
                count += 1

    def _note_progress(self, tail: bytes) -> None:
        """Note the line after which the log shows some steps more: what stands above it did not end the job."""
        found = step_before_last(tail)
        if found is not None:
            line = Line(source=self.source, number=self.lines + 1 - found.lines_after, text=found.text)
            line = replace(line, host=self._origin.host)
            fields = {"step": found.step, "last": found.newest, "saved": self._saved}
            self._keeper.keep(Seen(line=line, signature=PROGRESSED, fields=fields, stamp=found.stamp))

    def _anchor_sequence(self, text: str, stamp: Stamp, origin: Origin) -> None:
        found = _SEQUENCE.search(text)
        if found and stamp.kind != "boot":
            # Members enter a collective together, whatever its time-out; so what counts is when it began.
            began = replace(stamp, us=stamp.us - int(found["ms"]) * 1_000)
            key = ("sequence", found["op"], found["seq"], found["size"])
            self._add_anchor(key, began, origin)

    def _add_anchor(self, key: tuple[str, ...], stamp: Stamp, origin: Origin) -> None:
        clock, clocks = origin.host or self._origin.host or self.source, self._keeper.clocks
        if len(clocks.anchors) < ANCHORS_MAX:
            clocks.anchors.append(Anchor(key=key, stamp=stamp, clock=clock))
            clocks.counts[clock] = clocks.counts.get(clock, 0) + 1


def take_in(
    sources: Iterable[tuple[str, bytes]], scanner: Scanner, near_us: int | None = None, zone_minutes: int | None = None
) -> Taken:
    """Take in logs that lie in memory: names and bytes. near_us, zone_minutes: as `Keeper.settled` has them."""
    keeper = Keeper()
    for source, data in sources:
        intake = Intake(scanner, keeper, source)
        intake.feed(data)
        intake.close()
    return keeper.settled(near_us, zone_minutes)


def _plain(block: bytes) -> bytes:
    """Take colours off, and the zeros that a crash or a log emptied while it is written leaves in a file."""
    return _ESCAPES.sub(b"", block.replace(b"\0", b""))


def _apart(whole: str) -> list[str]:
    """Take the lines of several ranks apart; what stands before the first prefix may be a prefix itself."""
    first, *rest = _RANK_PREFIX.split(whole)
    before = read_head(first).text if rest else ""
    if rest and (not before or is_host(before)):
        return [first + rest[0], *rest[1:]]
    return [first, *rest]


def _is_telling(seen: Seen) -> bool:
    """Tell whether the next line that differs from this one in digits alone may say what no other does."""
    return seen.signature.role == "cause" and not PASSING_FIELDS.issuperset(seen.fields)


def _report_origin(block: bytes, start: int, origin: Origin, stamp: Stamp | None) -> tuple[Origin, Stamp | None]:
    """Read rank, host and time of torchrun's report of a failure: they stand on lines of their own above."""
    above = block[max(0, start - 600) : start].decode("utf-8", "replace")
    above = above[above.rfind("]:\n") + 1 :]
    fields = {found["name"]: found["value"].strip() for found in _REPORT_FIELD.finditer(above)}
    rank, local = re.match(r"\d{1,7}\b", fields.get("rank", "")), _LOCAL.search(fields.get("rank", ""))
    named = Origin(
        rank=int(rank[0]) if rank else None,
        local_rank=int(local[1]) if local else None,
        host=fields.get("host", ""),
    )
    at = read_head(fields.get("time", "").replace("_", " ")).stamp
    return named.or_else(origin), at or stamp
