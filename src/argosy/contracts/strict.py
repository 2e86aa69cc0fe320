"""Contracts from files that a person may have edited: as `codec`, and keys that the contract lacks are refused.

What a program wrote for a program stays with `codec.decode`, which reads over keys that a newer version added.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from argosy.contracts.codec import decode
from argosy.contracts.errors import BadInputError
from argosy.contracts.explain import Path, dotted_path, nearest

PROBLEMS_MAX = 5

T = TypeVar("T")


def decode_strict(data: bytes | str, kind: type[T]) -> T:
    """Read a contract from JSON.

    Raises BadInputError as `decode` does, and for keys that `kind` lacks, with where they stand and the nearest name.
    """
    value = decode(data, kind)
    problems = list(_unknown_keys(msgspec.json.decode(data), kind, ()))
    if problems:
        more = f"; and {len(problems) - PROBLEMS_MAX} more" if len(problems) > PROBLEMS_MAX else ""
        raise BadInputError("; ".join(problems[:PROBLEMS_MAX]) + more)
    return value


def _unknown_keys(value: Any, kind: Any, path: Path) -> Iterator[str]:
    """Walk plain values beside the types they became."""
    if isinstance(value, dict) and dataclasses.is_dataclass(kind):
        known = get_type_hints(kind)
        for key, inner in value.items():
            if key in known:
                yield from _unknown_keys(inner, known[key], (*path, key))
            else:
                near = nearest(key, known)
                hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(known)}"
                yield f"{dotted_path((*path, key))}: unknown key; {hint}"
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            for member in get_args(kind)[:1]:  # every list in a contract holds one kind of thing
                yield from _unknown_keys(inner, member, (*path, index))
    elif isinstance(value, dict):
        for member in get_args(kind):
            if dataclasses.is_dataclass(member):
                yield from _unknown_keys(value, member, path)
