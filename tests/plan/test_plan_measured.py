"""Measured profiles: what is refused, what goes before what, and what a hole does."""

import json
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.model.config import read_config
from argosy.model.describe import describe_unit
from argosy.model.memory import rank_parameters_apart
from argosy.model.named import config_text
from argosy.plan.costs.cost import IMPOSSIBLE, unit_cost, update_ms
from argosy.plan.costs.measured import Measured, read_measured
from argosy.plan.costs.memory import Holding, kept_bytes, unit_gb
from argosy.plan.costs.setting import Setting, Way
from argosy.plan.planner import plan_job

CHIPS = ("fast", "slow")


def entry(unit: str, **more: object) -> dict[str, object]:
    """Build an entry of 1 ms forward, 3 ms backward and 0.5 ms update."""
    return {"unit": unit, "forward_ms": 1.0, "backward_ms": 3.0, "update_ms": 0.5, **more}


def table(entries: list[dict[str, object]], **more: object) -> dict[str, object]:
    """Build a table of the chip `fast` in fp32 at 64 tokens."""
    return {"chip": "fast", "precision": "fp32", "sequence_length": 64, "entries": entries, **more}


def read(*tables: dict[str, object]) -> Measured:
    """Read a profile of some tables."""
    return read_measured([(json.dumps({"tables": tables}), "p.json")], CHIPS)


def whole(build: Any, **more: object) -> Measured:
    """Read a profile of all units of the tiny model."""
    shape = build.shape()
    units = dict.fromkeys(describe_unit(shape, unit) for unit in shape.units)
    return read(table([entry(unit, **more) for unit in units]))


def setting_of(build: Any, measured: Measured) -> Setting:
    """Build a setting of the tiny model with a profile."""
    return replace(build.setting(), measured=measured)


class TestReading:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"forward_ms": -1.0}, r"tables\[0\].entries\[0\] \(layer\).forward_ms: got -1; expected more than 0"),
            ({"forward_ms": 0.0}, "got 0; expected more than 0"),
            ({"update_ms": -0.1}, "update_ms: got -0.1; expected 0 or more"),
            ({"forward_ms": 1e-300}, "forward_ms: got 1e-300; times are milliseconds, from 1e-06 to 3.2e"),
            ({"update_ms": 1e300}, r"update_ms: got 1e\+300; times are milliseconds"),
            ({"activation_bytes": -1}, "activation_bytes: got -1; expected 0 or more"),
            ({"weights_ms": 1.0}, r"tables\[0\].entries\[0\].weights_ms: unknown key; did you mean weight_ms"),
            ({"weight_ms": 4.0}, "weight_ms: 4 is more than backward_ms, 3"),
            ({"tp": 0}, "tp: got 0; expected 1 or more"),
            ({"recompute": "some"}, "recompute: 'some' is unknown"),
            ({"backward_ms": None}, "not a Profile of version 1: Expected `float`, got `null`"),
        ],
    )
    def test_bad_entries(self, changes: dict[str, object], message: str) -> None:
        """Times that are none and degrees that can't be are refused with file, table and entry."""
        with pytest.raises(BadInputError, match=message) as caught:
            read(table([entry("layer", **changes)]))
        assert str(caught.value).startswith("p.json: ")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "not a Profile"),
            ('{"tables": []}', "no table of a profile in it"),
            ('{"version": 2, "tables": []}', "Profile is of version 2; this Argosy reads version 1"),
            (json.dumps({"tables": [table([])]}), "it has no entries"),
            (
                json.dumps({"tables": [table([entry("layer")], chip="fat")]}),
                "chip: 'fat' is unknown; did you mean fast",
            ),
            (json.dumps({"tables": [table([entry("layer"), entry("layer")])]}), "is there twice; keep one"),
        ],
    )
    def test_bad_files(self, text: str, message: str) -> None:
        """Files of another form, unknown chips, and the same thing measured twice are refused."""
        with pytest.raises(BadInputError, match=message):
            read_measured([(text, "p.json")], CHIPS)

    @pytest.mark.parametrize("value", ["NaN", "Infinity"])
    def test_times_that_are_no_numbers(self, value: str) -> None:
        """What programs write for an unknown time is no JSON: it is named with line and column."""
        text = json.dumps({"tables": [table([entry("größe", forward_ms=12345.5)])]}, indent=1, ensure_ascii=False)
        line, column = next((n, x.index("12345.5")) for n, x in enumerate(text.splitlines(), 1) if "12345.5" in x)
        with pytest.raises(BadInputError, match=f"p.json:{line}:{column + 1}: {value} is no number of JSON; leave an"):
            read_measured([(text.replace("12345.5", value), "p.json")], CHIPS)

    def test_the_example_of_the_documentation(self) -> None:
        """The profile that docs/costs.md shows is one."""
        page = (Path(__file__).parents[2] / "docs" / "costs.md").read_text("utf-8")
        measured = read_measured([(page.split("```json")[1].split("```")[0], "docs/costs.md")], ("h800-sxm",))
        unit = describe_unit(read_config(*config_text("llama-3-8b")), 0)
        found = measured.entry("h800-sxm", "bf16", 8192, (unit, 2, 1, 1, 1, "none"))
        assert found is not None
        assert found.forward_ms == 4.1

    @given(st.text(max_size=60))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        """Whatever the text, the answer is a profile or a clear error."""
        with suppress(BadInputError):
            assert read_measured([(text, "p.json")], CHIPS).entries


class TestCosts:
    def test_measured_times_go_before_the_roofline(self, build: Any) -> None:
        """A unit that was measured takes what was measured; half of backward is the weights' where nobody looked."""
        setting, chips = setting_of(build, whole(build)), build.chip_class(emulated=False)
        cost = unit_cost(setting, chips, 0, Way())
        assert (cost.forward_ms, cost.backward_ms, cost.weight_ms) == (1.0, 3.0, 1.5)
        assert update_ms(setting, chips, (0, 1), Way(microbatch_size=4), 2) == 0.5

    def test_the_update_of_experts_is_shared_by_fewer(self, build: Any) -> None:
        """Of 16 ranks EP 8 leaves two for the same experts: a layer's measured update is cut by what a rank owns."""
        setting, chips = build.setting("mixtral-8x7b"), build.chip_class(emulated=False)
        measured = read(table([entry(describe_unit(setting.shape, 0), ep=8)]))
        dense, experts = rank_parameters_apart(setting.shape, 0, ep=8)
        told = update_ms(replace(setting, measured=measured), chips, (0,), Way(ep=8), 16)
        assert told == pytest.approx(0.5 * (dense / 16 + experts / 2) / (dense + experts))

    def test_a_hole_is_impossible_and_named(self, build: Any) -> None:
        """What was not measured takes forever, never nothing, and it is said what was measured instead."""
        setting, chips = setting_of(build, whole(build)), build.chip_class(emulated=False)
        assert unit_cost(setting, chips, 0, Way(tp=2)) is IMPOSSIBLE
        (reason,) = setting.missing
        assert reason.startswith("not in the profile: fast, fp32, 64 tokens: layer 64, heads")
        assert "micro-batch 1, TP 2, CP 1, EP 1, recompute none; measured: 1 of micro-batch 1, TP 1, CP 1" in reason
        assert update_ms(setting, chips, (0,), Way(tp=2), 1) == math.inf

    def test_another_sequence_length_is_a_hole(self, build: Any) -> None:
        """A profile of 64 tokens says nothing about 128."""
        setting = replace(build.setting(sequence_length=128), measured=whole(build))
        assert unit_cost(setting, build.chip_class(emulated=False), 0, Way()) is IMPOSSIBLE
        assert "it has fast in fp32 at 64 tokens" in next(iter(setting.missing))

    def test_chips_without_a_profile_keep_their_roofline(self, build: Any) -> None:
        """Chips that nobody measured, and emulated ones, are planned as before."""
        plain, profiled = build.setting(), setting_of(build, whole(build))
        for chips in (build.chip_class("north/slow", emulated=False), build.chip_class()):
            assert unit_cost(profiled, chips, 0, Way()) == unit_cost(plain, chips, 0, Way())

    def test_measured_activations(self, build: Any) -> None:
        """What a micro-batch was seen to keep on a chip goes before the formulas."""
        setting, chips = setting_of(build, whole(build, activation_bytes=1_000_000)), build.chip_class(emulated=False)
        assert kept_bytes(setting, chips, 0, Way()) == 1_000_000
        one, two = (unit_gb(setting, chips, 0, Holding(way=Way(), held=held)) for held in (1, 2))
        assert two - one == pytest.approx(1.04e-3)

    def test_activations_of_other_chips(self, build: Any) -> None:
        """What one chip was seen to keep says nothing of a chip without a profile, nor of an emulated one."""
        plain, profiled = build.setting(), setting_of(build, whole(build, activation_bytes=1_000_000))
        for chips in (build.chip_class("north/slow", emulated=False), build.chip_class()):
            assert kept_bytes(profiled, chips, 0, Way()) == kept_bytes(plain, chips, 0, Way())


class TestPlanning:
    @pytest.mark.slow
    def test_only_what_was_measured_is_planned(self, build: Any) -> None:
        """A plan by a profile has no way that was not measured, and its step is the sum of what was."""
        job, chips = build.job(microbatch_size=1), build.chip_class(emulated=False, nodes=1, chips_per_node=2)
        best = plan_job(job, build.shape(), [chips], [], measured=whole(build))[0]
        stages = [stage for replica in best.replicas for stage in replica.stages]
        assert {(stage.tp, stage.recompute) for stage in stages} == {(1, "none")}
        units = sum(len(best.units(stage)) for stage in best.replicas[0].stages)
        assert sum(stage.forward_ms for stage in best.replicas[0].stages) == pytest.approx(units * 1.0)

    def test_nothing_measured_says_so(self, build: Any) -> None:
        """Where the profile has no way to run the job, the error names what is missing."""
        job, chips = build.job(microbatch_size=2), build.chip_class(emulated=False)
        with pytest.raises(NeverFitsError, match="not in the profile: fast, fp32, 64 tokens"):
            plan_job(job, build.shape(), [chips], [], measured=whole(build))
