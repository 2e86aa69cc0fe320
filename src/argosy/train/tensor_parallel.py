"""Tensor parallelism from outside: which parameter is split along which dim, and the DTensor plan that does it.

The decoder stays plain PyTorch; this file wraps its linear layers in DTensor's column and row parallel styles over one
TP group. Norm weights stay whole on every rank. Knows nothing of pipelines, replicas or optimizers.
"""

from collections.abc import Callable, Sequence

import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)

from argosy.contracts.errors import BadInputError
from argosy.model.cutting import uncut
from argosy.model.shape import ModelShape
from argosy.train.decoder import StageModel

_ROWS = ("embedding.weight", "head.weight")
_SPLIT_OUTPUTS = (".q.weight", ".k.weight", ".v.weight", ".q.bias", ".k.bias", ".v.bias", ".gate.weight", ".up.weight")
_SPLIT_INPUTS = (".o.weight", ".down.weight")
# Applied to local heads only, so each TP rank sees a part of their gradient.
_PARTIAL = (".q_norm.weight", ".k_norm.weight")


def split_dim(name: str) -> int | None:
    """Tell along which dim TP splits a parameter; None where every rank holds it whole."""
    if name in _ROWS or name.endswith(_SPLIT_OUTPUTS):
        return 0
    return 1 if name.endswith(_SPLIT_INPUTS) else None


def has_partial_gradient(name: str) -> bool:
    """Tell whether a whole parameter's gradient must be summed over the TP ranks."""
    return name.endswith(_PARTIAL)


def check_divides(shape: ModelShape, slices: int, degrees: Sequence[int] = ()) -> None:
    """Refuse a TP degree that does not divide what it splits.

    slices: least common multiple of all TP degrees in the plan. degrees: those, to be named. Raises BadInputError
    naming every size that does not divide.
    """
    wrong = [f"{name} {size}" for name, size in uncut(shape, slices).items()]
    if wrong:
        allowed = [str(n) for n in range(1, slices) if not uncut(shape, n)]
        mixed = f" (degrees {' and '.join(map(str, degrees))} in one plan)" if slices not in degrees and degrees else ""
        raise BadInputError(
            f"{shape.name}: tensor parallelism {slices}{mixed} does not divide {', '.join(wrong)}; "
            f"degrees below {slices} that do: {', '.join(allowed)}"
        )


def local_tensor(tensor: Tensor) -> Tensor:
    """Give this rank's part of a parameter: a DTensor's local shard, any other tensor itself."""
    to_local: Callable[[], Tensor] | None = getattr(tensor, "to_local", None)
    return to_local() if to_local is not None else tensor


def local_gradient(parameter: Tensor) -> Tensor | None:
    """Give this rank's part of a gradient, split as its parameter is."""
    gradient = parameter.grad
    if gradient is None or not hasattr(gradient, "redistribute"):
        return gradient
    whole = gradient.redistribute(placements=parameter.placements)  # type: ignore[attr-defined]
    out: Tensor = whole.to_local()
    return out


def parallelize(model: StageModel, group: dist.ProcessGroup, device_type: str) -> None:
    """Split a stage's linear layers over the ranks of `group`, in place."""
    mesh = DeviceMesh.from_group(group, device_type)
    for layer in model.layers.values():
        parallelize_module(layer, mesh, _layer_styles())
    if model.embedding is not None:
        style = RowwiseParallel(input_layouts=Replicate())
        parallelize_module(model.embedding, mesh, style)
    if model.head is not None:
        parallelize_module(model.head, mesh, ColwiseParallel(output_layouts=Replicate()))
    model.tie()


def _layer_styles() -> dict[str, ParallelStyle]:
    whole = Replicate()
    return {
        "attention": PrepareModuleInput(
            input_layouts=(whole, None, None), desired_input_layouts=(whole, None, None), use_local_output=False
        ),
        "attention.q": ColwiseParallel(),
        "attention.k": ColwiseParallel(),
        "attention.v": ColwiseParallel(),
        "attention.o": RowwiseParallel(),
        "mlp": PrepareModuleInput(input_layouts=(whole,), desired_input_layouts=(whole,), use_local_output=False),
        "mlp.gate": ColwiseParallel(),
        "mlp.up": ColwiseParallel(),
        "mlp.down": RowwiseParallel(),
    }
