"""The memory formulas against tensors that autograd really saves in the trainer's decoder."""

import dataclasses

import pytest

from argosy.model.config import read_config
from argosy.model.memory import Split, activation_bytes
from argosy.model.named import config_text
from argosy.model.numerics import numerics
from argosy.model.shape import ModelShape

torch = pytest.importorskip("torch")

BATCH, LENGTH = 2, 64


def saved_bytes(shape: ModelShape, unit: int, precision: str, recompute: bool) -> int:
    """Run one unit forward and add up the storages that its backward waits for, parameters left out."""
    from argosy.train.decoder import StageModel

    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[precision]
    model = StageModel(shape, [unit], sequence_length=LENGTH, compute_dtype=dtype, recompute=recompute).train()
    own = {tensor.untyped_storage().data_ptr() for tensor in [*model.parameters(), *model.buffers()]}
    saved = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    hidden = torch.randn(BATCH, LENGTH, shape.hidden_size, dtype=dtype, requires_grad=True)
    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = model(tokens if unit == -1 else hidden)
        if unit == shape.num_layers:
            keep(out)
            torch.nn.functional.cross_entropy(out.float().flatten(0, 1), tokens.flatten(), reduction="sum")
    return sum(tensor.untyped_storage().nbytes() for pointer, tensor in saved.items() if pointer not in own)


@pytest.mark.slow
class TestTrainer:
    @pytest.mark.parametrize("precision", ["fp32", "bf16"])
    @pytest.mark.parametrize("name", ["demo", "smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b"])
    def test_formulas_match_autograd(self, name: str, precision: str) -> None:
        """Embedding, layer, recomputed layer and head each keep what the formulas say, to 0.1 %."""
        shape = dataclasses.replace(read_config(*config_text(name)), vocab_size=1000)
        how = Split(microbatch_size=BATCH, sequence_length=LENGTH)
        for unit, recompute in ((-1, "none"), (0, "none"), (0, "full"), (shape.num_layers, "none")):
            expected = activation_bytes(shape, unit, numerics(precision), how, recompute)
            measured = saved_bytes(shape, unit, precision, recompute == "full")
            assert measured == pytest.approx(expected, rel=1e-3), (unit, recompute)
