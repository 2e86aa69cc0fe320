"""The fields of a `config.json`, read one at a time with errors that say where, what was found and what is allowed.

It knows JSON and ranges; what a field means for a model is in `model.families`.
"""

import json
import math
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from argosy.contracts.errors import BadInputError

REQUIRED: Any = object()
"""Stands for "no default" where None is a value."""

INTEGER_MAXIMUM = 1_000_000_000
LAYERS_MAXIMUM = 10_000


class Fields:
    """One JSON object of a configuration, with its source for errors."""

    def __init__(self, text: str, source: str, values: dict[str, Any] | None = None, prefix: str = "") -> None:
        self.text = text
        self.source = source
        self.prefix = prefix
        self.values = _parse(text, source) if values is None else values

    def where(self, key: str) -> str:
        """Name a field for a person: `config.json:7  hidden_size`; without the line where the text does not hold it."""
        found = re.search(rf'"{re.escape(key)}"\s*:', self.text)
        line = f":{self.text.count(chr(10), 0, found.start()) + 1}" if found and key in self.values else ""
        return f"{self.source}{line}  {self.prefix}{key}"

    def error(self, key: str, problem: str) -> BadInputError:
        """Make the error about one field."""
        return BadInputError(f"{self.where(key)}: {problem}")

    def raw(self, key: str, default: Any, expected: str) -> Any:
        """Give a field as it stands; `expected` ends the error where a field without default is missing or null."""
        value = self.values.get(key, default)
        if value is None and default is not None:
            value = default
        if value is not REQUIRED:
            return value
        if key in self.values:
            raise self.error(key, f"is null; expected {expected}")
        near = get_close_matches(key, [name for name in self.values if isinstance(name, str)], n=1, cutoff=0.8)
        raise self.error(key, f"missing; expected {expected}" + (f" (did you mean {near[0]}?)" if near else ""))

    def integer(
        self, key: str, default: Any = REQUIRED, *, example: int = 1, low: int = 1, high: int = INTEGER_MAXIMUM
    ) -> Any:
        """Read a whole number in low..high; None only where that is the default."""
        expected = f"a whole number from {low} to {high:,}, for example {example}"
        value = self.raw(key, default, expected)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(key, f"got {_shown(value)}; expected {expected}")
        return value

    def number(self, key: str, default: Any = REQUIRED, *, example: float = 1.0) -> Any:
        """Read a positive number; None only where that is the default."""
        expected = f"a positive number, for example {example:g}"
        value = self.raw(key, default, expected)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
            raise self.error(key, f"got {_shown(value)}; expected {expected}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Read true or false."""
        value = self.raw(key, default, "true or false")
        if not isinstance(value, bool):
            raise self.error(key, f"got {_shown(value)}; expected true or false")
        return value

    def choice(self, key: str, default: str, allowed: Sequence[str]) -> str:
        """Read one word of a list."""
        value = self.raw(key, default, " or ".join(allowed))
        if value not in allowed:
            raise self.error(key, f"got {_shown(value)}; expected {' or '.join(allowed)}")
        return str(value)

    def sequence(self, key: str) -> list[Any] | None:
        """Read a list, or None where it is missing or null."""
        value = self.raw(key, None, "a list")
        if value is not None and not isinstance(value, list):
            raise self.error(key, f"got {_shown(value)}; expected a list")
        return value

    def table(self, key: str) -> "Fields | None":
        """Read an object as Fields of its own, or None where it is missing or null."""
        value = self.raw(key, None, "an object")
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(key, f"got {_shown(value)}; expected an object")
        return Fields(self.text, self.source, value, f"{self.prefix}{key}.")


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _parse(text: str, source: str) -> dict[str, Any]:
    if not text.strip():
        raise BadInputError(f"{source}: empty; expected the config.json of a model")
    try:
        values = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise BadInputError(f"{source}:{error.lineno}:{error.colno}  not JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise BadInputError(
            f"{source}: {'nested too deeply' if isinstance(error, RecursionError) else error}"
        ) from error
    if not isinstance(values, dict):
        raise BadInputError(
            f"{source}: holds {_shown(values)}; expected an object of fields as in a model's config.json"
        )
    return values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)}: given twice; keep one")
    return values
