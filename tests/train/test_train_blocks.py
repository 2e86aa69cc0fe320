"""Blocks: which rectangle of which parameter each rank exchanges, updates and saves."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.comm.groups import seat_of, slice_holders
from argosy.comm.sites import sites_of
from argosy.contracts.plan import Plan
from argosy.train.blocks import Block, buckets_of, completion_order, local_block, parcels_of
from argosy.train.decoder import unit_of
from argosy.train.weights.names import parameter_shapes
from support.phases import in_sites
from support.training import config, drawn_replicas, plan_of, replica, shape_of

LAYERS = 6
LAWS = settings(max_examples=30, deadline=None, derandomize=True)
UNTIED, TIED = config(LAYERS, qk_norm=True), config(LAYERS, tied=True)
TEXTS = st.sampled_from([UNTIED, TIED])
DRAWN = st.tuples(
    st.one_of(
        drawn_replicas(degrees=(1, 2)).map(lambda replicas: (replicas, {})),
        drawn_replicas(degrees=(1, 2), virtual=2).map(lambda r: (r, {"schedule": "interleaved", "virtual": 2})),
    ),
    st.sampled_from(["", "north south south south", "south north south north", "a a b c"]),
)


def drawn_plan(drawn, text: str, **more) -> Plan:
    """Build a drawn plan; its gradients cross its sites by phases where it has any."""
    (replicas, how), sites = drawn
    plan = plan_of(replicas, text, **how, **more)
    return in_sites(plan, sites.split()[: len(replicas)]) if sites else plan


def parameters_of(plan: Plan, rank: int, text: str) -> dict[str, tuple[int, ...]]:
    """Give the whole sizes of what a rank's stage holds."""
    seat = seat_of(plan, rank)
    held = {u for s in plan.stages_at(plan.replicas[seat.replica], seat.stage) for u in plan.held_units(s)}
    return {n: s for n, s in parameter_shapes(shape_of(text)).items() if unit_of(n, LAYERS) in held}


def all_buckets(plan: Plan, text: str):
    """Give every rank's buckets."""
    return {
        rank: buckets_of(plan, seat_of(plan, rank), parameters_of(plan, rank, text)) for rank in range(plan.world_size)
    }


def region(block: Block):
    """Give a block as an index."""
    return tuple(slice(o, o + s) for o, s in zip(block.offsets, block.sizes, strict=True))


def coverage(blocks, text: str) -> dict[str, torch.Tensor]:
    """Count how often each element of each parameter is covered."""
    counts = {name: torch.zeros(sizes, dtype=torch.int64) for name, sizes in parameter_shapes(shape_of(text)).items()}
    for block in blocks:
        counts[block.name][region(block)] += 1
    return counts


class TestCover:
    """Nothing is left out and nothing counts twice."""

    @LAWS
    @given(drawn=DRAWN, text=TEXTS, zero=st.integers(0, 1))
    def test_counted_blocks_cover_every_parameter_once(self, drawn, text, zero):
        """The counted blocks of all ranks, which norm and checkpoint are made of, cover each element exactly once."""
        found = all_buckets(drawn_plan(drawn, text, zero=zero), text)
        counted = [block for buckets in found.values() for b in buckets if b.counted for block in b.own]
        assert all((count == 1).all() for count in coverage(counted, text).values())

    @LAWS
    @given(drawn=DRAWN, text=TEXTS, zero=st.integers(0, 1))
    def test_members_agree(self, drawn, text, zero):
        """All members of a bucket name the same segments, each site owns all, and all lie within what it holds."""
        plan = drawn_plan(drawn, text, zero=zero)
        owners: dict[object, list[int]] = {}
        sites = sites_of(plan)
        for rank, buckets in all_buckets(plan, text).items():
            seat, sizes = seat_of(plan, rank), parameters_of(plan, rank, text)
            for bucket in buckets:
                crosses = any(e.phased for e in plan.exchanges if e.unit in bucket.units)
                key = (bucket.members, bucket.segments, sites[rank] if crosses and zero else "")
                owners.setdefault(key, []).extend(bucket.owned)
                for block in (block for segment in bucket.segments for block in segment):
                    local = local_block(plan, seat, block.name, sizes[block.name])
                    assert all(o >= lo for o, lo in zip(block.offsets, local.offsets, strict=True))
                    ends = zip(block.offsets, block.sizes, local.offsets, local.sizes, strict=True)
                    assert all(o + s <= lo + ls for o, s, lo, ls in ends)
        for (_, segments, _), owned in owners.items():
            assert sorted(set(owned)) == list(range(len(segments)))
            assert len(segments) == 1 or len(owned) == len(segments)

    def test_zero_shares_rows_evenly(self):
        """Three owners of a matrix of 32 rows own 10, 11 and 11 of them."""
        plan = plan_of([replica([LAYERS], 1) for _ in range(3)], zero=1)
        first = buckets_of(plan, seat_of(plan, 0), {"layers.0.mlp.down.weight": (32, 64)})
        segments = next(bucket for bucket in first if bucket.units == (0,)).segments
        assert [block.sizes for (block,) in segments] == [(10, 64), (11, 64), (11, 64)]

    def test_sites_of_unlike_size_share_finer_and_coarser(self):
        """By phases two owners in one site have 16 rows of 32 each, three in the other 10, 11 and 11 of the same."""
        plan = in_sites(plan_of([replica([LAYERS], 1) for _ in range(5)], zero=1), ["a", "a", "b", "b", "b"])
        sizes = {"layers.0.mlp.down.weight": (32, 64)}
        first = [next(b for b in buckets_of(plan, seat_of(plan, r), sizes) if b.units == (0,)) for r in range(5)]
        assert [[block.sizes[0] for block in bucket.own] for bucket in first] == [[10, 6], [5, 11], [10], [6, 5], [11]]
        assert [bucket.counted for bucket in first] == [True, True, False, False, False]

    def test_one_holder_a_site_shards_nothing(self):
        """Where nothing is gathered, not even inside sites, each holder updates all."""
        plan = in_sites(plan_of([replica([LAYERS], 1) for _ in range(2)], zero=1), ["a", "b"])
        first = [buckets_of(plan, seat_of(plan, r), {"norm.weight": (32,)})[0] for r in range(2)]
        assert [bucket.own[0].sizes for bucket in first] == [(32,), (32,)]
        assert [bucket.counted for bucket in first] == [True, False]

    def test_nothing_empty_is_owned(self):
        """Where there are more owners than rows some own nothing, and no empty block travels."""
        plan = plan_of([replica([LAYERS], 1) for _ in range(3)], zero=1)
        first = buckets_of(plan, seat_of(plan, 0), {"norm.weight": (2,)})
        assert [len(s) for s in next(b for b in first if b.units == (LAYERS,)).segments] == [0, 1, 1]


class TestParcels:
    """What is exchanged at a time."""

    def test_small_neighbours_travel_together(self):
        """Units below the bucket size join until the bucket is full; each travels alone where buckets have no size."""
        sizes = {"embedding.weight": (64, 32), **{f"layers.{n}.mlp.up.weight": (64, 32) for n in range(LAYERS)}}
        sizes["norm.weight"] = (32,)
        replicas = [replica([LAYERS], 1) for _ in range(2)]
        joined, alone = (plan_of(replicas, bucket_bytes=size) for size in (2 * 64 * 32 * 4, 0))
        assert len(parcels_of(joined, seat_of(joined, 0), sizes)[0]) == 3
        assert all(len(units) == 1 for units in parcels_of(alone, seat_of(alone, 0), sizes))

    @LAWS
    @given(drawn=DRAWN, text=TEXTS, size=st.sampled_from([0, 20_000, 10**7]))
    def test_all_holders_group_alike(self, drawn, text, size):
        """Whatever else they hold, the ranks that hold a unit put it into the same parcel."""
        plan = drawn_plan(drawn, text, bucket_bytes=size)
        found: dict[tuple[int, object], set[tuple[int, ...]]] = {}
        for rank in range(plan.world_size):
            seat = seat_of(plan, rank)
            for units in parcels_of(plan, seat, parameters_of(plan, rank, text)):
                for unit in units:
                    found.setdefault((unit, slice_holders(plan, unit, 0)), set()).add(units)
        assert all(len(ways) == 1 for ways in found.values())


class TestLocalBlock:
    """What TP leaves on a rank."""

    def rank_1(self, name: str, sizes) -> Block:
        """Give the block on the second of two TP ranks."""
        plan = plan_of([replica([LAYERS], 1, tp=2)])
        return local_block(plan, seat_of(plan, 1), name, sizes)

    @pytest.mark.parametrize(
        ("name", "offsets", "sizes"),
        [
            ("layers.2.attention.q.weight", (16, 0), (16, 8)),
            ("layers.2.attention.q.bias", (16,), (16,)),
            ("layers.2.attention.o.weight", (0, 4), (32, 4)),
            ("layers.2.mlp.gate.weight", (16, 0), (16, 8)),
            ("layers.2.mlp.down.weight", (0, 4), (32, 4)),
            ("embedding.weight", (16, 0), (16, 8)),
            ("head.weight", (16, 0), (16, 8)),
            ("layers.2.mlp_norm.weight", (0,), (32,)),
            ("layers.2.attention.q_norm.weight", (0,), (32,)),
        ],
    )
    def test_is_its_slice(self, name, offsets, sizes):
        """Outputs of q, k, v, gate, up and rows of the vocabulary are cut; o and down by inputs; norms not at all."""
        whole = (32, 8) if len(sizes) == 2 else (32,)
        assert self.rank_1(name, whole) == Block(name=name, offsets=offsets, sizes=sizes)


class TestOrder:
    """When units are done."""

    def test_last_layer_first(self):
        """Backward completes head, then layers downwards, then the embedding."""
        plan = plan_of([replica([2, 4], 2)])
        assert completion_order(plan, seat_of(plan, 0)) == (1, 0, -1)
        assert completion_order(plan, seat_of(plan, 1)) == (6, 5, 4, 3, 2)

    def test_a_tied_embedding_goes_last_everywhere(self):
        """Every holder of a tied embedding exchanges it last, so that all ranks keep one order."""
        plan = plan_of([replica([2, 4], 2), replica([LAYERS], 1)], TIED)
        assert completion_order(plan, seat_of(plan, 1)) == (6, 5, 4, 3, 2, -1)
        assert completion_order(plan, seat_of(plan, 2)) == (6, 5, 4, 3, 2, 1, 0, -1)
