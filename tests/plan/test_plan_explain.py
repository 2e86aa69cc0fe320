"""Plans in words."""

import re
from dataclasses import asdict, replace
from typing import Any

import pytest

from argosy.plan.planner import plan_job
from argosy.plan.telling.explain import (
    bytes_text,
    chips_text,
    company_line,
    layers_text,
    option_names,
    option_rows,
    plan_chips,
    rate_text,
    replica_lines,
    share_text,
    size_text,
    summary_lines,
    time_text,
)


def plans(build: Any, emulated: bool = True) -> Any:
    """Plan the tiny model on two classes in two sites."""
    classes = [
        build.chip_class("north/fast", tflops=0.002, emulated=emulated, memory_gb=2.0),
        build.chip_class("south/slow", tflops=0.001, emulated=emulated, memory_gb=2.0),
    ]
    return plan_job(build.job(global_batch_size=24), build.shape(), classes, [build.link()])


# A time, a rate or a share; the rates of the reference's parts have their unit after the last one.
FIGURE = r"\d[\d.,]*(?= ?(?:%|ms\b|s\b|[kMG]\b|tokens/s| \+ south/))"


def whole_text(offered: Any) -> str:
    """Write all that is said of plans, the threshold of what is told and the reserve of memory left out."""
    rows = [" ".join(asdict(row).values()) for row in option_rows(offered, "fastest")]
    rates = [row.tokens_per_second + " tokens/s" for row in option_rows(offered, "fastest")]
    return (
        "\n".join([*rows, *rates, *summary_lines(offered, "fastest")])
        .replace("above 0.1 %", "")
        .replace("with 4 %", "")
    )


class TestRows:
    def test_options(self, build: Any) -> None:
        """Every option is named for what it uses, the chosen one for its goal too."""
        rows = option_rows(plans(build), "fastest")
        assert rows[0].option.startswith("fastest: north + south")
        assert {"north/fast alone", "south/slow alone"} & {row.option for row in rows[1:]}
        assert rows[0].chips == "4 fast + 4 slow"

    def test_a_kind_that_several_classes_have(self, build: Any) -> None:
        """A kind of chips that the reader sees in two places is told with its site, other kinds without."""
        plan = plans(build)[0]
        assert chips_text(plan, ["west/fast"]) == "4 north/fast + 4 slow"
        assert chips_text(plan, ["west/other"]) == "4 fast + 4 slow"

    def test_efficiency_above_all(self, build: Any) -> None:
        """An efficiency above 100 % in any row is explained in words, and one that is shown as 100.0 % is not."""
        chosen, *others = plans(build)
        for efficiency, told in ((0.97, False), (1.0004, False), (1.0006, True), (1.4, True)):
            told_of = replace(chosen.prediction, efficiency=efficiency)
            line = company_line([*others, replace(chosen, prediction=told_of)])
            assert bool(line) == told
            assert line.startswith("efficiency above 100 %: ") == told

    def test_large_shares(self) -> None:
        """Thousands of percent are written as other large numbers are."""
        assert share_text(10.795) == "1,079.5 %"

    def test_emulated(self, build: Any) -> None:
        """Emulated figures carry a mark and no price; real ones the other way round."""
        played, real = (option_rows(plans(build, emulated), "fastest")[0] for emulated in (True, False))
        assert all(text.startswith("~") for text in (played.step, played.tokens_per_second, played.mfu))
        assert played.cost == "-"
        assert not real.step.startswith("~")
        assert real.cost != "-"

    def test_emulated_everywhere(self, build: Any) -> None:
        """In all that is said of an emulated plan no time, rate or share lacks the mark; on real chips none has it."""
        played, real = (whole_text(plans(build, emulated)) for emulated in (True, False))
        marked, unmarked = (re.findall(rf"{mark}{FIGURE}", played) for mark in ("~", r"(?<![~\d.,])"))
        assert len(marked) > 15
        assert unmarked == []
        assert "~" not in real

    def test_the_reserve_of_memory(self, build: Any) -> None:
        """What is kept for gaps is told with every plan, and for the runtime where chips are real."""
        played, real = (whole_text(plans(build, emulated)) for emulated in (True, False))
        assert "allocator's gaps in reserve." in played
        assert "allocator's gaps and 1 GB for the runtime in reserve." in real

    def test_long_link(self, build: Any) -> None:
        """What crosses a long link is said with its bytes; a plan within one site sends nothing."""
        rows = option_rows(plans(build), "fastest")
        assert any("a step" in row.long_link for row in rows)
        assert rows[-1].long_link == "nothing"

    def test_same_chip_in_two_sites(self, build: Any) -> None:
        """Chips of one kind in two sites are told apart by their site."""
        classes = [build.chip_class(f"{site}/fast", tflops=0.002) for site in ("north", "south")]
        plan = plan_job(build.job(global_batch_size=32), build.shape(), classes, [build.link(gbps=100)])[0]
        assert option_rows([plan], "fastest")[0].chips == "4 north/fast + 4 south/fast"


class TestSummary:
    def test_lines(self, build: Any) -> None:
        """It says the split, reference and bound, what holds the plan back and the next best."""
        text = "\n".join(summary_lines(plans(build), "fastest"))
        told = "reference: the parts on their own", "bound: no plan takes less than"
        for part in ("replicas, schedule", *told, "held back by:", "next best:"):
            assert part in text

    def test_whole_batch_or_a_share(self, build: Any) -> None:
        """It says that the parts of the reference take shares of the batch and the options alone all of it."""
        told = "\n".join(summary_lines(plans(build), "fastest"))
        assert "the parts on their own, each at its share of the batch, give north/fast ~" in told
        assert "options on a part of these chips take the whole batch" in told
        alone = "\n".join(summary_lines(plans(build)[:1], "fastest"))
        assert "whole batch" not in alone

    def test_like_replicas_together(self, build: Any) -> None:
        """Replicas of like stages are one line with their range of micro-batches, bound or not."""
        plan = plans(build)[0]
        first = plan.replicas[0]
        uneven = replace(first, microbatches=first.microbatches + 1)
        lines = replica_lines(replace(plan, replicas=(first, uneven)))
        assert len(lines) == 1
        assert lines[0].strip().startswith("2 x")
        assert f"{first.microbatches} to {first.microbatches + 1} micro-batches" in lines[0]

    def test_chips(self, build: Any) -> None:
        """Chips in use are counted by class."""
        assert plan_chips(plans(build)[0]) == {"north/fast": 4, "south/slow": 4}


class TestUnits:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (time_text(1840.0), "1.84 s"),
            (time_text(412.04), "412.0 ms"),
            (rate_text(4_560_000), "4.56 M"),
            (rate_text(9_900), "9,900"),
            (rate_text(99_000), "99.00 k"),
            (bytes_text(16.1e9), "16.1 GB"),
            (bytes_text(3.4e16), "34.0 PB"),
            (bytes_text(512), "512 B"),
            (size_text(58.4), "58"),
            (size_text(0.078), "0.078"),
        ],
    )
    def test_write(self, text: str, expected: str) -> None:
        """Figures are written with the unit that suits their size."""
        assert text == expected


class TestNames:
    def test_none_twice(self, build: Any) -> None:
        """No two options have one name, and only the goal is named cheapest unless prices say so."""
        classes = [
            build.chip_class(f"{site}/{name}", tflops=tflops, emulated=False)
            for site, name, tflops in (("north", "a", 0.002), ("north", "b", 0.001), ("south", "c", 0.002))
        ]
        offered = plan_job(build.job(global_batch_size=24), build.shape(), classes, [build.link()])
        names = option_names(offered, "fastest")
        assert len(set(names)) == len(names) > 3
        assert sum("cheapest" in name for name in names) == 1
        assert not any("cheapest" in name for name in option_names(offered, "cheapest")[1:])

    def test_emulated_has_no_price(self, build: Any) -> None:
        """Where no price is shown nothing is called cheap."""
        assert not any("cheapest" in name for name in option_names(plans(build), "fastest"))


def in_one_pipeline(plan: Any, names: tuple[str, ...]) -> Any:
    """Give the stages of a plan's replicas, which have one each, to one pipeline of several classes."""
    stage = plan.replicas[0].stages[0]
    cut = [replace(stage, chip_class=name, first_layer=i, end_layer=i + 1) for i, name in enumerate(names)]
    return replace(plan, replicas=(replace(plan.replicas[0], stages=tuple(cut)),))


class TestLayers:
    def test_many_alike(self, build: Any) -> None:
        """Many stages of like size are told once, unlike ones by the fewest and the most."""
        one = plans(build)[0].replicas[0].stages[0]
        cut = [replace(one, first_layer=5 * i, end_layer=5 * i + 5) for i in range(16)]
        assert layers_text(cut) == "5 layers each"
        assert layers_text([*cut, replace(one, first_layer=80, end_layer=82)]) == "2 to 5 layers"


class TestMixed:
    def test_virtual_stages_in_their_places(self, build: Any) -> None:
        """With virtual stages a run of places tells all the layers that these hold."""
        mixed = in_one_pipeline(plans(build)[0], ("north/fast", "south/slow") * 2)
        head, first, second = replica_lines(replace(mixed, virtual_stages=2, schedule="interleaved"))
        assert "2 stages x 2 virtual" in head
        assert first.strip().startswith("north/fast stage 1: 1+1 layers, ")
        assert second.strip().startswith("south/slow stage 2: 1+1 layers, ")

    def test_a_line_for_each_class(self, build: Any) -> None:
        """A pipeline through several classes has a line for each run of stages on one."""
        mixed = in_one_pipeline(plans(build)[0], ("north/fast", "north/fast", "south/slow"))
        head, first, second = replica_lines(mixed)
        assert "3 stages" in head
        assert first.strip().startswith("north/fast stages 1-2: 1+1 layers, ")
        assert second.strip().startswith("south/slow stage 3: 1 layer, ")

    def test_named_by_sites(self, build: Any) -> None:
        """It is named by the sites it joins."""
        mixed = in_one_pipeline(plans(build)[0], ("north/fast", "south/slow"))
        assert option_names([plans(build)[0], mixed], "fastest")[1] == "north + south in one pipeline"


class TestAxes:
    def test_all_are_told(self, build: Any) -> None:
        """CP, EP, virtual stages, ZeRO and layers that are recomputed in part are said where there are such."""
        plan = plans(build)[0]
        stage = replace(plan.replicas[0].stages[0], tp=2, cp=2, ep=4, recompute="full", recompute_layers=1, end_layer=2)
        rest = replace(stage, first_layer=2, end_layer=4)
        wide = replace(
            plan,
            replicas=(replace(plan.replicas[0], stages=(stage, rest)),),
            virtual_stages=2,
            schedule="interleaved",
            zero_stage=1,
        )
        text = "\n".join(summary_lines([wide], "fastest"))
        assert "schedule interleaved, 2 virtual stages each, optimizer state sharded (ZeRO-1):" in text
        assert "TP 2, CP 2, EP 4, 1 stage x 2 virtual of 2+2 layers, full recompute of 1 layer a stage" in text
        assert plan_chips(wide) == {stage.chip_class: 16}
