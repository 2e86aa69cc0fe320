"""Measured profiles as the planner reads them: checked, merged, and asked for one unit laid out one way.

What was not measured does not exist: a hole is no time at all, never zero, and can be named. Must not know plans or
files; texts come as arguments.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import ChipClass
from argosy.contracts.profile import Profile, ProfileEntry, ProfileTable
from argosy.contracts.strict import decode_strict
from argosy.plan.costs.profiles import known

KIND = Profile(tables=()).kind
DEGREES = ("tp", "cp", "ep", "microbatch_size")
RECOMPUTES = ("none", "selective", "full")

# A nanosecond and a year: what is outside was measured in another unit, or not at all.
TIME_MS_MIN, TIME_MS_MAX = 1e-6, 3.2e10
# How JSON's reader tells where it stopped, and what other programs write for a time that they don't know.
STOPPED, NO_NUMBERS = re.compile(r"\(byte (\d+)\)"), ("NaN", "Infinity")

SPLIT_ALIKE = 4
"""Unit and degrees come first in a layout."""

Layout = tuple[str, int, int, int, int, str]
"""A unit in words, its TP, CP and EP degree, micro-batch size, and way of recompute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All entries that were read, by (chip, precision, sequence length) and layout."""

    entries: Mapping[tuple[str, str, int], Mapping[Layout, ProfileEntry]]

    def covers(self, chip: str) -> bool:
        """Tell whether anything was measured on a chip: then only what was measured there can be planned."""
        return any(name == chip for name, _, _ in self.entries)

    def entry(self, chip: str, precision: str, sequence_length: int, layout: Layout) -> ProfileEntry | None:
        """Give what was measured for a unit laid out one way; None for a hole."""
        return self.entries.get((chip, precision, sequence_length), {}).get(layout)

    def update_ms(self, chip: str, precision: str, sequence_length: int, layout: Layout) -> float:
        """Give the optimizer's step of a unit; it does not depend on micro-batches, so any entry split alike will do.

        Infinite for a hole.
        """
        table = self.entries.get((chip, precision, sequence_length), {})
        return next(
            (e.update_ms for other, e in table.items() if other[:SPLIT_ALIKE] == layout[:SPLIT_ALIKE]), math.inf
        )

    def activation_bytes(self, chip: str, precision: str, sequence_length: int, layout: Layout) -> int | None:
        """Give what a micro-batch was seen to keep for a unit on a chip; None where nobody looked."""
        entry = self.entry(chip, precision, sequence_length, layout)
        return entry.activation_bytes if entry else None

    def hole(self, chip: str, precision: str, sequence_length: int, layout: Layout) -> str:
        """Name an entry that is missing, and what was measured instead."""
        unit, tp, cp, ep, size, recompute = layout
        what = f"{chip}, {precision}, {sequence_length} tokens: {unit}"
        how = f"micro-batch {size}, TP {tp}, CP {cp}, EP {ep}, recompute {recompute}"
        table = self.entries.get((chip, precision, sequence_length))
        if table is None:
            others = sorted(f"{p} at {s} tokens" for c, p, s in self.entries if c == chip)
            return f"not in the profile: {what}; it has {chip} in {', '.join(others)}"
        ways = {key[1:] for key in table if key[0] == unit}
        return f"not in the profile: {what}, {how}; measured: {ways_text(ways) or 'nothing of this unit'}"


def read_measured(texts: Iterable[tuple[str, str]], chips: Sequence[str]) -> Measured:
    """Read profile files, each (text, source); chips: names of the catalogue.

    Raises BadInputError naming file, table and entry for times that are none, unknown chips, and layouts given twice.
    """
    merged: dict[tuple[str, str, int], dict[Layout, ProfileEntry]] = {}
    for text, source in texts:
        try:
            profile = decode_strict(text, Profile)
        except BadInputError as error:
            raise BadInputError(f"{source}{_stopped(text, str(error))}; `argosy profile` writes such files") from error
        if profile.kind != KIND or not profile.tables:
            raise BadInputError(f"{source}: no table of a profile in it; `argosy profile` writes such files")
        for number, table in enumerate(profile.tables):
            where = f"{source}: tables[{number}]"
            _check_table(table, where, chips)
            into = merged.setdefault((table.chip, table.precision, table.sequence_length), {})
            for index, entry in enumerate(table.entries):
                _check_entry(entry, f"{where}.entries[{index}] ({entry.unit})")
                layout = layout_of(entry)
                if layout in into:
                    raise BadInputError(f"{where}.entries[{index}]: {entry.unit} laid out so is there twice; keep one")
                into[layout] = entry
    return Measured(entries=merged)


def ways_text(ways: Collection[tuple[int, int, int, int, str]]) -> str:
    """Sum up the ways in which a unit was measured: TP, CP and EP degree, micro-batch size, way of recompute.

    >>> ways_text([(1, 1, 1, 1, "none"), (2, 1, 1, 1, "none"), (2, 1, 1, 4, "full")])
    '3 of micro-batch 1 and 4, TP 1 and 2, CP 1, EP 1, recompute full and none'
    """
    if not ways:
        return ""
    tp, cp, ep, size, recompute = (" and ".join(map(str, sorted(set(each)))) for each in zip(*ways, strict=True))
    return f"{len(ways)} of micro-batch {size}, TP {tp}, CP {cp}, EP {ep}, recompute {recompute}"


def profile_for(measured: Measured | None, chip_class: ChipClass) -> Measured | None:
    """Give the profiles if they have a class's chip, which is then planned by them alone; emulated chips have none."""
    found = None if chip_class.emulated else measured
    return found if found and found.covers(chip_class.chip.name) else None


def layout_of(entry: ProfileEntry) -> Layout:
    """Give the layout that an entry was measured in."""
    return entry.unit, entry.tp, entry.cp, entry.ep, entry.microbatch_size, entry.recompute


def _stopped(text: str, error: str) -> str:
    """Say line and column where text that is no JSON can't be read, with what a time without a value is to be."""
    found = STOPPED.search(error)
    if found is None:
        return f": {error}"
    before = text.encode()[: int(found[1])].decode(errors="replace")
    place = f":{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}: "
    odd = next((word for word in NO_NUMBERS if text[len(before) :].startswith(word)), "")
    return f"{place}{odd} is no number of JSON; leave an entry out if it is unknown" if odd else f"{place}{error}"


def _check_table(table: ProfileTable, where: str, chips: Sequence[str]) -> None:
    known(table.chip, chips, f"{where}.chip:")
    if table.sequence_length < 1:
        raise BadInputError(f"{where}.sequence_length: got {table.sequence_length}; expected 1 or more")
    if not table.entries:
        raise BadInputError(f"{where}: it has no entries; measure at least one unit")


def _check_entry(entry: ProfileEntry, where: str) -> None:
    for name in ("forward_ms", "backward_ms"):
        _check_time(getattr(entry, name), f"{where}.{name}", positive=True)
    for name in ("update_ms", "weight_ms"):
        if getattr(entry, name) is not None:
            _check_time(getattr(entry, name), f"{where}.{name}", positive=False)
    if entry.activation_bytes is not None and entry.activation_bytes < 0:
        raise BadInputError(f"{where}.activation_bytes: got {entry.activation_bytes}; expected 0 or more")
    if entry.weight_ms is not None and entry.weight_ms > entry.backward_ms:
        raise BadInputError(f"{where}.weight_ms: {entry.weight_ms:g} is more than backward_ms, {entry.backward_ms:g}")
    for name in DEGREES:
        if getattr(entry, name) < 1:
            raise BadInputError(f"{where}.{name}: got {getattr(entry, name)}; expected 1 or more")
    known(entry.recompute, RECOMPUTES, f"{where}.recompute:")


def _check_time(value: float, where: str, *, positive: bool) -> None:
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        least = "more than 0" if positive else "0 or more"
        raise BadInputError(f"{where}: got {value:g}; expected {least} and finite, leave an entry out if it is unknown")
    if value and not TIME_MS_MIN <= value <= TIME_MS_MAX:
        raise BadInputError(f"{where}: got {value:g}; times are milliseconds, from {TIME_MS_MIN:g} to {TIME_MS_MAX:g}")
