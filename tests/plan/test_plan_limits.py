"""What holds a plan back."""

from dataclasses import replace

from argosy.contracts.plan import Exchange, Plan, Replica, Stage, Wire
from argosy.plan.telling.limits import eased_limits, rooms


def make_plan(replicas: int = 2, gradient_mb: float = 0.0, long_link: bool = True, update_ms: float = 0.0) -> Plan:
    """Build replicas of one stage that work for 10 ms and exchange over a wire of 8 Gb/s, 1 MB a ms."""
    stage = Stage(
        first_layer=0,
        end_layer=1,
        chip_class="north/fast",
        forward_ms=4.0,
        backward_ms=6.0,
        backward_shares=(0.0, 1.0, 0.0),
        update_ms=update_ms,
        memory_gb=40.0,
        memory_limit_gb=64.0,
    )
    exchange = Exchange(
        unit=0, members=tuple((r, 0) for r in range(replicas)), wire="w", wire_bytes=gradient_mb * 1e6, hops=0
    )
    return Plan(
        model="tiny",
        num_layers=1,
        fleet="fleet",
        sequence_length=8,
        global_batch_size=replicas,
        replicas=(Replica(stages=(stage,), microbatches=1, microbatch_size=1),) * replicas,
        wires=(Wire(name="w", gbps=8.0, one_way_ms=0.0, shared=long_link, long_link=long_link),),
        exchanges=(exchange,) if gradient_mb else (),
    )


class TestEased:
    def test_a_slow_long_link(self) -> None:
        """A step of 10 ms of work and 10 ms of gradients is a quarter shorter with twice the link."""
        found = {eased.what: eased for eased in eased_limits(make_plan(gradient_mb=10.0))}
        assert round(found["long links twice as fast"].gain, 6) == 0.25
        assert round(found["no gradients to exchange"].gain, 6) == 0.5
        assert found["no gradients to exchange"].step_ms == 10.0

    def test_most_first(self) -> None:
        """What would help most stands first."""
        gains = [eased.gain for eased in eased_limits(make_plan(gradient_mb=10.0, update_ms=1.0))]
        assert gains == sorted(gains, reverse=True)

    def test_only_what_there_is(self) -> None:
        """A plan without a long link is not told what a better one would do."""
        names = {eased.what for eased in eased_limits(make_plan(gradient_mb=1.0, long_link=False))}
        assert names == {"networks inside sites twice as fast", "no gradients to exchange"}

    def test_thousands_of_replicas(self) -> None:
        """Like replicas are timed once, so their number does not matter."""
        few, many = (eased_limits(make_plan(count, gradient_mb=10.0)) for count in (2, 4000))
        assert few == many


class TestRooms:
    def test_the_fullest_of_each_class(self) -> None:
        """Of each class the fullest stage is told, with how many replicas have it and what is left."""
        plan = make_plan(3)
        fuller = replace(plan.replicas[0].stages[0], memory_gb=60.0)
        made = replace(plan, replicas=(*plan.replicas, replace(plan.replicas[0], stages=(fuller,))))
        (room,) = rooms(made)
        assert (room.replicas, room.stage, room.spare_gb) == (1, 1, 4.0)
