"""Flat buckets: one buffer that a group sums, whole or in segments that each member owns."""

import pytest
import torch
import torch.distributed as dist

from argosy.comm.buckets import FlatBucket
from support.worlds import in_world

CPU = torch.device("cpu")


def bucket(lengths=(3,), owned=0, *, alone: bool = False, dtype=torch.float32) -> FlatBucket:
    """Make a bucket of the world's group."""
    return FlatBucket(lengths, owned, None if alone else dist.group.WORLD, dtype=dtype, device=CPU)


class TestLayout:
    """Where segments lie."""

    def test_segments_are_as_long_as_the_longest(self):
        """Segments of 2, 3 and 1 elements lie 3 apart, so that each member reduces equally much."""
        made = bucket((2, 3, 1), 1, alone=True)
        made.segment(1).fill_(7)
        assert made.flat.tolist() == [0, 0, 0, 7, 7, 7, 0, 0, 0]

    def test_one_segment_is_not_sharded(self):
        """A bucket that all members own alike reduces in place and has nothing to gather."""
        made = bucket((3,), alone=True)
        assert not made.sharded
        assert made.reduced.data_ptr() == made.flat.data_ptr()
        with pytest.raises(RuntimeError, match="only a sharded bucket"):
            made.gathered_segment(0)
        with pytest.raises(RuntimeError, match="only a sharded bucket"):
            made.start_gather(torch.zeros(3))

    def test_gathers_in_float32(self):
        """Updated parameters are spread unrounded, whatever dtype the gradients travel in."""
        made = bucket((2, 2), alone=True, dtype=torch.bfloat16)
        assert made.gathered is not None
        assert (made.flat.dtype, made.gathered.dtype) == (torch.bfloat16, torch.float32)


class TestAlone:
    """Nobody else holds it."""

    def test_sums_are_what_was_put_in(self):
        """Without a group, reducing changes nothing and waits for nobody."""
        made = bucket((3,), alone=True)
        made.segment(0).copy_(torch.tensor([1.0, 2.0, 3.0]))
        made.start_reduce()
        made.wait_reduced()
        assert made.reduced.tolist() == [1, 2, 3]

    def test_cannot_be_sharded(self):
        """Segments of several owners without a group are our own bug."""
        with pytest.raises(RuntimeError, match="needs a group"):
            bucket((1, 1), alone=True).start_reduce()


def summed(rank: int, dtype: torch.dtype) -> list[float]:
    """All-reduce (rank + 1) x [1, 2, 3]."""
    made = bucket((3,), dtype=dtype)
    made.segment(0).copy_((rank + 1) * torch.tensor([1.0, 2.0, 3.0]))
    made.start_reduce()
    made.wait_reduced()
    return made.reduced.tolist()


def scattered(rank: int, dtype: torch.dtype) -> tuple[list[float], list[float]]:
    """Reduce-scatter segments of 2, 3 and 1 elements; then gather 10 x the own sums."""
    made = bucket((2, 3, 1), rank, dtype=dtype)
    for index in range(3):
        made.segment(index).fill_((rank + 1) * (index + 1))
    made.start_reduce()
    made.wait_reduced()
    reduced = made.reduced.tolist()
    made.start_gather(10 * made.reduced.float())
    made.wait_gathered()
    return reduced, [made.gathered_segment(index)[0].item() for index in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
class TestTogether:
    """Real processes over gloo."""

    def test_all_reduce(self, dtype):
        """Every member has the sum of what all put in."""
        assert in_world(3, lambda rank: summed(rank, dtype)) == [[6, 12, 18]] * 3

    def test_reduce_scatter_then_gather(self, dtype):
        """Each member has the sums of its own segment, then what every owner made of its own."""
        found = in_world(3, lambda rank: scattered(rank, dtype))
        assert [reduced for reduced, _ in found] == [[6] * 3, [12] * 3, [18] * 3]
        assert [gathered for _, gathered in found] == [[60, 120, 180]] * 3


def two_at_once(rank: int) -> list[float]:
    """Start two sums on one group before waiting for either."""
    first, second = bucket((1,)), bucket((1,))
    first.segment(0).fill_(rank)
    second.segment(0).fill_(10 * rank)
    first.start_reduce()
    second.start_reduce()
    second.wait_reduced()
    first.wait_reduced()
    return [first.reduced.item(), second.reduced.item()]


@pytest.mark.slow
class TestBackground:
    """Sums run beside other work."""

    def test_several_on_one_group(self):
        """Two buckets of one group may be under way at once and are not mixed up."""
        assert in_world(2, two_at_once) == [[1, 10]] * 2
