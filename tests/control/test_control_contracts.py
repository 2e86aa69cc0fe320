"""The core's contracts survive their JSON form, and every event, command and change is told apart by its tag."""

import dataclasses
from typing import get_args

import msgspec
import pytest

from argosy.contracts import command, event, pending, request
from argosy.contracts import policy as policies
from argosy.contracts.codec import decode, encode
from argosy.control import change
from argosy.control.log import read_record, write_record
from support.cores import Core, option, policy, queue, size

KINDS = [
    kind
    for module in (policies, request, pending)
    for kind in vars(module).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__
]


class TestContracts:
    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
    def test_contracts_are_frozen_and_take_keywords(self, kind):
        """A contract can't be changed, is slotted, and takes keywords only."""
        assert kind.__dataclass_params__.frozen
        assert "__slots__" in vars(kind)
        assert all(field.kw_only for field in dataclasses.fields(kind))

    def test_a_policy_survives_json(self):
        """A policy with everything in it is the same after a trip through JSON."""
        window = policies.Window(site="north", rack=1, from_us=5, to_us=9)
        rules = policy(queue("a", guarantee={"h": 8}, lend={"*": 0}), spares={"north": 1}, maintenance=(window,))
        assert decode(encode(rules), policies.Policy) == rules

    def test_a_reason_survives_json(self):
        """Why a job waits is the same after a trip through JSON."""
        core = Core(north_h800=2)
        core.submit(size("north/h800", 2), time_limit_us=10**9)
        why = core.why(core.submit(size("north/h800", 2)))
        assert decode(encode(why), pending.WhyPending) == why

    @pytest.mark.parametrize("union", [event.AnyEvent, command.AnyCommand, change.AnyChange])
    def test_tags_are_unique(self, union):
        """No two kinds of a union share a tag, so a record is read back as what it was."""
        tags = [kind.__struct_config__.tag for kind in get_args(union)]
        assert len(set(tags)) == len(tags)
        assert all(issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen for kind in get_args(union))

    def test_every_record_is_read_back(self):
        """Each record of a small life is the same after a trip through its line."""
        core = Core(policy(queue("own", guarantee={"h800": 16}), queue("q")), north_h800=(4, 2, 4))
        core.submit(options=(option(size("north/h800", 4)),), queue="q", elastic=True)
        core.submit(size("north/h800", 2), queue="own")
        core.wait(100)
        assert [read_record(write_record(record)) for record in core.records] == core.records
