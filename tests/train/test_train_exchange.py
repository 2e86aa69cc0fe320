"""Gradients on their way: when buckets leave, what they sum, and what comes back after a sharded update."""

import itertools

import pytest
import torch

from argosy.comm.buckets import FlatBucket
from argosy.comm.groups import Groups, make_groups, seat_of
from argosy.model.memory import rank_parameters, state_bytes
from argosy.model.numerics import numerics
from argosy.train.blocks import Block
from argosy.train.exchange import GradientExchange, view_of
from argosy.train.optimizer import BlockOptimizer
from argosy.train.stage import LocalStage, make_stage
from argosy.train.tensor_parallel import local_tensor
from support.phases import in_sites
from support.training import config, job, plan_of, replica, shape_of
from support.worlds import PEER_TIMEOUT, in_world

TEXT = config(2)
CPU = torch.device("cpu")


def tokens(batch: int = 1, seed: int = 0) -> torch.Tensor:
    """Draw tokens."""
    return torch.randint(0, 64, (batch, 16), generator=torch.Generator().manual_seed(seed))


def bare(text: str = TEXT) -> LocalStage:
    """Build a whole model on one rank, with nobody watching its gradients."""
    plan = plan_of([replica([2], 1)], text)
    return make_stage(plan, job(), seat_of(plan, 0), shape_of(text), None, CPU)


def alone() -> tuple[LocalStage, GradientExchange]:
    """Build a whole model and its exchange on a lone rank."""
    plan, stage = plan_of([replica([2], 1)], TEXT), bare()
    groups = Groups(pipeline=None, tensor=None, exchange={})
    return stage, GradientExchange(plan, seat_of(plan, 0), stage, groups, torch.float32)


def microbatch(stage: LocalStage, seed: int = 0) -> None:
    """Run one micro-batch forward and backward."""
    stage.models[0](tokens(seed=seed)).float().square().mean().backward()


class TestViews:
    """A block inside what lies here."""

    def test_is_found_by_its_place_in_the_whole(self):
        """Rows 5..6 of the whole are rows 1..2 of a local part that begins at row 4, and share its memory."""
        local = Block(name="w", offsets=(4, 0), sizes=(4, 3))
        tensor = torch.arange(12.0).view(4, 3)
        view = view_of(tensor, local, Block(name="w", offsets=(5, 1), sizes=(2, 2)))
        assert view.tolist() == [[4, 5], [7, 8]]
        view.zero_()
        assert tensor[1, 1] == 0


class TestLaunches:
    """When a unit's sums begin."""

    def launched(self, monkeypatch) -> list[FlatBucket]:
        """Note the buckets that leave."""
        seen: list[FlatBucket] = []
        monkeypatch.setattr(FlatBucket, "start_reduce", lambda flat: seen.append(flat))
        return seen

    def test_last_microbatch_sends_units_as_they_complete(self, monkeypatch):
        """Nothing leaves in the first two micro-batches; in the third, buckets leave from the head to the embedding."""
        seen = self.launched(monkeypatch)
        stage, exchange = alone()
        exchange.begin(3)
        for _ in range(2):
            microbatch(stage)
        assert seen == []
        microbatch(stage)
        order = [exchange.buckets[exchange.flats.index(flat)].units for flat in seen]
        assert order == [(2,), (1,), (0,), (-1,)]

    def test_finish_sends_what_is_left(self, monkeypatch):
        """A step whose backward never ran still exchanges zeros, for peers wait for them."""
        seen = self.launched(monkeypatch)
        _, exchange = alone()
        exchange.begin(3)
        exchange.finish()
        assert len(seen) == 4
        assert all(flat.flat.count_nonzero() == 0 for flat in seen)

    def test_gradients_add_up_over_microbatches(self):
        """A bucket holds the sum of its micro-batches' gradients, as autograd alone gives it, and grads are freed."""
        stage, exchange = alone()
        exchange.begin(2)
        for seed in (0, 1):
            microbatch(stage, seed)
        exchange.finish()
        plain = bare()
        for seed in (0, 1):
            microbatch(plain, seed)
        for bucket, flat in zip(exchange.buckets, exchange.flats, strict=True):
            wanted = torch.cat([plain.parameters[b.name].grad.flatten() for b in bucket.own])
            torch.testing.assert_close(flat.reduced[: len(wanted)], wanted)
        assert all(p.grad is None for p in stage.parameters.values())

    def test_a_second_step_starts_afresh(self):
        """The second step's sums do not hold the first's."""
        stage, exchange = alone()
        sums = []
        for _ in range(2):
            exchange.begin(1)
            microbatch(stage)
            exchange.finish()
            sums.append([flat.reduced.clone() for flat in exchange.flats])
        assert all(torch.equal(a, b) for a, b in zip(*sums, strict=True))


def built(replicas, rank: int, text: str, zero: int, dtype: torch.dtype, sites: str = ""):
    """Build a rank's stage and exchange in a real world; gradients cross sites, one letter a replica, by phases."""
    plan = plan_of(replicas, text, zero=zero)
    plan = in_sites(plan, sites) if sites else plan
    seat = seat_of(plan, rank)
    groups = make_groups(plan, seat, PEER_TIMEOUT)
    stage = make_stage(plan, job(), seat, shape_of(text), groups.tensor, CPU)
    return stage, GradientExchange(plan, seat, stage, groups, dtype)


def step(
    replicas, rank: int, text: str, zero: int, dtype: torch.dtype = torch.float32, sites: str = ""
) -> dict[str, list]:
    """Give every rank the same gradient, sum, update once and spread; gives the parameters as lists."""
    stage, exchange = built(replicas, rank, text, zero, dtype, sites)
    optimizer = BlockOptimizer(job().train, exchange)
    exchange.begin(1)
    stage.models[0](tokens()).float().square().mean().backward()
    exchange.finish()
    optimizer.step(0.0, 0.1)
    exchange.spread()
    return {name: local_tensor(p).detach().tolist() for name, p in stage.parameters.items()}


PAIR = (replica([2], 1), replica([2], 1))


@pytest.mark.slow
class TestReplicas:
    """Two whole replicas on real processes."""

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
    @pytest.mark.parametrize("zero", [0, 1])
    def test_both_end_alike(self, zero, dtype):
        """After an update, sharded or not, both replicas hold the very same parameters."""
        first, second = in_world(2, lambda rank: step(PAIR, rank, TEXT, zero, dtype))
        assert first == second

    def test_sharding_changes_nothing(self):
        """ZeRO-1 gives the parameters that updating everything everywhere gives, bit for bit."""
        plain, sharded = (in_world(2, lambda rank, z=zero: step(PAIR, rank, TEXT, z))[0] for zero in (0, 1))
        assert plain == sharded

    def test_state_is_sharded(self):
        """With ZeRO-1 each of two ranks keeps half of the moments."""

        def owned(rank: int) -> int:
            exchange = built(PAIR, rank, TEXT, 1, torch.float32)[1]
            return sum(block.numel for block, _, _ in BlockOptimizer(job().train, exchange).moments())

        halves = in_world(2, owned)
        assert sum(halves) == sum(p.numel() for p in alone()[0].parameters.values())
        assert max(halves) < 1.1 * min(halves)


@pytest.mark.slow
class TestSites:
    """Three replicas in one site and two in another, whose gradients cross by phases."""

    FIVE = (replica([2], 1),) * 5
    SITES = "aabab"

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
    def test_all_end_alike(self, dtype):
        """Sharded inside each site or not, all five hold the very same parameters after an update."""
        plain, sharded = (
            in_world(5, lambda rank, z=zero: step(self.FIVE, rank, TEXT, z, dtype, self.SITES)) for zero in (0, 1)
        )
        assert sharded == plain == [plain[0]] * 5

    def test_state_is_sharded_inside_each_site(self):
        """Each site has all moments once: a third a rank in one, a half in the other."""

        def owned(rank: int) -> int:
            exchange = built(self.FIVE, rank, TEXT, 1, torch.float32, self.SITES)[1]
            return sum(block.numel for block, _, _ in BlockOptimizer(job().train, exchange).moments())

        found, whole = in_world(5, owned), sum(p.numel() for p in alone()[0].parameters.values())
        assert found[0] + found[1] + found[3] == found[2] + found[4] == whole
        assert found == pytest.approx([whole / (3 if site == "a" else 2) for site in self.SITES], rel=0.05)


@pytest.mark.slow
class TestBytes:
    """What a rank keeps per parameter is what the planner counts."""

    @pytest.mark.parametrize(("zero", "dtype"), [(0, torch.float32), (1, torch.float32)], ids=["whole", "sharded"])
    def test_are_those_of_the_planner(self, zero, dtype):
        """Parameters, flat buffers and moments of two replicas take the bytes of `model.memory`, within 5 %."""

        def kept(rank: int) -> int:
            stage, exchange = built(PAIR, rank, TEXT, zero, dtype)
            tensors = list(stage.parameters.values())
            for flat in exchange.flats:
                tensors += [flat.flat, flat.gathered] if flat.gathered is not None else [flat.flat]
                tensors += [flat.reduced] if flat.sharded else []
            for _, first, second in BlockOptimizer(job().train, exchange).moments():
                tensors += [first, second]
            return sum(tensor.nbytes for tensor in tensors)

        how = numerics("fp32")
        shape, shards = shape_of(TEXT), 2 if zero else 1
        states = [state_bytes(shape, unit, how, optimizer_shards=shards) for unit in shape.units]
        updates = sum(rank_parameters(shape, unit) * how.update_bytes // shards for unit in shape.units)
        wanted = sum(state.total - state.gradients for state in states) - updates
        assert in_world(2, kept) == pytest.approx([wanted] * 2, rel=0.05)


QWEN2 = TEXT.replace('"llama"', '"qwen2"').replace("LlamaFor", "Qwen2For")


@pytest.mark.slow
class TestTensorParallel:
    """A TP pair holds slices of the same numbers."""

    @pytest.mark.parametrize(
        "text",
        [TEXT, config(2, tied=True), config(2, qk_norm=True), QWEN2],
        ids=["llama", "tied", "query and key norms", "biases"],
    )
    def test_gradients_are_slices_of_the_whole(self, text):
        """The sums of both TP ranks are slices of what one rank alone computes, and together all of it."""
        whole = bare(text)
        whole.models[0](tokens()).float().square().mean().backward()

        def sums(rank: int) -> list[tuple[Block, list[float]]]:
            exchange = self.exchanged(text, rank)
            found = []
            for bucket, flat in zip(exchange.buckets, exchange.flats, strict=True):
                parts = flat.reduced[: sum(b.numel for b in bucket.own)].split([b.numel for b in bucket.own])
                found += [(block, part.tolist()) for block, part in zip(bucket.own, parts, strict=True)]
            return found

        covered = dict.fromkeys(whole.parameters, 0)
        for block, part in itertools.chain(*in_world(2, sums)):
            wanted = view_of(whole.parameters[block.name].grad, whole.local[block.name], block)
            torch.testing.assert_close(torch.tensor(part).view(block.sizes), wanted, rtol=1e-4, atol=1e-7)
            covered[block.name] += block.numel
        assert covered == {name: p.numel() for name, p in whole.parameters.items()}

    def exchanged(self, text: str, rank: int) -> GradientExchange:
        """Run one step's gradients of one of two TP ranks."""
        plan = plan_of([replica([2], 1, tp=2)], text)
        seat = seat_of(plan, rank)
        groups = make_groups(plan, seat, PEER_TIMEOUT)
        stage = make_stage(plan, job(), seat, shape_of(text), groups.tensor, CPU)
        exchange = GradientExchange(plan, seat, stage, groups, torch.float32)
        exchange.begin(1)
        stage.models[0](tokens()).float().square().mean().backward()
        exchange.finish()
        return exchange
