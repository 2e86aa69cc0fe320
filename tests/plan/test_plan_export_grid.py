"""What every framework's one grid of ranks asks of a plan."""

from dataclasses import replace

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Prediction, Replica
from argosy.plan.exports.formats import FORMATS, check_model, find_exporter, runs_model
from argosy.plan.exports.grid import check_vendors, class_notes, expectation, grid_of
from support.exports import make_plan, make_replica, named_shape

SHAPE = named_shape("llama-3-8b")
EVEN = make_replica([16, 16])


class TestAlike:
    @pytest.mark.parametrize(
        ("other", "reason"),
        [
            (make_replica([15, 17], 4), r"layers 16\+16, replica 2 \(north/fast\) has 15\+17"),
            (make_replica([32], 4), r"layers 16\+16, replica 2 \(north/fast\) has 32"),
            (make_replica([16, 16], tp=2), "TP 1, .* has 2"),
            (make_replica([16, 16], 7), "micro-batches 4, .* has 7"),
            (make_replica([16, 16], 4, 2), "micro-batches of size 1, .* has 2"),
            (make_replica([16, 16], recompute="full"), "recompute none, .* has full of 16"),
        ],
    )
    def test_replicas_that_differ(self, other: Replica, reason: str) -> None:
        """Replicas that differ are refused by the first thing in which they do, with the replica that does."""
        plan = make_plan(SHAPE, EVEN, other)
        with pytest.raises(
            BadInputError, match=rf"X can't .*: replica 1 \(north/fast\) has {reason}; it takes the same"
        ):
            grid_of(plan, SHAPE, "X")

    def test_a_batch_that_does_not_divide(self) -> None:
        """Where a batch alone makes like replicas unequal, the nearest ones that would not are named."""
        plan = make_plan(SHAPE, *[make_replica([16, 16], count) for count in (5, 5, 4)])
        with pytest.raises(BadInputError, match="in every replica; a global batch of 12 or 15 divides over them"):
            grid_of(plan, SHAPE, "X")
        other = make_replica([16, 16], 5, chip_class="south/slow")
        with pytest.raises(BadInputError, match=r"in every replica$"):
            grid_of(make_plan(SHAPE, EVEN, other), SHAPE, "X")

    def test_another_model(self) -> None:
        """A plan of another model is refused before anything is written."""
        with pytest.raises(BadInputError, match=r"the plan is for 32 layers, .* llama-3-70b has 80"):
            grid_of(make_plan(SHAPE, EVEN), named_shape("llama-3-70b"), "X")

    def test_a_plan_with_a_gap(self) -> None:
        """A plan that loses a layer is no plan: it is refused whatever the framework."""
        stages = (EVEN.stages[0], replace(EVEN.stages[1], first_layer=17))
        with pytest.raises(BadInputError, match=r"layers 17\.\.32; it must begin at 16"):
            grid_of(make_plan(SHAPE, replace(EVEN, stages=stages)), SHAPE, "X")


class TestChips:
    def test_where_ranks_go(self) -> None:
        """Where classes differ, ranks are named by place, then replica: what runs must be started in that order."""
        pair = make_replica([16, 16], tp=2, chip_class=["north/fast", "south/slow"])
        grid = grid_of(make_plan(SHAPE, pair, pair), SHAPE, "X")
        assert class_notes(grid) == ["ranks 0-3: north/fast", "ranks 4-7: south/slow"]
        assert class_notes(grid_of(make_plan(SHAPE, EVEN), SHAPE, "X")) == []

    def test_vendors(self) -> None:
        """Chips of two vendors share no communication library; of one vendor they do, and unknown ones may."""
        pair = make_replica([16, 16], chip_class=["north/fast", "south/slow"])
        grid = grid_of(make_plan(SHAPE, pair), SHAPE, "X")
        check_vendors(grid, {"north/fast": "Acme", "south/slow": "Acme"})
        check_vendors(grid, {"north/fast": "Acme"})
        with pytest.raises(BadInputError, match="chips of Acme and Bolt; it takes one communication library"):
            check_vendors(grid, {"north/fast": "Acme", "south/slow": "Bolt"})


class TestExpectation:
    def test_said_beside_the_plan(self) -> None:
        """What was predicted stands in the file, marked where chips are emulated."""
        plan = make_plan(SHAPE, EVEN)
        told = Prediction(
            step_ms=1234.5,
            tokens_per_second=6789.0,
            mfu=0.4,
            reference_tokens_per_second=1.0,
            reference_name="",
            efficiency=1.0,
        )
        assert expectation(plan) == []
        assert "1.234 s a step, 6,789 tokens/s." in expectation(replace(plan, prediction=told))[0]
        assert "~1.234 s" in FORMATS["megatron"](replace(plan, prediction=told, emulated=True), SHAPE, None)


class TestFormats:
    def test_unknown(self) -> None:
        """An unknown format is answered with those there are and the nearest."""
        with pytest.raises(BadInputError, match=r"'megatorn'; there are megatron, .*; did you mean megatron\?"):
            find_exporter("megatorn")

    @pytest.mark.parametrize(
        ("name", "model", "tokens", "reason"),
        [
            ("megatron", "gpt-neo-2.7b", 64, "biases on the attention's output and the MLP alone"),
            ("megatron", "gpt2", 1025, "sequences of 1,025 tokens, beyond its table of 1,024 positions"),
            ("flagscale", "mistral-7b", 64, "attention in windows"),
            ("torchtitan", "gpt2", 64, "no model of the family of gpt2"),
            ("torchtitan", "deepseek-v3", 64, "multi-token prediction"),
        ],
    )
    def test_models_that_no_plan_helps(self, name: str, model: str, tokens: int, reason: str) -> None:
        """A model that a framework runs by no plan is refused without any, and by its exporter with the same words."""
        shape = named_shape(model)
        assert not runs_model(name, shape, tokens)
        with pytest.raises(BadInputError, match=reason):
            check_model(name, shape, tokens)
        plan = make_plan(shape, make_replica([shape.num_layers]), sequence_length=tokens)
        with pytest.raises(BadInputError, match=reason):
            FORMATS[name](plan, shape, None)

    @pytest.mark.parametrize("name", FORMATS)
    def test_models_that_it_runs(self, name: str) -> None:
        """What can be exported is not refused beforehand."""
        check_model(name, SHAPE, 8192)
        assert runs_model(name, SHAPE, 8192)

    @pytest.mark.parametrize("name", FORMATS)
    def test_a_model_with_an_odd_name(self, name: str) -> None:
        """A model may be called by a path, and no sign in one ends the comment that names it."""
        odd = 'a/"""\\\necho here\n/é'
        plain, text = (FORMATS[name](replace(make_plan(SHAPE, EVEN), model=m), SHAPE, None) for m in ("m", odd))
        assert text == plain.replace("m on 2 ranks", "a/?????echo here?/é on 2 ranks", 1)
        assert len(text.splitlines()) == len(plain.splitlines())

    @pytest.mark.parametrize("name", FORMATS)
    def test_repeats(self, name: str) -> None:
        """The same plan gives the same text, byte by byte, and the text ends with a line."""
        plan = make_plan(SHAPE, EVEN, EVEN)
        first, second = (FORMATS[name](plan, SHAPE, None) for _ in range(2))
        assert first == second
        assert first.endswith("\n")
