"""Every contract is frozen and slotted, and is the same after a trip through its JSON form."""

import dataclasses
import importlib
import pkgutil
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy import contracts
from argosy.contracts import codec, messages

# Not sent anywhere: a document is what was read from a file, a fence is the state of one agent.
LOCAL = ("Document", "Fence")


def _contracts() -> list[type]:
    """Every dataclass and message that the contract modules define."""
    found = []
    for name in sorted(entry.name for entry in pkgutil.iter_modules(contracts.__path__)):
        module = importlib.import_module(f"argosy.contracts.{name}")
        own = [kind for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__]
        found += [kind for kind in own if isinstance(kind, type) and _fields(kind) is not None]
    return [kind for kind in found if kind.__name__ not in LOCAL]


def _fields(kind: type) -> list[str] | None:
    """Name a contract's fields; None for what is no contract."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(kind.__struct_fields__) if issubclass(kind, msgspec.Struct) else None


def _values(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation that JSON can carry: finite floats and integers of 64 bits."""
    plain = {
        bool: st.booleans(),
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: st.text(max_size=5),
        bytes: st.binary(max_size=5),
        type(None): st.none(),
    }
    if annotation in plain:
        return plain[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return st.one_of([_values(item) for item in inner])
    if origin is tuple and inner[-1] is Ellipsis:
        return st.lists(_values(inner[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*[_values(item) for item in inner])
    if origin is dict:
        return st.dictionaries(_values(inner[0]), _values(inner[1]), max_size=2)
    return _builder(annotation)


def _builder(kind: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    values = {name: _values(hints[name]) for name in _fields(kind) or ()}
    if "version" in values:
        values["version"] = st.just(codec.VERSION)
    return st.builds(kind, **values)


class TestContracts:
    @pytest.mark.parametrize("kind", _contracts(), ids=lambda kind: kind.__name__)
    def test_contracts_are_frozen_and_slotted(self, kind):
        """A contract can't be changed, takes keywords only and carries no dict."""
        if dataclasses.is_dataclass(kind):
            fix = f"{kind.__name__} needs frozen=True, slots=True, kw_only=True"
            assert kind.__dataclass_params__.frozen, fix
            assert "__slots__" in vars(kind), fix
            assert all(field.kw_only for field in dataclasses.fields(kind)), fix
        else:
            assert kind.__struct_config__.frozen, f"{kind.__name__} needs frozen=True"

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", _contracts(), ids=lambda kind: kind.__name__)
    @settings(max_examples=20)
    @given(data=st.data())
    def test_contracts_survive_json(self, kind, data):
        """Decoding what was encoded gives an equal object."""
        value = data.draw(_builder(kind))
        assert codec.decode(codec.encode(value), kind) == value

    @settings(max_examples=20)
    @given(data=st.data())
    def test_messages_are_told_apart(self, data):
        """Any upward message is read back as its own kind from the union of all."""
        kind = data.draw(st.sampled_from(get_args(messages.Upward)))
        value = data.draw(_builder(kind))
        assert codec.decode(codec.encode(value), messages.Upward) == value
