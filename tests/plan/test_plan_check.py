"""Plans made by hand that can't be are refused, whatever is wrong with them."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Exchange, Plan, Replica, Send, Stage, Wire
from argosy.plan.timing.check import check_plan

NAN, INF = float("nan"), float("inf")


def made(
    stage: dict[str, Any] | None = None, send: float = 8.0, wire: dict[str, Any] | None = None, **more: Any
) -> Plan:
    """Build a sound plan of two stages of two layers on two replicas, with changes."""
    parts = (
        Stage(
            first_layer=2 * index,
            end_layer=2 * index + 2,
            chip_class="north/fast",
            forward_ms=1.0,
            backward_ms=2.0,
            backward_shares=(0.5, 0.25, 0.25),
            memory_gb=3.0,
            memory_limit_gb=4.0,
        )
        for index in range(2)
    )
    first, second = parts
    like = Replica(
        stages=(replace(first, **(stage or {})), second),
        microbatches=2,
        microbatch_size=1,
        sends=(Send(wire="inside", payload_bytes=send),),
    )
    inside = replace(Wire(name="inside", gbps=100.0, one_way_ms=0.005), **(wire or {}))
    exchange = Exchange(unit=0, members=((0, 0), (1, 0)), wire="inside", wire_bytes=4.0)
    sound = Plan(
        model="tiny",
        num_layers=4,
        fleet="fleet",
        sequence_length=64,
        global_batch_size=4,
        replicas=(like, like),
        wires=(inside,),
        exchanges=(exchange,),
    )
    return replace(sound, **more)


def refused(plan: Plan, text: str) -> None:
    """Hold a plan's refusal against a pattern."""
    with pytest.raises(BadInputError, match=text):
        check_plan(plan)


class TestSound:
    def test_passes(self) -> None:
        """The plan that all others are changes of is sound."""
        check_plan(made())


class TestPlan:
    @pytest.mark.parametrize(
        ("name", "value"),
        [("sequence_length", 0), ("bucket_bytes", -1), ("barrier_ms", NAN), ("barrier_ms", -1.0), ("barrier_ms", INF)],
    )
    def test_figures(self, name: str, value: float) -> None:
        """Figures of the whole plan are in range."""
        refused(made(**{name: value}), f"{name} {value}; it")


class TestStage:
    @pytest.mark.parametrize("degree", ["tp", "cp", "ep"])
    @pytest.mark.parametrize("value", [0, -2])
    def test_degrees(self, degree: str, value: int) -> None:
        """No degree is below one."""
        refused(made({degree: value}), f"stage 0.*{degree.upper()} {value}.*at least 1")

    def test_one_ep(self) -> None:
        """All stages of a replica share one EP degree, by which its sequences are counted."""
        refused(made({"ep": 2}), "stage 1: EP 1, stage 0 has 2")

    @pytest.mark.parametrize(
        ("name", "value"),
        [("memory_gb", 4.5), ("memory_gb", NAN), ("memory_gb", -1.0), ("memory_limit_gb", NAN), ("update_ms", INF)],
    )
    def test_memory_and_times(self, name: str, value: float) -> None:
        """What does not fit, is no number or negative is refused."""
        refused(made({name: value}), "replica 0, stage 0: ")

    def test_unstated_limit(self) -> None:
        """A limit that nobody stated holds nothing back."""
        check_plan(made({"memory_gb": 4.5, "memory_limit_gb": 0.0}))

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"recompute": "some"}, "recompute 'some'; it is one of none, selective, full"),
            ({"recompute": "full", "recompute_layers": 3}, "recompute_layers 3; it holds 2"),
            ({"recompute": "full", "recompute_layers": -1}, "recompute_layers -1"),
            ({"backward_shares": (1.5, -0.25, -0.25)}, "none negative"),
            ({"backward_shares": (NAN, 0.5, 0.5)}, "none negative"),
            ({"backward_shares": (0.5, NAN, 0.5)}, "none negative"),
            ({"weight_share": NAN}, "weight_share nan"),
        ],
        ids=str,
    )
    def test_words_and_shares(self, changes: dict[str, Any], text: str) -> None:
        """Recompute is of a known kind and of layers that there are; shares are parts of one."""
        refused(made(changes), text)


class TestWires:
    @pytest.mark.parametrize("value", [0.0, -1.0, NAN, INF])
    def test_rate(self, value: float) -> None:
        """A wire has a rate."""
        refused(made(wire={"gbps": value}), "wire 'inside': gbps")

    @pytest.mark.parametrize("value", [-1.0, NAN])
    def test_delay(self, value: float) -> None:
        """A delay is not negative."""
        refused(made(wire={"one_way_ms": value}), "one_way_ms")

    def test_twice(self) -> None:
        """No two wires have one name."""
        refused(replace(made(), wires=made().wires * 2), "wire 'inside' is there twice")

    @pytest.mark.parametrize("value", [NAN, -1.0, INF])
    def test_sends(self, value: float) -> None:
        """What is sent has a size."""
        refused(made(send=value), "replica 0, send 0: payload_bytes")


class TestExchanges:
    def test_twice(self) -> None:
        """A unit's gradients are not summed twice over."""
        refused(replace(made(), exchanges=made().exchanges * 2), "unit 0 is there twice")

    @pytest.mark.parametrize(
        ("changes", "text"),
        [({"hops": -1}, "hops -1"), ({"members": ((0, 0), (1, 0), (1, 0))}, "replica 1, stage 0 is a member twice")],
        ids=str,
    )
    def test_members_and_hops(self, changes: dict[str, Any], text: str) -> None:
        """Each member is there once, and hops are not negative."""
        refused(replace(made(), exchanges=(replace(made().exchanges[0], **changes),)), text)


class TestLockstep:
    """With ZeRO-2 and 3 all replicas send in every micro-batch."""

    def shared(self, **other: Any) -> Plan:
        """Build a plan of two replicas of one stage each that share weights; other: what the second has of its own."""
        plan = made()
        whole = replace(plan.replicas[0].stages[0], end_layer=4, backward_shares=(0.5, 0.1, 0.1, 0.1, 0.1, 0.1))
        one = replace(plan.replicas[0], stages=(whole,), sends=())
        stage = replace(whole, **{name: other.pop(name) for name in ("tp", "chip_class") if name in other})
        two = replace(one, stages=(stage,), **other)
        return replace(
            plan, replicas=(one, two), zero_stage=3, exchanges=(), global_batch_size=one.sequences + two.sequences
        )

    def test_like_replicas_pass(self) -> None:
        """Replicas that take as many micro-batches of one size are sound."""
        check_plan(self.shared())

    @pytest.mark.parametrize(
        "other", [{"microbatches": 3}, {"microbatch_size": 2}, {"tp": 2}, {"chip_class": "north/slow"}]
    )
    @pytest.mark.parametrize("zero_stage", [2, 3])
    def test_unlike_ones_would_wait_for_ever(self, zero_stage: int, other: dict[str, Any]) -> None:
        """A replica with another number or size of micro-batches, TP or class is named; ZeRO-1 takes it."""
        plan = self.shared(**other)
        text = f"zero_stage {zero_stage} with replica 1 of .* beside replica 0 of .* must be alike; use zero_stage 1"
        refused(replace(plan, zero_stage=zero_stage), text)
        check_plan(replace(plan, zero_stage=1))
