"""The chip catalogue: published figures of every chip Argosy knows by name, each with its source.

Reads `chips.toml` beside this module and, where a person names one, a file of the same shape that adds chips or
replaces figures. It must not guess: a figure that no source states stays absent, and whoever needs it says so.
"""

import difflib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Chip
from argosy.fleet.text_file import read_text_file

DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4")

# Largest figure of each kind that is believed; beyond it the unit is wrong (GFLOPS for TFLOPS, MB for GB, ...).
LIMITS: Mapping[str, float] = {
    **dict.fromkeys(DTYPES, 100_000.0),
    "memory_gb": 4_000.0,
    "memory_gbytes_s": 100_000.0,
    "scale_up_gbytes_s": 20_000.0,
    "scale_up_chips": 100_000.0,
    "tdp_w": 20_000.0,
    "price_per_hour": 1_000.0,
}
WORDS = ("title", "vendor", "backend", "torch_device")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
BUILT_IN = Path(__file__).with_name("chips.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Chips by name, and the product names by which vendors' own tools call them (lower-case, to catalogue name).

    Example: `load_catalogue().chip("h800-sxm").tflops["bf16"]` is 989.4.
    """

    chips: Mapping[str, Chip]
    product_names: Mapping[str, str]

    def __iter__(self) -> Iterator[Chip]:
        """Go through the chips in the order of the file."""
        return iter(self.chips.values())

    def __len__(self) -> int:
        """Count the chips."""
        return len(self.chips)

    def names(self) -> tuple[str, ...]:
        """Names of all chips, in the order of the file."""
        return tuple(self.chips)

    def chip(self, name: str) -> Chip:
        """Look a chip up by name; an unknown one is a BadInputError with the nearest names."""
        found = self.chips.get(name)
        if found is None:
            raise BadInputError(self.unknown(name))
        return found

    def unknown(self, name: str) -> str:
        """Say that there is no such chip, and which names come nearest."""
        near = nearest_names(name, self.names())
        hint = f"; nearest: {', '.join(near)}" if near else ""
        return f'no chip "{name}" in the catalogue{hint}. `argosy chips` lists all {len(self)}.'


def nearest_names(name: str, names: tuple[str, ...], at_most: int = 3) -> tuple[str, ...]:
    """Find the names that a person may have meant: those that hold the text first, then those spelt alike."""
    text = name.lower().replace("_", "-").replace(" ", "-")
    holding = [known for known in names if text and (text in known or known in text)]
    alike = difflib.get_close_matches(text, names, n=at_most, cutoff=0.6)
    return tuple(dict.fromkeys([*holding, *alike]))[:at_most]


def load_catalogue(extra: Path | None = None) -> Catalogue:
    """Read the built-in catalogue, and over it the file `extra` if one is named.

    A chip that `extra` names again keeps what that file leaves unsaid. Raises BadInputError naming file, chip and key.
    """
    built_in = parse_catalogue(BUILT_IN.read_text(encoding="utf-8"), BUILT_IN.name)
    if extra is None:
        return built_in
    text = read_text_file(extra, "catalogue", "; docs/chips.md shows one")
    return parse_catalogue(text, str(extra), built_in)


def parse_catalogue(text: str, source: str, base: Catalogue | None = None) -> Catalogue:
    """Read a catalogue from TOML text; `base` holds the chips it adds to."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"{source}: not TOML: {error}") from error
    _check_keys(data, ("sources", "chips"), source)
    sources = _table(data.get("sources", {}), f"{source}: sources")
    for key in sources:
        _text(sources[key], f"{source}: sources.{key}")
    chips = dict(base.chips) if base else {}
    products = dict(base.product_names) if base else {}
    for name, entry in _table(data.get("chips", {}), f"{source}: chips").items():
        where = f"{source}: chips.{name}"
        table = _table(entry, where)
        chips[name] = _chip(name, table, sources, where, chips.get(name))
        products.update({product.lower(): name for product in _products(table, f"{where}.product_names")})
    return Catalogue(chips=chips, product_names=products)


def _chip(name: str, entry: dict[str, Any], sources: dict[str, str], where: str, before: Chip | None) -> Chip:
    _check_keys(entry, (*WORDS, "year", "product_names", "from"), where)
    words: dict[str, Any] = {key: _text(entry[key], f"{where}.{key}") for key in WORDS if key in entry}
    if "year" in entry:
        words["year"] = _year(entry["year"], f"{where}.year")
    chip = before or _new_chip(name, words, where)
    chip = replace(chip, **words)
    for source_key, figures in _table(entry.get("from", {}), f"{where}.from").items():
        inner = f"{where}.from.{source_key}"
        chip = _with_figures(chip, _table(figures, inner), sources.get(source_key, source_key), inner)
    return chip


def _new_chip(name: str, words: dict[str, Any], where: str) -> Chip:
    if not NAME.fullmatch(name):
        raise BadInputError(f"{where}: a name is lower-case letters, digits and dashes, such as h100-sxm")
    missing = [key for key in ("title", "vendor") if key not in words]
    if missing:
        raise BadInputError(f"{where}: a new chip needs {' and '.join(missing)}")
    return Chip(name=name, vendor=words["vendor"], title=words["title"])


def _with_figures(chip: Chip, figures: dict[str, Any], source: str, where: str) -> Chip:
    _check_keys(figures, tuple(LIMITS), where)
    tflops, fields, sources = dict(chip.tflops), {}, dict(chip.sources)
    for key, value in figures.items():
        number = _figure(key, value, f"{where}.{key}")
        if key in DTYPES:
            tflops[key] = number
            sources[f"tflops.{key}"] = source
        else:
            fields[key] = int(number) if key == "scale_up_chips" else number
            sources[key] = source
    changes: dict[str, Any] = {**fields, "tflops": tflops, "sources": sources}
    return replace(chip, **changes)


def _figure(key: str, value: Any, where: str) -> float:
    limit = LIMITS[key]
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not 0 < value <= limit
    ):
        raise BadInputError(f"{where}: got {value!r}; a number above 0 and at most {limit:g} is needed")
    if key == "scale_up_chips" and value != int(value):
        raise BadInputError(f"{where}: got {value!r}; a whole number of chips is needed")
    return float(value)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadInputError(f"{where}: got {value!r}; a text is needed")
    return value


def _year(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1990 <= value <= 2100:
        raise BadInputError(f"{where}: got {value!r}; a year is needed")
    return value


def _products(entry: dict[str, Any], where: str) -> list[str]:
    names = entry.get("product_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadInputError(f"{where}: got {names!r}; a list of texts is needed")
    return names


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInputError(f"{where}: got {value!r}; a table is needed")
    return value


def _check_keys(table: dict[str, Any], allowed: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1)
            hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(allowed)}"
            raise BadInputError(f"{where}.{key}: unknown key; {hint}")
