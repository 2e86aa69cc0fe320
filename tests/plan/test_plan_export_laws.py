"""What holds for every export of every plan: what a framework reads is what was planned, or the plan is refused."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.exports.formats import FORMATS
from support.exports import (
    Split,
    flagscale_split,
    make_plan,
    make_replica,
    megatron_split,
    named_shape,
    split_of,
    torchtitan_split,
)

READERS: dict[str, Callable[[str], Split]] = {
    "megatron": megatron_split,
    "torchtitan": torchtitan_split,
    "flagscale": flagscale_split,
}
SHAPES = {name: named_shape(name) for name in ("llama-3-8b", "qwen3-30b-a3b", "llama-3.2-1b")}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Plan, ModelShape]:
    """Draw a plan of like replicas: depth, cut, degrees, virtual stages, schedule, sharding and recompute."""
    shape = SHAPES[draw(st.sampled_from(sorted(SHAPES)))]
    virtual = draw(st.sampled_from((1, 1, 2)))
    places = draw(st.integers(1 if virtual == 1 else 2, 4))
    stages = places * virtual
    cuts = draw(st.lists(st.integers(1, shape.num_layers - 1), min_size=stages - 1, max_size=stages - 1, unique=True))
    edges = [0, *sorted(cuts), shape.num_layers]
    counts = [end - start for start, end in pairwise(edges)]
    same_tp = draw(st.booleans())
    replica = make_replica(
        counts,
        places * draw(st.integers(1, 3)),
        draw(st.integers(1, 2)),
        tp=draw(st.sampled_from((1, 2, 4))) if same_tp or virtual > 1 else [1 + index % 2 for index in range(stages)],
        cp=draw(st.sampled_from((1, 1, 2))),
        ep=draw(st.sampled_from((1, 4))) if shape.experts else 1,
        recompute=draw(st.sampled_from(("none", "full", "selective"))),
        recompute_layers=draw(st.sampled_from((None, None, 2))),
    )
    schedule = "interleaved" if virtual > 1 else draw(st.sampled_from(("1f1b", "1f1b", "gpipe", "zero-bubble")))
    plan = make_plan(
        shape,
        *[replica] * draw(st.integers(1, 3)),
        virtual_stages=virtual,
        schedule=schedule,
        zero_stage=draw(st.integers(0, 1)),
    )
    return plan, shape


@pytest.mark.slow
class TestLaws:
    @pytest.mark.parametrize("name", FORMATS)
    @settings(max_examples=150)
    @given(case=cases())
    def test_what_is_read_is_what_was_planned(self, name: str, case: tuple[Plan, ModelShape]) -> None:
        """Every stage has its layers and degrees, every replica its micro-batches, or the plan is refused."""
        plan, shape = case
        try:
            text = FORMATS[name](plan, shape, None)
        except BadInputError as error:
            event(f"refused: {str(error)[:60]}")
            return
        event("exported")
        split = READERS[name](text)
        assert split == split_of(plan)
        assert [layer for first, end in split.layers for layer in range(first, end)] == list(range(shape.num_layers))

    @pytest.mark.parametrize("name", FORMATS)
    @given(case=cases(), extra=st.integers(1, 5))
    def test_other_micro_batches_are_never_lost(self, name: str, case: tuple[Plan, ModelShape], extra: int) -> None:
        """A replica that takes more micro-batches than the others is refused by every framework."""
        plan, shape = case
        odd = replace(
            plan.replicas[0], microbatches=plan.replicas[0].microbatches + extra * len(plan.replicas[0].stages)
        )
        uneven = replace(plan, replicas=(*plan.replicas, odd), global_batch_size=plan.global_batch_size + odd.sequences)
        with pytest.raises(BadInputError):
            FORMATS[name](uneven, shape, None)
