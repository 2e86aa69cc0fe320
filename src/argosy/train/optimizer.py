"""AdamW on the blocks that one rank owns, with one global gradient norm and a warm-up and cosine learning rate.

Works on views into the parameters, so an update needs no copy; what other ranks own is left alone. Knows nothing of
groups: the norm's sum over ranks is handed in.
"""

import math

import torch
from torch import Tensor

from argosy.contracts.job import TrainSpec
from argosy.train.blocks import Block
from argosy.train.exchange import GradientExchange, view_of
from argosy.train.tensor_parallel import local_tensor


def learning_rate(spec: TrainSpec, step: int) -> float:
    """Give the learning rate of a step, counted from 0.

    Linear warm-up, then a cosine down to the minimum at the last step.

    >>> learning_rate(TrainSpec(sequence_length=8, global_batch_size=1, steps=10, learning_rate=1.0, warmup_steps=2), 0)
    0.5
    """
    if step < spec.warmup_steps:
        return spec.learning_rate * (step + 1) / spec.warmup_steps
    span = max(1, spec.steps - 1 - spec.warmup_steps)
    done = min(1.0, (step - spec.warmup_steps) / span)
    return (
        spec.minimum_learning_rate
        + (spec.learning_rate - spec.minimum_learning_rate) * (1 + math.cos(math.pi * done)) / 2
    )


class BlockOptimizer:
    """AdamW (arXiv 1711.05101) over a rank's own blocks; matrices decay, vectors (norms, biases) do not."""

    def __init__(self, spec: TrainSpec, exchange: GradientExchange) -> None:
        self.spec = spec
        self.blocks: list[tuple[Block, Tensor]] = []
        self._gradients: list[Tensor] = []
        self._counted: list[bool] = []
        for bucket, flat in zip(exchange.buckets, exchange.flats, strict=True):
            start = 0
            for block in bucket.own:
                parameter = local_tensor(exchange.parameters[block.name]).detach()
                self.blocks.append((block, view_of(parameter, exchange.local[block.name], block)))
                self._gradients.append(flat.reduced.narrow(0, start, block.numel).view(block.sizes))
                self._counted.append(bucket.counted)
                start += block.numel
        decayed = [view for block, view in self.blocks if len(block.sizes) > 1]
        plain = [view for block, view in self.blocks if len(block.sizes) == 1]
        groups = [{"params": decayed, "weight_decay": spec.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        self._adamw = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=spec.learning_rate,
            betas=spec.betas,
            eps=spec.epsilon,
            foreach=False,
        )
        for _, view in self.blocks:
            self._adamw.state[view] = {
                "step": torch.zeros(()),
                "exp_avg": torch.zeros_like(view),
                "exp_avg_sq": torch.zeros_like(view),
            }

    def squared_norm(self) -> Tensor:
        """Sum the squares of this rank's counted gradients; the sum over all ranks is the global norm squared."""
        squares = [
            gradient.float().square().sum()
            for gradient, counted in zip(self._gradients, self._counted, strict=True)
            if counted
        ]
        # Added up on the host in float64, which some devices lack; a block's own sum is accurate enough in float32.
        return torch.stack(squares).cpu().double().sum() if squares else torch.zeros((), dtype=torch.float64)

    def step(self, norm: float, rate: float) -> None:
        """Clip by the global norm and update.

        norm: of the whole gradient. rate: learning rate of this step.
        """
        scale = min(1.0, self.spec.clip_norm / (norm + 1e-6)) if self.spec.clip_norm > 0 else 1.0
        for (_, view), gradient in zip(self.blocks, self._gradients, strict=True):
            view.grad = gradient.to(view.dtype).mul_(scale)
        for group in self._adamw.param_groups:
            group["lr"] = rate
        self._adamw.step()
        for _, view in self.blocks:
            view.grad = None

    def moments(self) -> list[tuple[Block, Tensor, Tensor]]:
        """Give each own block with its first and second moment."""
        return [
            (block, self._adamw.state[view]["exp_avg"], self._adamw.state[view]["exp_avg_sq"])
            for block, view in self.blocks
        ]

    def set_step(self, step: int) -> None:
        """Say how many updates the moments have seen (after a checkpoint was read)."""
        for _, view in self.blocks:
            self._adamw.state[view]["step"].fill_(step)
