"""Builders for what diagnosis works with: signatures, and sightings from texts."""

from collections.abc import Sequence
from typing import Any

from argosy.health.intake import take_in
from argosy.health.keeper import Taken
from argosy.health.scanner import Scanner
from argosy.health.sightings import Sighting
from argosy.health.signature import Signature


def make_signature(name: str, pattern: str, literal: str = "", **fields: Any) -> Signature:
    """Make a signature; the literal is the pattern where that is plain text."""
    made = {"meaning": "", "role": "cause", "layer": "driver", "literals": (literal or pattern,)}
    return Signature(name=name, pattern=pattern, **(made | fields))


XID = make_signature("xid", r"Xid \(PCI:(?P<chip>[\w:.]+)\): (?P<code>\d+)", "Xid")
OUT_OF_MEMORY = make_signature("oom", "CUDA out of memory")
WATCHDOG = make_signature(
    "watchdog", r"Watchdog caught .*SeqNum=(?P<sequence>\d+)", "Watchdog caught", role="symptom", layer="framework"
)
SIGNATURES = (XID, OUT_OF_MEMORY, WATCHDOG)


def taken_by(signatures: Sequence[Signature], *logs: tuple[str, str | bytes], **options: Any) -> Taken:
    """Take logs in: names and what is in them."""
    data = [(name, text.encode() if isinstance(text, str) else text) for name, text in logs]
    return take_in(data, Scanner(signatures), **options)


def taken(*logs: tuple[str, str | bytes], **options: Any) -> Taken:
    """Take logs in by the signatures above."""
    return taken_by(SIGNATURES, *logs, **options)


def seen(text: str | bytes, name: str = "log.txt") -> Sighting:
    """Take a log in that has one sighting."""
    (sighting,) = taken((name, text)).sightings
    return sighting
