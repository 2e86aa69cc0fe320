"""Times the trainer's own layers on this machine's device, one unit of the model at a time.

What runs is what a rank runs: the stage's module forward and backward with gradients that add up, the loss behind the
head, AdamW as the trainer calls it; split over a TP group where that is asked for. Knows nothing of plans.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from argosy.contracts.profile import ProfileEntry
from argosy.model.describe import describe_unit
from argosy.model.shape import ModelShape, check_trainable
from argosy.train.decoder import StageModel
from argosy.train.place import backend_of
from argosy.train.stage import DTYPES
from argosy.train.tensor_parallel import check_divides, local_tensor, parallelize

# So many like layers are run one after another, so that none finds its weights in a cache that a real stage would miss.
STACK_MAX = 4
PEER_TIMEOUT = timedelta(minutes=10)
WARMUPS, RUNS_MIN, RUNS_MAX = 2, 5, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What to measure. degrees: of TP. device: torch's name. threads: of one rank, 0 leaves torch's own choice.

    seconds: how long to time each piece of work for, at least RUNS_MIN and at most RUNS_MAX times.
    """

    shape: ModelShape
    sequence_length: int
    precision: str
    microbatch_sizes: tuple[int, ...]
    recomputes: tuple[str, ...]
    degrees: tuple[int, ...] = (1,)
    device: str = "cpu"
    threads: int = 0
    seconds: float = 0.5


def measure(asked: Asked, copies: int = 1) -> tuple[ProfileEntry, ...]:
    """Measure every kind of unit; ranks that share a machine are timed at once, and their mean is taken.

    copies: how many chips of the machine work at once; a TP group takes as many of them as its degree. Raises
    BadInputError for a model that the trainer can't run or can't split so.
    """
    check_trainable(asked.shape)
    for tp in asked.degrees:
        check_divides(asked.shape, tp)
    return tuple(entry for tp in asked.degrees for entry in _measure_together(asked, tp, max(copies // tp, 1) * tp))


def _measure_together(asked: Asked, tp: int, ranks: int) -> list[ProfileEntry]:
    """Measure on so many ranks, each in a fresh process: a fork of one whose torch has threads may hang."""
    if ranks == 1:
        return list(entries(asked))
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(max_workers=ranks, mp_context=get_context("spawn")) as pool,
    ):
        found = list(pool.map(measure_rank, [asked] * ranks, [tp] * ranks, range(ranks), [folder] * ranks))
    return [_mean(same) for same in zip(*found, strict=True)]


def measure_rank(asked: Asked, tp: int, rank: int, folder: str) -> list[ProfileEntry]:
    """Measure as one of several ranks; those of a TP group meet at a file of the folder."""
    place = torch.device(asked.device) if asked.device == "cpu" else torch.device(asked.device, rank)
    if place.type != "cpu":
        torch.get_device_module(place.type).set_device(place)
    if tp == 1:
        return list(entries(asked))
    meeting = f"file://{Path(folder).absolute() / f'group-{rank // tp}'}"
    dist.init_process_group(backend_of(place), meeting, PEER_TIMEOUT, world_size=tp, rank=rank % tp)
    try:
        return list(entries(asked, tp))
    finally:
        dist.destroy_process_group()


def _mean(same: tuple[ProfileEntry, ...]) -> ProfileEntry:
    return replace(
        same[0],
        forward_ms=statistics.fmean(entry.forward_ms for entry in same),
        backward_ms=statistics.fmean(entry.backward_ms for entry in same),
        update_ms=statistics.fmean(entry.update_ms for entry in same),
    )


def entries(asked: Asked, tp: int = 1) -> Iterator[ProfileEntry]:
    """Measure every kind of unit in every way asked for, as a rank of the TP group that this process has joined."""
    if asked.threads:
        torch.set_num_threads(asked.threads)
    shape = asked.shape
    for stack in unit_stacks(shape):
        layer = 0 <= stack[0] < shape.num_layers
        for size in asked.microbatch_sizes:
            for recompute in asked.recomputes if layer else ("none",):
                yield measure_stack(asked, stack, size, recompute, tp)


def unit_stacks(shape: ModelShape) -> list[tuple[int, ...]]:
    """List the embedding, some layers of each kind, and the head."""
    kinds: dict[str, list[int]] = {}
    for layer in range(shape.num_layers):
        kinds.setdefault(describe_unit(shape, layer), []).append(layer)
    layers = [tuple(same[:STACK_MAX]) for same in kinds.values()]
    return [(-1,), *layers, (shape.num_layers,)]


def measure_stack(asked: Asked, stack: tuple[int, ...], size: int, recompute: str, tp: int) -> ProfileEntry:
    """Measure one unit, or a few like ones of which the mean is taken."""
    model = StageModel(
        asked.shape,
        stack,
        sequence_length=asked.sequence_length,
        compute_dtype=DTYPES[asked.precision],
        recompute=recompute == "full",
    ).to(asked.device)
    if tp > 1:
        # The TP group is all of the world that `measure_rank` has joined.
        parallelize(model, cast(dist.ProcessGroup, dist.group.WORLD), asked.device)
    run = Run(asked, model, stack, size, alone=tp == 1)
    forward_ms, backward_ms = run.times_ms()
    return ProfileEntry(
        unit=describe_unit(asked.shape, stack[0]),
        forward_ms=forward_ms / len(stack),
        backward_ms=backward_ms / len(stack),
        update_ms=update_ms(asked, model, alone=tp == 1) / len(stack),
        activation_bytes=run.kept_bytes() // len(stack),
        tp=tp,
        microbatch_size=size,
        recompute=recompute,
    )


class Run:
    """One micro-batch through a stage's module, there and back. alone: no other rank has a part of it."""

    def __init__(self, asked: Asked, model: StageModel, stack: tuple[int, ...], size: int, *, alone: bool) -> None:
        self.asked, self.model, self.alone = asked, model, alone
        shape, device = asked.shape, asked.device
        tokens = torch.randint(shape.vocab_size, (size, asked.sequence_length), device=device)
        hidden = torch.randn(size, asked.sequence_length, shape.hidden_size, device=device)
        self.first, self.targets = stack[0] < 0, tokens if stack[-1] == shape.num_layers else None
        self.input = tokens if self.first else hidden.to(DTYPES[asked.precision])

    def forward(self) -> Tensor:
        """Give the stage's output, or the loss behind the head."""
        value = self.input if self.first else self.input.detach().requires_grad_()
        output: Tensor = self.model(value)
        if self.targets is None:
            return output
        return F.cross_entropy(output.float().flatten(0, 1), self.targets.flatten(), reduction="sum")

    def times_ms(self) -> tuple[float, float]:
        """Time forward and backward apart; gradients add up, as over a step's micro-batches.

        A rank that shares the work with others runs as often as they do, or they would wait for one another for ever.
        """
        for _ in range(WARMUPS):
            self.once_s()
        ends_s = time.perf_counter() + self.asked.seconds
        found: list[tuple[float, float]] = []
        while len(found) < RUNS_MIN or (self.alone and time.perf_counter() < ends_s and len(found) < RUNS_MAX):
            found.append(self.once_s())
        forwards, backwards = zip(*found, strict=True)
        return statistics.median(forwards) * 1e3, statistics.median(backwards) * 1e3

    def once_s(self) -> tuple[float, float]:
        """Go there and back once; gives the seconds of each."""
        begun_s = self._now_s()
        output = self.forward()
        middle_s = self._now_s()
        gradient = torch.ones_like(output) if self.targets is None else None
        turned_s = self._now_s()
        torch.autograd.backward(output, gradient)
        return middle_s - begun_s, self._now_s() - turned_s

    def kept_bytes(self) -> int:
        """Add up what autograd keeps from forward to backward, each memory once, parameters left out."""
        ours = (*self.model.parameters(), *self.model.buffers())
        own = {local_tensor(tensor).untyped_storage().data_ptr() for tensor in ours}
        kept: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            storage = local_tensor(tensor).untyped_storage()
            if storage.data_ptr() not in own:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            output = self.forward()
        del output
        return sum(kept.values())

    def _now_s(self) -> float:
        return now_s(self.asked.device, alone=self.alone)


def update_ms(asked: Asked, model: StageModel, *, alone: bool) -> float:
    """Time AdamW on a rank's own part and what comes with it: the gradient's norm and its clipping."""
    parameters = [local_tensor(parameter).detach() for parameter in model.parameters()]
    gradients = [torch.randn_like(parameter) for parameter in parameters]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, foreach=False)

    def step() -> None:
        torch.stack([gradient.square().sum() for gradient in gradients]).sum()
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.mul(0.5)
        optimizer.step()

    return median_ms(step, asked, alone=alone)


def median_ms(work: Callable[[], None], asked: Asked, *, alone: bool) -> float:
    """Time a piece of work often enough, and take the median."""
    for _ in range(WARMUPS):
        work()
    times: list[float] = []
    ends_s = time.perf_counter() + asked.seconds
    while len(times) < RUNS_MIN or (time.perf_counter() < ends_s and len(times) < RUNS_MAX):
        begun_s = now_s(asked.device, alone=alone)
        work()
        times.append(now_s(asked.device, alone=alone) - begun_s)
    return statistics.median(times) * 1e3


def now_s(device: str, *, alone: bool) -> float:
    """Give the time when a device has done all that it was given.

    Of a CPU the time that it worked for this process, for others may use it too; but not where a rank waits for others.
    """
    if device == "cpu" and alone:
        return time.process_time()
    if device != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter()


def device_name(device: str) -> str:
    """Give a device's own name, for the profile."""
    return "CPU" if device == "cpu" else str(torch.cuda.get_device_name() if device == "cuda" else device)
