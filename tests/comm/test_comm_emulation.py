"""The emulated clock and the event-level timeline follow one rule."""

import pytest

from argosy.plan.timing.timeline import simulate
from support.emulation import emulated_plan, virtual_steps_ms
from support.phases import in_sites
from support.training import replica

PLANS = {
    "8 ranks, one pipeline": ([replica([1] * 8, 10)], {}),
    "8 ranks, two uneven pipelines": ([replica([1, 2, 3, 2], 6), replica([2, 2, 2, 2], 4)], {"tied": True}),
    "9 ranks, unlike replicas, sharded": (
        [replica([1, 2, 3, 2], 6), replica([2, 2, 1, 1, 2], 6)],
        {"zero": 1},
    ),
    "12 ranks, GPipe beside whole models": (
        [replica([2] * 4, 3), replica([1, 1, 2, 2, 1, 1], 4), *[replica([8], 2)] * 2],
        {"schedule": "gpipe"},
    ),
    "7 ranks, virtual stages, sharded": (
        [replica([1] * 8, 8), replica([2, 1, 1, 1, 1, 2], 6)],
        {"schedule": "interleaved", "virtual": 2, "zero": 1},
    ),
    "7 ranks, zero-bubble": (
        [replica([1, 2, 3, 2], 8), replica([3, 2, 3], 6)],
        {"schedule": "zero-bubble", "tied": True},
    ),
    "16 ranks, two pipelines with TP": ([replica([2] * 4, 5, tp=2), replica([1] * 8, 9)], {}),
}


@pytest.mark.slow
class TestVirtualTime:
    """Real ranks, real messages, virtual clocks."""

    def test_by_phases_over_a_long_link(self, tmp_path):
        """Sites of 2 and 3 replicas that sum by phases and gather what they sharded inside take what it says too."""
        replicas = [replica([4, 4], 4), replica([8], 2), replica([3, 5], 4), replica([8], 2), replica([8], 1)]
        text, the_plan = emulated_plan(replicas, layer_ms=4.0, zero=1)
        the_plan = in_sites(the_plan, ["north", "north", "south", "south", "south"])
        assert any(exchange.gathers for exchange in the_plan.exchanges)
        steps_ms = virtual_steps_ms(text, the_plan, tmp_path)
        assert steps_ms[1:] == pytest.approx([simulate(the_plan).step_ms] * 3, rel=1e-9)

    @pytest.mark.parametrize("name", PLANS)
    def test_matches_the_timeline(self, name, tmp_path):
        """A step by the ranks' virtual clocks takes what the timeline says, within 0.5 %."""
        replicas, how = PLANS[name]
        text, the_plan = emulated_plan(replicas, layer_ms=4.0, **how)
        steps_ms = virtual_steps_ms(text, the_plan, tmp_path)
        assert len(steps_ms) == 4
        assert steps_ms[1:] == pytest.approx([simulate(the_plan).step_ms] * 3, rel=0.005)
