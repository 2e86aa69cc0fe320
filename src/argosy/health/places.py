"""Whom a message speaks of, where neither its head nor a pattern's groups tell: `Rank 5`, `node: gpu-n07`, `Device: 3`.

Must not know what a message means.
"""

import re
from dataclasses import dataclass

from argosy.health.origins import is_host

_RANK = re.compile(r"(?<![\w.])(?:global )?[Rr]ank(?:ID)?[ :=#_]{0,2}(\d{1,7})\b(?! (?:of|out))")
_HOST = re.compile(
    r"\b(?:[Nn]odes?|[Hh]ost(?:name)?|[Mm]achine|IP|[Aa]ddress)(?: name)?(?::|=| is)? ?['\"]?([A-Za-z0-9][\w.-]*\w)"
)
_ADDRESS = re.compile(r"\b(?:NPU|GPU) (?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.\d)?)\b")
_CHIP = re.compile(
    r"\b(?:NPU|GPU|[Dd]ev(?:ice)?|davinci)(?:[ _]?[Ii][Dd])?[ :=#]{0,2}(\d{1,2})\b(?![\w.:%]| ?(?:[GM]i?B|%))"
)


_PCI = re.compile(r"0*([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.\d)?")


def same_chip(name: str) -> str:
    """Give what all ways to write one chip's name share: PCI addresses come with a function and a longer domain.

    >>> same_chip("00000000:9A:00.0"), same_chip("3")
    ('0000:9a:00', '3')
    """
    address = _PCI.fullmatch(name.lower())
    return address[1] if address else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Who is named; None or empty where nobody is, or several are."""

    rank: int | None = None
    host: str = ""
    chip: str = ""


def place_in(text: str) -> Place:
    """Read the one rank, host and chip that a message names.

    >>> place_in("Rank 5: found NaN. Device: 5, node: gpu-n07")
    Place(rank=5, host='gpu-n07', chip='5')
    """
    ranks, chips = set(_RANK.findall(text)), set(_ADDRESS.findall(text) or _CHIP.findall(text))
    hosts = {name for name in _HOST.findall(text) if is_host(name)}
    return Place(
        rank=int(ranks.pop()) if len(ranks) == 1 else None,
        host=hosts.pop() if len(hosts) == 1 else "",
        chip=chips.pop() if len(chips) == 1 else "",
    )
