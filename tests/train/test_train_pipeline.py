"""The order of work that the timeline assumes is the one that torch runs."""

from types import SimpleNamespace

import pytest
from torch.distributed.pipelining import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)

from argosy.plan.timing.schedules import place_order

KINDS = {"F": "F", "B": "B", "I": "B", "W": "W"}
"""torch's letters: B a whole backward, I its part for the stage before."""


def stages(place: int, places: int, virtual: int = 1):
    """Stand in for the stages of a place; a schedule asks them for their numbers only."""
    return [
        SimpleNamespace(
            stage_index=place + chunk * places,
            num_stages=places * virtual,
            group_size=places,
            group_rank=place,
            is_last=place + chunk * places == places * virtual - 1,
            has_backward=True,
            submod=None,
        )
        for chunk in range(virtual)
    ]


def order_of(actions):
    """Read torch's actions, idle slots and what it does besides left out."""
    return tuple(
        (KINDS[action.computation_type.value], action.stage_index, action.microbatch_index)
        for action in actions
        if action is not None and action.computation_type.value in KINDS
    )


class TestOrders:
    """What torch.distributed.pipelining would run at every place."""

    @pytest.mark.parametrize(("name", "kind"), [("1f1b", Schedule1F1B), ("gpipe", ScheduleGPipe)])
    @pytest.mark.parametrize(("places", "microbatches"), [(1, 3), (2, 2), (4, 9), (5, 6)])
    def test_of_one_stage(self, name, kind, places, microbatches):
        """Schedules of one stage a rank: the kinds of work, for torch's list misnumbers the last place's forwards."""
        found = kind(stages(0, places)[0], microbatches, loss_fn=print)._get_pipeline_order()
        for place in range(places):
            ours = place_order(name, place, places, microbatches)
            assert [work for work, _, _ in order_of(found[place])] == [work for work, _, _ in ours]

    @pytest.mark.parametrize(("places", "microbatches", "virtual"), [(2, 2, 2), (2, 6, 3), (4, 4, 2), (4, 12, 3)])
    def test_interleaved(self, places, microbatches, virtual):
        """Interleaved 1F1B."""
        made = ScheduleInterleaved1F1B(stages(0, places, virtual), microbatches, loss_fn=print)
        for place in range(places):
            assert order_of(made.pipeline_order[place]) == place_order(
                "interleaved", place, places, microbatches, virtual
            )

    @pytest.mark.parametrize(("places", "microbatches"), [(1, 2), (2, 2), (4, 8), (4, 10), (5, 6)])
    def test_zero_bubble(self, places, microbatches):
        """Interleaved zero-bubble with one stage a rank."""
        made = ScheduleInterleavedZeroBubble(stages(0, places), microbatches, loss_fn=print)
        for place in range(places):
            assert order_of(made.pipeline_order[place]) == place_order("zero-bubble", place, places, microbatches)
