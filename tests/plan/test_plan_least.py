"""The least time of a step against every plan of tiny fleets."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.plan.pipelines.grid import Family, Freedom, Part
from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.pipelines.templates import make_template
from argosy.plan.planner import plan_job
from argosy.plan.search.drafts import make_draft
from argosy.plan.search.least import Caps, least_step_ms
from argosy.plan.search.plans import sketch
from argosy.plan.timing.timeline import steady

FREEDOM = Freedom(sizes=(1, 2), recomputes=("none", "full"))


def layouts(parts: list[Part]) -> list[Layout]:
    """List every pipeline of up to three stages over the classes of some parts, one replica."""
    found = []
    for depth in (1, 2, 3):
        for places in itertools.product([part.chip_class for part in parts], repeat=depth):
            used = [sum(place is part.chip_class for place in places) for part in parts]
            if all(n <= part.chips for n, part in zip(used, parts, strict=True)):
                runs = tuple(Run(chip_class=place, places=1) for place in places)
                found.append(Layout(runs=runs, recomputes=("none", "full"), microbatches=depth))
    return found


def best_ms(build: Any, parts: list[Part], batch: int) -> float:
    """Time every plan of one or two replicas whose stages have one chip each, and give the shortest step."""
    setting = build.setting("tiny")
    base = build.search(setting, (build.link(),)).base
    choices = []
    for layout, schedule, size in itertools.product(layouts(parts), ("1f1b", "gpipe"), (1, 2)):
        held = layout.depth if schedule == "1f1b" else batch
        made = replace(layout, schedule=schedule, microbatch_size=size, microbatches=held)
        template = make_template(setting, made, (build.link(),))
        if template is not None:
            choices.append((template, 1))
    shortest = float("inf")
    for picked in [*([one] for one in choices), *itertools.combinations(choices, 2)]:
        used: dict[str, int] = {}
        for template, _ in picked:
            for name, chips in template.layout.chips.items():
                used[name] = used.get(name, 0) + chips
        if len({t.layout.schedule for t, _ in picked}) > 1 or any(
            used.get(p.chip_class.name, 0) > p.chips for p in parts
        ):
            continue
        draft = make_draft(base, picked, batch)
        if draft is not None:
            shortest = min(shortest, steady(sketch(draft)).step_ms)
    return shortest


speeds = st.sampled_from([0.001, 0.002, 0.005])


class TestBound:
    @pytest.mark.slow
    @settings(derandomize=True, deadline=None, max_examples=12)
    @given(speeds, speeds, st.integers(1, 2), st.integers(0, 2), st.sampled_from([1, 2, 5]))
    def test_below_every_plan(self, build: Any, one: float, other: float, here: int, there: int, batch: int) -> None:
        """No plan of a tiny fleet that is tried takes less than the bound."""
        classes = build.chip_class("north/a", one), build.chip_class("south/b", other)
        parts = [Part(chip_class=c, chips=n) for c, n in zip(classes, (here, there), strict=True) if n]
        bound_ms = least_step_ms(build.setting("tiny"), parts, batch, FREEDOM)
        assert 0 < bound_ms <= best_ms(build, parts, batch)

    def test_reached(self, build: Any) -> None:
        """A single chip that takes all sequences without pause is at the bound but for its update."""
        chips = build.chip_class(tflops=0.001, nodes=1, chips_per_node=1)
        job = build.job(global_batch_size=64, microbatch_size=1)
        plan = plan_job(job, build.shape(), [chips], ())[0]
        assert plan.prediction is not None
        assert plan.prediction.gap == pytest.approx(0, abs=1e-3)

    def test_more_chips_lower_it(self, build: Any) -> None:
        """Twice the chips halve the bound while there is work for all of them."""
        setting, chips = build.setting(), build.chip_class(tflops=0.001)
        few, many = (least_step_ms(setting, [Part(chip_class=chips, chips=n)], 64, FREEDOM) for n in (2, 4))
        assert many == pytest.approx(few / 2)

    def test_one_sequence(self, build: Any) -> None:
        """However many chips there are, a sequence passes all units one after the other."""
        setting, chips = build.setting(), build.chip_class(tflops=0.001)
        few, many = (least_step_ms(setting, [Part(chip_class=chips, chips=n)], 1, FREEDOM) for n in (64, 4096))
        assert few == many > 0

    def test_few_sequences(self, build: Any) -> None:
        """Where chips are many, what a sequence is under way for and what it costs are bound together: TP is dear."""
        setting, chips = build.setting(), build.chip_class(tflops=0.001)
        apart = [least_step_ms(setting, [Part(chip_class=chips, chips=n)], 64, FREEDOM) for n in (32, 64, 128, 4096)]
        assert apart == sorted(apart, reverse=True)
        assert apart[1] > apart[0] / 2 * (1 - 1e-6)
        assert apart[3] == least_step_ms(setting, [Part(chip_class=chips, chips=8192)], 64, FREEDOM)

    def test_caps(self, build: Any) -> None:
        """A job that may have four of eight chips, or the power of four, is bound as by four."""
        setting, chips = build.setting(), build.chip_class(tflops=0.001)
        chips = replace(chips, chip=replace(chips.chip, tdp_w=500.0))
        four, eight = ([Part(chip_class=chips, chips=n)] for n in (4, 8))
        alone = least_step_ms(setting, four, 64, FREEDOM)
        assert least_step_ms(setting, eight, 64, FREEDOM, Caps(chips=4)) == pytest.approx(alone)
        assert least_step_ms(setting, eight, 64, FREEDOM, Caps(power_kw=2.0)) == pytest.approx(alone)

    def test_over_all_chips(self, build: Any) -> None:
        """Every option's gap is against what all chips of the job could do, also that of one on a part of them."""
        classes = [build.chip_class("north/fast", 0.004), build.chip_class("north/slow", 0.001)]
        plans = plan_job(build.job(global_batch_size=24), build.shape(), classes, ())
        told = [plan.prediction for plan in plans if plan.prediction]
        least = [one.step_ms / (1 + (one.gap or 0.0)) for one in told]
        assert len(plans) > 1
        assert max(least) == pytest.approx(min(least))


class TestFamilies:
    def test_default_is_plain(self) -> None:
        """A family is 1F1B with nothing sharded unless told."""
        assert Family() == Family(schedule="1f1b", virtual_stages=1, zero_stage=0)
