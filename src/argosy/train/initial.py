"""First weights: drawn by name, or read from files, and cut to this rank's part.

Every parameter has its own random stream, seeded by the job's seed and its name, so the weights are the same under
every plan.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from argosy.contracts.job import Job
from argosy.model.shape import ModelShape
from argosy.train.blocks import Block
from argosy.train.tensor_parallel import local_tensor
from argosy.train.weights.importing import open_hf

STANDARD_DEVIATION = 0.02


def draw(shape: ModelShape, seed: int, name: str, sizes: tuple[int, ...]) -> Tensor:
    """Draw one whole parameter in float32.

    Norms are one, biases zero, matrices normal with deviation 0.02; those that write to the residual stream are scaled
    down by sqrt(2 x layers), as in GPT-2.
    """
    if "norm" in name:
        return torch.ones(sizes)
    if name.endswith(".bias"):
        return torch.zeros(sizes)
    stream = int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=7).digest(), "little")
    generator = torch.Generator().manual_seed(stream)
    residual = name.endswith((".o.weight", ".down.weight"))
    deviation = STANDARD_DEVIATION / (2 * shape.num_layers) ** 0.5 if residual else STANDARD_DEVIATION
    return torch.empty(sizes).normal_(0.0, deviation, generator=generator)


def set_weights(
    parameters: dict[str, nn.Parameter],
    local: dict[str, Block],
    whole_sizes: dict[str, tuple[int, ...]],
    job: Job,
    shape: ModelShape,
) -> None:
    """Fill a rank's parameters from the job's `initial_weights` (a folder of safetensors), or as its seed draws them.

    Raises BadInputError when the folder does not hold this model.
    """
    if job.initial_weights is None:
        fill(parameters, local, lambda name: draw(shape, job.train.seed, name, whole_sizes[name]))
        return
    with open_hf(Path(job.initial_weights), shape) as reader:
        fill(parameters, local, reader.tensor)


def fill(parameters: dict[str, nn.Parameter], local: dict[str, Block], whole: Callable[[str], Tensor]) -> None:
    """Set a rank's parameters from whole ones.

    whole: name -> the unsplit tensor; called once a parameter, so only one whole tensor is in memory at a time.
    """
    for name, parameter in parameters.items():
        tensor = whole(name)
        for dim, (offset, size) in enumerate(zip(local[name].offsets, local[name].sizes, strict=True)):
            tensor = tensor.narrow(dim, offset, size)
        with torch.no_grad():
            local_tensor(parameter).copy_(tensor)
