"""The optimizer: schedule, clipping and updates, each held against torch's own."""

import pytest
import torch
from torch import nn

from argosy.comm.groups import Groups, seat_of
from argosy.contracts.job import TrainSpec
from argosy.train.exchange import GradientExchange
from argosy.train.optimizer import BlockOptimizer, learning_rate
from argosy.train.stage import LocalStage, make_stage
from support.training import config, job, plan_of, replica, shape_of

TEXT = config(2)
CPU = torch.device("cpu")


def spec(**changes) -> TrainSpec:
    """Say how to train for 10 steps, 2 of them warming up."""
    given = {"steps": 10, "learning_rate": 1.0, "minimum_learning_rate": 0.1, "warmup_steps": 2}
    return TrainSpec(sequence_length=8, global_batch_size=1, **(given | changes))


def stage() -> LocalStage:
    """Build a whole model on one rank."""
    plan = plan_of([replica([2], 1)], TEXT)
    return make_stage(plan, job(), seat_of(plan, 0), shape_of(TEXT), None, CPU)


def exchange_of(made: LocalStage) -> GradientExchange:
    """Give the exchange of a lone rank."""
    plan = plan_of([replica([2], 1)], TEXT)
    groups = Groups(pipeline=None, tensor=None, exchange={})
    return GradientExchange(plan, seat_of(plan, 0), made, groups, torch.float32)


def backward(parameters: dict[str, nn.Parameter], step: int, scale: float = 1.0) -> None:
    """Put seeded gradients into parameters, through autograd so that hooks see them."""
    generator = torch.Generator().manual_seed(step)
    loss = sum((p * torch.randn(p.shape, generator=generator)).sum() for p in parameters.values())
    (scale * loss).backward()


class TestLearningRate:
    """Warm-up and cosine."""

    @pytest.mark.parametrize(
        ("step", "rate"),
        [(0, 0.5), (1, 1.0), (2, 1.0), (9, 0.1)],
        ids=["half", "whole", "start of cosine", "last step"],
    )
    def test_values(self, step, rate):
        """It rises in equal parts to the top, and has come down to the minimum at the last step."""
        assert learning_rate(spec(), step) == pytest.approx(rate)

    def test_falls_all_the_way(self):
        """After warm-up every step's rate is below the one before."""
        rates = [learning_rate(spec(), step) for step in range(2, 10)]
        assert rates == sorted(set(rates), reverse=True)

    def test_middle_of_the_cosine(self):
        """Half-way down it is half-way between top and minimum."""
        assert learning_rate(spec(steps=11, warmup_steps=0), 5) == pytest.approx(0.55)

    @pytest.mark.parametrize("steps", [1, 2, 3])
    def test_short_jobs(self, steps):
        """A job that ends while or just as it warms up divides nothing by zero."""
        assert all(0 < learning_rate(spec(steps=steps), step) <= 1 for step in range(steps))

    def test_beyond_the_end(self):
        """Past the last step it stays at the minimum."""
        assert learning_rate(spec(), 50) == pytest.approx(0.1)


class TestAgainstTorch:
    """One rank that owns everything."""

    @pytest.mark.parametrize("clip", [0.5, 1e9, 0.0], ids=["clipped", "below the limit", "switched off"])
    def test_updates_are_those_of_adamw(self, clip):
        """Five steps of clip and update move every parameter as clip_grad_norm_ and AdamW do."""
        how = spec(learning_rate=0.01, clip_norm=clip, weight_decay=0.3)
        made, other = stage(), stage()
        exchange = exchange_of(made)
        optimizer = BlockOptimizer(how, exchange)
        theirs = other.parameters
        groups = [{"params": [p for p in theirs.values() if p.dim() > 1], "weight_decay": 0.3}]
        groups += [{"params": [p for p in theirs.values() if p.dim() == 1], "weight_decay": 0.0}]
        adamw = torch.optim.AdamW(groups, lr=0.01, betas=how.betas, eps=how.epsilon)
        for step in range(5):
            exchange.begin(1)
            backward(made.parameters, step)
            exchange.finish()
            norm = optimizer.squared_norm().item() ** 0.5
            optimizer.step(norm, 0.01)
            adamw.zero_grad()
            backward(theirs, step)
            limit = clip if clip > 0 else float("inf")
            assert norm == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs.values(), limit).item(), rel=1e-6)
            adamw.step()
        for name, parameter in made.parameters.items():
            torch.testing.assert_close(parameter, theirs[name], rtol=1e-6, atol=1e-7)

    def test_vectors_do_not_decay(self):
        """With no gradient at all matrices shrink by the decay and norms stay as they are."""
        made = stage()
        before = {name: p.detach().clone() for name, p in made.parameters.items()}
        BlockOptimizer(spec(weight_decay=0.5), exchange_of(made)).step(0.0, 0.1)
        for name, parameter in made.parameters.items():
            torch.testing.assert_close(parameter.detach(), before[name] * (0.95 if parameter.dim() > 1 else 1.0))


class TestState:
    """What a checkpoint takes and gives back."""

    def test_moments_belong_to_blocks(self):
        """Every own block has two moments of its size, and together they are all parameters."""
        made = stage()
        moments = BlockOptimizer(spec(), exchange_of(made)).moments()
        assert all(first.shape == second.shape == block.sizes for block, first, second in moments)
        assert sum(block.numel for block, _, _ in moments) == sum(p.numel() for p in made.parameters.values())

    def test_steps_seen_correct_the_bias(self):
        """With moments of one step, saying that they are of many steps makes the next update smaller."""
        moved = []
        for seen in (0, 1000):
            made = stage()
            exchange = exchange_of(made)
            optimizer = BlockOptimizer(spec(weight_decay=0.0), exchange)
            optimizer.set_step(seen)
            before = made.parameters["norm.weight"].detach().clone()
            exchange.begin(1)
            backward(made.parameters, 0)
            exchange.finish()
            optimizer.step(1.0, 0.1)
            moved.append((made.parameters["norm.weight"] - before).abs().max().item())
        assert moved[1] < 0.6 * moved[0]
