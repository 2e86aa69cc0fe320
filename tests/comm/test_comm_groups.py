"""Seats, TP slices, their holders, and process groups that members make without waiting for one another."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings

from argosy.comm.groups import make_groups, seat_of, slice_holders, tp_slices
from argosy.contracts.plan import EMBEDDING, Plan
from support.training import config, drawn_replicas, plan_of, replica
from support.worlds import PEER_TIMEOUT, in_world

LAYERS = 6
LAWS = settings(max_examples=30, deadline=None, derandomize=True)
UNEVEN = (replica([1, 2, 3], 3), replica([2, 4], 2))


def seats(plan: Plan):
    """Give every rank's seat."""
    return [seat_of(plan, rank) for rank in range(plan.world_size)]


def pairs(plan: Plan):
    """Give every unit with every TP slice."""
    return [(unit, t) for unit in range(EMBEDDING, plan.num_layers + 1) for t in range(tp_slices(plan))]


class TestSeat:
    """Where a rank sits."""

    def test_names_replica_stage_and_tp_index(self):
        """Rank 6 is the second TP rank of the second stage of the second replica."""
        plan = plan_of([replica([2, 2, 2], 3), replica([3, 3], 2, tp=2)])
        seat = seat_of(plan, 6)
        assert (seat.replica, seat.stage, seat.tp_index) == (1, 1, 1)

    @LAWS
    @given(replicas=drawn_replicas())
    def test_every_rank_has_one_seat(self, replicas):
        """All ranks of a bound plan sit in different places, each where the plan lists it."""
        plan = plan_of(replicas)
        found = {(s.replica, s.stage, s.tp_index): s.rank for s in seats(plan)}
        assert len(found) == plan.world_size
        assert all(plan.replicas[r].stages[s].ranks[t] == rank for (r, s, t), rank in found.items())

    def test_unknown_rank(self):
        """A rank that is in no stage is our own bug, said as such."""
        with pytest.raises(ValueError, match="rank 9 is in no stage"):
            seat_of(plan_of([replica([6], 2)]), 9)


class TestSlices:
    """How many slices TP cuts a layer into."""

    @pytest.mark.parametrize(("degrees", "slices"), [((1, 1), 1), ((1, 2), 2), ((2, 4), 4), ((2, 3), 6)])
    def test_is_the_least_common_multiple(self, degrees, slices):
        """Every TP rank of every replica holds whole slices."""
        assert tp_slices(plan_of([replica([6], 2, tp=tp) for tp in degrees])) == slices


class TestHolders:
    """Who holds one slice of one unit."""

    @LAWS
    @given(replicas=drawn_replicas())
    def test_one_rank_a_replica(self, replicas):
        """Every slice of every unit has exactly one holder in each replica, and holders ascend."""
        plan = plan_of(replicas)
        for unit, tp_slice in pairs(plan):
            holders = slice_holders(plan, unit, tp_slice)
            assert list(holders) == sorted(set(holders))
            assert [seat_of(plan, rank).replica for rank in holders] == list(range(len(replicas)))

    @LAWS
    @given(replicas=drawn_replicas())
    def test_a_tied_embedding_has_two_where_its_stages_differ(self, replicas):
        """First and last stage of a replica both hold a tied embedding; every other unit still has one holder."""
        plan = plan_of(replicas, config(LAYERS, tied=True))
        for unit, tp_slice in pairs(plan):
            counts = [2 if unit == EMBEDDING and len(r.stages) > 1 else 1 for r in plan.replicas]
            assert len(slice_holders(plan, unit, tp_slice)) == sum(counts)

    @LAWS
    @given(replicas=drawn_replicas())
    def test_a_rank_holds_its_own_slices_only(self, replicas):
        """A rank with TP index i of n holds the i-th n-th of every unit of its stage, and nothing else."""
        plan = plan_of(replicas)
        for seat in seats(plan):
            stage = plan.replicas[seat.replica].stages[seat.stage]
            wide = tp_slices(plan) // stage.tp
            mine = range(seat.tp_index * wide, (seat.tp_index + 1) * wide)
            wanted = {(unit, t) for unit in plan.units(stage) for t in mine}
            assert {pair for pair in pairs(plan) if seat.rank in slice_holders(plan, *pair)} == wanted


def sums(plan: Plan, rank: int):
    """Make a rank's groups and sum 1 and the rank over each: answers (kind, members) -> [count, sum of ranks]."""
    groups = make_groups(plan, seat_of(plan, rank), PEER_TIMEOUT)
    named = {("exchange", ranks): group for ranks, group in groups.exchange.items()}
    named["pipeline", tuple(dist.get_process_group_ranks(groups.pipeline))] = groups.pipeline
    if groups.tensor is not None:
        named["tensor", tuple(dist.get_process_group_ranks(groups.tensor))] = groups.tensor
    found = {}
    for key, group in sorted(named.items()):
        both = torch.tensor([1, rank])
        dist.all_reduce(both, group=group)
        found[key] = both.tolist()
    return found


@pytest.mark.slow
class TestMakeGroups:
    """Groups of real processes."""

    @pytest.mark.parametrize(
        "replicas",
        [UNEVEN, (*UNEVEN, replica([6], 1)), (replica([2, 4], 2, tp=2), replica([6], 1), replica([1, 5], 2))],
        ids=["uneven pipelines", "one stage beside them", "TP beside none"],
    )
    @pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
    def test_members_meet_in_every_group(self, replicas, tied):
        """All members of a group make it, whatever else each belongs to, and nobody waits for ever."""
        plan = plan_of(replicas, config(LAYERS, tied=tied))
        for rank, found in enumerate(in_world(plan.world_size, lambda rank: sums(plan, rank))):
            assert all(rank in ranks for _, ranks in found)
            assert all(value == [len(ranks), sum(ranks)] for (_, ranks), value in found.items())

    def test_nothing_is_made_where_nothing_is_sent(self):
        """A lone replica has no exchange groups and, without TP, no tensor group."""
        (found,) = in_world(1, lambda rank: sums(plan_of([replica([6], 1)]), rank))
        assert list(found) == [("pipeline", (0,))]

    def test_ranks_need_not_be_in_the_order_of_stages(self):
        """A replica whose later stage has the lower rank still makes one ascending pipeline group."""
        plan = plan_of([replica([3, 3], 2)])
        stages = tuple(replace(stage, ranks=(1 - stage.ranks[0],)) for stage in plan.replicas[0].stages)
        plan = replace(plan, replicas=(replace(plan.replicas[0], stages=stages),))
        assert [list(found) for found in in_world(2, lambda rank: sums(plan, rank))] == [[("pipeline", (0, 1))]] * 2
