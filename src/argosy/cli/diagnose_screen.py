"""What `argosy diagnose` prints: each incident with its evidence in order, who only suffered, what to do, and notes.

Lays out what the room `health` concludes; concludes nothing.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from argosy.cli.words import counted
from argosy.contracts.codec import encode
from argosy.contracts.incident import Culprit, Evidence, Incident
from argosy.contracts.plain import plain_json, plain_text
from argosy.health.clocks import Offset

# On fewer columns what heads an incident stands below one another.
NARROW_COLUMNS = 60
EVIDENCE_MAX, SUFFERERS_MAX, OFFSETS_MAX = 12, 6, 6
HEAD_CHARS, TAIL_CHARS = 150, 50
DAY_US, QUARTER_US = 86_400_000_000, 900_000_000
# Clocks drift by seconds; hours apart, to the second, they are of two time zones.
ZONE_SLACK_US = 2_000_000
KINDS = {"unknown": "culprit unknown", "code": "the job's code", "configuration": "the configuration"}
BORROWED = "~"
UNNAMED = "a {} that no line names"


def print_incidents(screen: Console, incidents: Sequence[Incident]) -> None:
    """Print incidents, one after the other."""
    for index, incident in enumerate(incidents):
        if index:
            screen.print()
        print_incident(screen, incident)
    if any(one.borrowed for incident in incidents for one in incident.evidence[:EVIDENCE_MAX]):
        screen.print(f"\n{BORROWED} the line tells no time: this is that of the nearest line above it", markup=False)


def print_incident(screen: Console, incident: Incident) -> None:
    """Print one incident: what, who, how sure; evidence in causal order; who only suffered; what to do."""
    name, confidence = culprit_text(incident.culprit), f"confidence {incident.confidence}"
    if screen.width < NARROW_COLUMNS:
        screen.print(_text(f"{incident.fault_class}\n{name}\n{confidence}"))
    else:
        head = Table.grid(expand=True, padding=(0, 3, 0, 0))
        head.add_column(style="bold", no_wrap=True)
        head.add_column(ratio=1, overflow="fold")
        head.add_column(justify="right", no_wrap=True)
        head.add_row(_text(incident.fault_class), _text(name), confidence)
        screen.print(head)
    shown = incident.evidence[:EVIDENCE_MAX]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=44)
    table.add_column(overflow="fold")
    times = evidence_times(shown)
    for index, (time, evidence) in enumerate(zip(times, shown, strict=True)):
        mark = "   <- first" if index == 0 and len(shown) > 1 else ""
        table.add_row(f" {time}", _text(evidence.source), _text(clipped(evidence.text) + mark))
    if shown:
        screen.print(table)
    if len(incident.evidence) > EVIDENCE_MAX:
        screen.print(f"  and {len(incident.evidence) - EVIDENCE_MAX} more; --json lists them", markup=False)
    if incident.sufferers:
        screen.print(_text(f"not at fault   {sufferers_text(incident.sufferers)}"))
    screen.print(_text(f"what to do     {incident.advice or incident.remedy.replace('_', ' ')}"))


def print_notes(screen: Console, offsets: Sequence[Offset], notes: Sequence[str]) -> None:
    """Print how clocks differ, and what else to know before believing the rest."""
    lines = [*clock_lines(offsets), *(f"note     {note}" for note in notes)]
    if lines:
        screen.print()
    for line in lines:
        screen.print(_text(line), soft_wrap=True)


def json_text(value: Any) -> str:
    """Write the answer as JSON that does nothing to a terminal either."""
    return plain_json(encode(value).decode())


def clipped(text: str) -> str:
    """Leave the middle out of a text that is too long for a screen; --json has all of it."""
    return text if len(text) <= HEAD_CHARS + TAIL_CHARS else f"{text[:HEAD_CHARS]} ... {text[-TAIL_CHARS:]}"


def culprit_text(culprit: Culprit) -> str:
    """Name a culprit.

    >>> culprit_text(Culprit(kind="rank", name="rank 3")), culprit_text(Culprit(kind="unknown"))
    ('rank 3', 'culprit unknown')
    """
    return culprit.name or KINDS.get(culprit.kind) or UNNAMED.format(culprit.kind)


def sufferers_text(names: Sequence[str]) -> str:
    """List who only suffered, the first few by name."""
    rest = len(names) - SUFFERERS_MAX
    return ", ".join(names[:SUFFERERS_MAX]) + (f" and {rest} more" if rest > 0 else "")


def evidence_times(evidence: Sequence[Evidence]) -> list[str]:
    """Write the times of evidence: the date only where they are of several days, fractions only where one has any.

    A `~` marks times that the line itself does not tell.
    """
    known = [one.at_us for one in evidence if one.at_us is not None]
    dated = len({us // DAY_US for us in known}) > 1
    fine = any(us % 1_000_000 for us in known)
    texts = ["" if one.at_us is None else time_text(one.at_us, dated=dated, fine=fine) for one in evidence]
    marks = [BORROWED if one.borrowed and text else " " for one, text in zip(evidence, texts, strict=True)]
    return [f"{mark}{text}" for mark, text in zip(marks, texts, strict=True)]


def time_text(at_us: int, *, dated: bool, fine: bool) -> str:
    """Write a time, in UTC as far as the logs told their zone.

    >>> time_text(1_796_047_331_208_000, dated=True, fine=True)
    '2026-11-30 14:02:11.208'
    """
    try:
        at = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    text = at.strftime("%Y-%m-%d %H:%M:%S" if dated else "%H:%M:%S")
    return f"{text}.{at_us % 1_000_000 // 1_000:03d}" if fine else text


def clock_lines(offsets: Sequence[Offset]) -> list[str]:
    """Say which clocks are apart, by how much, how that is known, and that times were corrected for it."""
    apart = [offset for offset in offsets if offset.corrected]
    lines = [f"clock    {_offset_text(offset)}; its times are corrected" for offset in apart[:OFFSETS_MAX]]
    if len(apart) > OFFSETS_MAX:
        lines.append(f"clock    and {counted(len(apart) - OFFSETS_MAX, 'clock')} more; --json lists all")
    return lines


def _offset_text(offset: Offset) -> str:
    way = "ahead of" if offset.offset_us > 0 else "behind"
    size_us = abs(offset.offset_us)
    zone = (
        size_us >= QUARTER_US - ZONE_SLACK_US
        and abs(size_us - round(size_us / QUARTER_US) * QUARTER_US) < ZONE_SLACK_US
    )
    known = f"from {offset.shared} that both saw, +-{offset.spread_us / 1e6:.3g} s"
    size = f"{size_us / 3.6e9:.4g} h (another time zone?)" if zone else f"{size_us / 1e6:,.3f} s"
    return f"{offset.clock}: {size} {way} {offset.reference} ({known})"


def _text(text: str) -> Text:
    return Text(plain_text(text))
