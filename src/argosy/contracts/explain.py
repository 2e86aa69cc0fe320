"""What a pydantic model found wrong with a value, in words: the value got, what is allowed, the nearest name.

Knows pydantic's names of problems and how to find the keys a model allows at a path; it must not know files or places.
"""

import difflib
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any, Union, get_args, get_origin

import pydantic

from argosy.contracts.units import show

Path = tuple[str | int, ...]

ALLOWED_KEYS_MAX = 12

# YAML 1.2's numbers rather than 1.1's: 3e-4 is one, 08:30 and 2026-12-24 are text.
NUMBER = re.compile(r"[-+]?(?:\.\d+|\d+(?:_\d+)*(?:\.\d*)?)(?:[eE][-+]?\d+)?")


def dotted_path(path: Path) -> str:
    """Write a path as people do: `nodes[1].chip`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def nearest(name: str, known: Iterable[str], count: int = 1) -> tuple[str, ...]:
    """Find the names closest to a mistyped one; empty when none is near."""
    return tuple(difflib.get_close_matches(name, list(known), n=count, cutoff=0.6))


def got_text(value: object) -> str:
    """Write the value that was found, saying when it is a list or a mapping."""
    prefix = "the mapping " if isinstance(value, dict) else "the list " if isinstance(value, list) else ""
    return prefix + show(value)


def explain(model: type[pydantic.BaseModel], path: Path, detail: Mapping[str, Any]) -> str:
    """Say in words what pydantic found: the value got and what is allowed."""
    kind, got, context = str(detail["type"]), detail.get("input"), dict(detail.get("ctx") or {})
    if kind == "extra_forbidden":
        return _explain_unknown(model, path)
    if kind == "missing":
        return "missing; the list is too short" if isinstance(path[-1], int) else "missing; this key is required"
    if kind == "value_error":
        return str(context.get("error", detail["msg"]))
    if got is None:
        return f"has no value; {_allowed(kind, context, detail)}, or leave the key out"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        near = nearest(str(got), words)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"must be one of {', '.join(words)}, got {show(got)}{hint}"
    hint = ""
    if kind == "string_type" and not isinstance(got, dict | list):
        hint = "; put it in quotes"
    elif kind in ("int_type", "float_type") and isinstance(got, str) and NUMBER.fullmatch(got):
        hint = "; drop the quotes"
    # A number where text should be is mostly a name or a year, which is written as it came.
    text = str(got) if kind == "string_type" and isinstance(got, int) else got_text(got)
    return f"{_allowed(kind, context, detail)}, got {text}{hint}"


def _allowed(kind: str, context: Mapping[str, Any], detail: Mapping[str, Any]) -> str:
    """Say what a place allows, by pydantic's name of the problem."""
    texts = {
        "int_type": "must be a whole number",
        "int_from_float": "must be a whole number",
        "int_parsing": "must be a whole number",
        "float_type": "must be a number",
        "finite_number": "must be a finite number",
        "string_type": "must be text",
        "bool_type": "must be true or false",
        "model_type": "must be a mapping of keys",
        "dict_type": "must be a mapping of keys",
        "tuple_type": "must be a list",
        "list_type": "must be a list",
        "greater_than": "must be more than {gt}",
        "greater_than_equal": "must be {ge} or more",
        "less_than": "must be less than {lt}",
        "less_than_equal": "must be {le} or less",
        "too_short": "must have at least {min_length} entries",
        "too_long": "must have at most {max_length} entries",
        "string_too_short": "must not be empty",
        "missing_argument": "must have more entries",
        "unexpected_positional_argument": "has too many entries",
    }
    if kind in texts:
        return texts[kind].format_map({name: show(limit) for name, limit in context.items()})
    message = str(detail["msg"])
    return message[:1].lower() + message[1:]


def _explain_unknown(model: type[pydantic.BaseModel], path: Path) -> str:
    """Name the key that was probably meant, else all that are allowed."""
    section = _model_at(model, path[:-1])
    if section is None:
        return "unknown key"
    known = [field.alias or name for name, field in section.model_fields.items()]
    name = str(path[-1])
    other = getattr(section, "OTHER_NAMES", {}).get(name)
    near = (other,) if other else nearest(name, known)
    if near:
        return f"unknown key; did you mean {near[0]}?"
    if not known:
        return "unknown key; no keys are allowed here"
    more = ", ..." if len(known) > ALLOWED_KEYS_MAX else ""
    return f"unknown key; allowed: {', '.join(known[:ALLOWED_KEYS_MAX])}{more}"


def _model_at(model: type[pydantic.BaseModel], path: Path) -> type[pydantic.BaseModel] | None:
    """Find the pydantic model that describes the mapping at a path."""
    current: Any = model
    for part in path:
        if isinstance(current, type) and issubclass(current, pydantic.BaseModel):
            fields = {field.alias or name: field for name, field in current.model_fields.items()}
            if part not in fields:
                return None
            current = fields[str(part)].annotation
        else:
            current = _item_type(current)
        current = _only_model(current)
    return current if isinstance(current, type) and issubclass(current, pydantic.BaseModel) else None


def _item_type(annotation: Any) -> Any:
    """Find what a list, tuple or dict annotation holds."""
    arguments = [item for item in get_args(annotation) if item is not Ellipsis]
    return arguments[-1] if arguments else None


def _only_model(annotation: Any) -> Any:
    """Look through Annotated and unions for the member that has keys or items."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        members = [_only_model(member) for member in get_args(annotation)]
        return next((member for member in members if member is not None and member is not type(None)), None)
    if hasattr(annotation, "__metadata__"):
        return _only_model(get_args(annotation)[0])
    if isinstance(annotation, type) and origin is None:
        return annotation if issubclass(annotation, pydantic.BaseModel) else None
    return annotation
