"""Measuring the trainer's own layers: every kind of unit gets an entry that a planner can use."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError
from argosy.model.config import read_config
from argosy.model.describe import describe_unit
from argosy.model.memory import Split, activation_bytes
from argosy.model.named import config_text
from argosy.model.numerics import numerics
from argosy.train.profiling import Asked, _mean, measure, unit_stacks

SHAPE = read_config(*config_text("tiny"))


def asked(**more: Any) -> Asked:
    """Ask for the tiny model at 16 tokens, timed as briefly as can be."""
    fields: dict[str, Any] = {
        "shape": SHAPE,
        "sequence_length": 16,
        "precision": "fp32",
        "microbatch_sizes": (1, 2),
        "recomputes": ("none", "full"),
        "seconds": 0.0,
        "threads": 1,
    }
    return Asked(**{**fields, **more})


class TestMeasure:
    @pytest.mark.slow
    def test_every_kind_of_unit_is_measured(self) -> None:
        """Embedding and head get an entry a micro-batch size, like layers one for every way of recompute."""
        entries = measure(asked())
        layer = describe_unit(SHAPE, 0)
        assert len(entries) == 2 + 4 + 2
        assert {(e.microbatch_size, e.recompute) for e in entries if e.unit == layer} == {
            (size, how) for size in (1, 2) for how in ("none", "full")
        }
        assert all(e.forward_ms > 0 and e.backward_ms > 0 and e.update_ms > 0 for e in entries)

    @pytest.mark.slow
    @pytest.mark.parametrize("precision", ["fp32", "bf16"])
    def test_kept_bytes_are_those_of_the_formulas(self, precision: str) -> None:
        """What autograd was seen to keep of a layer is what the planner would have counted, within a tenth."""
        entry = next(e for e in measure(asked(precision=precision, sequence_length=64)) if e.unit.startswith("layer"))
        split = Split(microbatch_size=1, sequence_length=64)
        assert entry.activation_bytes == pytest.approx(activation_bytes(SHAPE, 0, numerics(precision), split), rel=0.1)

    @pytest.mark.slow
    def test_a_tp_group_is_measured_together(self) -> None:
        """Two ranks of a TP group time the layer that they share, and each keeps less of it."""
        one, two = (
            next(
                e
                for e in measure(asked(degrees=(tp,), recomputes=("none",), microbatch_sizes=(1,), seconds=0.05), tp)
                if "layer" in e.unit
            )
            for tp in (1, 2)
        )
        assert two.tp == 2
        assert two.forward_ms > 0
        assert two.activation_bytes < one.activation_bytes

    def test_degrees_that_split_nothing(self) -> None:
        """A degree that does not divide the heads is refused before anything runs."""
        with pytest.raises(BadInputError, match="tensor parallelism 3 does not divide"):
            measure(asked(degrees=(3,)))

    def test_like_layers_are_measured_together(self) -> None:
        """A few like layers are run one after another; embedding and head stand alone."""
        assert unit_stacks(SHAPE) == [(-1,), (0, 1, 2, 3), (SHAPE.num_layers,)]

    def test_copies_are_averaged(self) -> None:
        """Of ranks that were timed at once the mean counts."""
        entry = measure(asked(microbatch_sizes=(1,), recomputes=("none",)))[0]
        twice = replace(entry, forward_ms=3 * entry.forward_ms)
        assert _mean((entry, twice)).forward_ms == pytest.approx(2 * entry.forward_ms)

    def test_models_that_the_trainer_refuses(self) -> None:
        """What the trainer can't run can't be measured by running it."""
        with pytest.raises(BadInputError, match="the trainer can't run a mixture of experts"):
            measure(asked(shape=read_config(*config_text("mixtral-8x7b"))))
