"""The JSON form of every contract: one encoder, one decoder, one version.

`decode(encode(x), type(x)) == x` for every dataclass of this package; unknown versions are refused by name.
"""

import dataclasses
from typing import Any, TypeVar

import msgspec

from argosy.contracts.errors import BadInputError

T = TypeVar("T")

VERSION = 1


def encode(value: Any) -> bytes:
    """Write a contract as one line of JSON."""
    return msgspec.json.encode(value)


def decode(data: bytes | str, kind: type[T]) -> T:
    """Read a contract from JSON.

    Raises BadInputError naming the field that does not match `kind`, or the version that this Argosy does not read.
    """
    name = getattr(kind, "__name__", str(kind))
    try:
        value = msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"not a {name} of version {VERSION}: {error}") from error
    wanted = _version(kind)
    found = getattr(value, "version", wanted)
    if wanted is not None and found != wanted:
        raise BadInputError(f"{name} is of version {found}; this Argosy reads version {wanted}")
    return value


def _version(kind: type) -> object:
    """Find the version that a contract is written in: the default of its field `version`; None where it has none."""
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return next((field.default for field in fields if field.name == "version"), None)
