"""Drafts: dealing, exchanges, and the sketch that stands for the whole."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.plan import EMBEDDING, Plan
from argosy.model.counts import unit_parameters
from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.pipelines.templates import make_template
from argosy.plan.search.drafts import Draft, make_draft
from argosy.plan.search.plans import sketch, whole
from argosy.plan.timing.check import check_plan
from argosy.plan.timing.timeline import simulate

ONE_SITE = {"schedule": "1f1b", "microbatches": 4}


def runs(*placed: Any) -> tuple[Run, ...]:
    """Build runs of so many places on a class each."""
    return tuple(Run(chip_class=chip_class, places=places) for chip_class, places in placed)


def draft(build: Any, counts: tuple[int, ...] = (2, 1), batch: int = 12, **more: Any) -> Draft:
    """Build a draft of pipelines of 1, 2, ... stages, one count each, on classes of falling speed across two sites."""
    setting = build.setting(tied_embeddings=more.pop("tied", False))
    sites = more.pop("sites", ("north", "south"))
    links = (build.link(gbps=0.05),)
    choices = []
    for index, count in enumerate(counts):
        name = f"{sites[index % len(sites)]}/chip{index}"
        chips = build.chip_class(name, tflops=0.002 / (index + 1))
        template = make_template(setting, Layout(runs=runs((chips, index + 1)), count=count, **ONE_SITE), links)
        assert template is not None
        choices.append((template, count))
    zero = more.pop("zero_stage", 0)
    base = Draft(setting=setting, model="tiny", fleet="f", groups=(), schedule="", zero_stage=zero, links=links)
    made = make_draft(base, choices, batch, **more)
    assert made is not None
    return made


def exchange(plan: Plan, unit: int) -> Any:
    """Find a unit's exchange."""
    return next(e for e in plan.exchanges if e.unit == unit)


class TestDeal:
    def test_whole_batch(self, build: Any) -> None:
        """The whole plan takes the global batch, faster replicas more of it."""
        plan = whole(draft(build))
        check_plan(plan)
        assert plan.global_batch_size == 12
        assert plan.replicas[0].microbatches > plan.replicas[-1].microbatches

    def test_gpipe_when_few(self, build: Any) -> None:
        """With fewer micro-batches than stages a lone pipeline runs GPipe."""
        made = single(build)
        few = make_draft(made, [(made.groups[0].template, 1)], 1)
        assert few is not None
        assert few.schedule == "gpipe"


class TestExchanges:
    def test_bytes(self, build: Any) -> None:
        """Every unit is exchanged among all replicas in fp32 over the long link."""
        plan = whole(draft(build))
        assert [e.unit for e in plan.exchanges] == list(range(-1, 5))
        assert exchange(plan, 0).wire_bytes == pytest.approx(2 * 2 / 3 * 4 * unit_parameters(build.shape(), 0))
        assert exchange(plan, 0).wire == "north-south"
        assert len(exchange(plan, 0).members) == 3

    def test_zero(self, build: Any) -> None:
        """With ZeRO-1 half of the bytes go before the update and half after, and the update is shared."""
        plain, sharded = (whole(draft(build, sites=("north",), zero_stage=stage)) for stage in (0, 1))
        before, after = (exchange(sharded, 0).wire_bytes, exchange(sharded, 0).gather_bytes)
        assert before == after == exchange(plain, 0).wire_bytes / 2
        update_ms = [plan.replicas[0].stages[0].update_ms for plan in (plain, sharded)]
        assert update_ms[1] == pytest.approx(update_ms[0] / 3)

    def test_zero_across_sites(self, build: Any) -> None:
        """The optimizer's state is sharded inside each site; the long link carries sums alone, before the update."""
        made = replace(draft(build, (3, 2), zero_stage=1), hierarchical=True)
        plan = whole(made)
        check_plan(plan)
        assert set(made.shards) == {3, 2}
        assert [gather.members for gather in exchange(plan, 0).gathers] == [((0, 0), (1, 0), (2, 0)), ((3, 0), (4, 0))]
        assert exchange(plan, 0).gather_bytes == 0
        assert exchange(plan, 0).wire_bytes == pytest.approx(4 * unit_parameters(build.shape(), 0))

    def test_zero_through_sites(self, build: Any) -> None:
        """Of pipelines through two sites like ones share each stage's optimizer, whatever others hold."""
        made = replace(crossing(build, (3, 2)), zero_stage=1)
        assert made.shards == (3, 2)

    def test_tied_embedding(self, build: Any) -> None:
        """A tied embedding is one exchange of all first and last stages; one stage that is both counts once."""
        plan = whole(draft(build, tied=True))
        assert set(exchange(plan, EMBEDDING).members) == {(0, 0), (1, 0), (2, 0), (2, 1)}
        assert exchange(plan, 4).wire_bytes < exchange(plan, EMBEDDING).wire_bytes / 10

    def test_tied_in_one_replica(self, build: Any) -> None:
        """A single pipeline with a tied embedding still exchanges it between its ends."""
        plan = whole(single(build))
        assert [(e.unit, e.members) for e in plan.exchanges] == [(EMBEDDING, ((0, 0), (0, 1)))]

    def test_alone(self, build: Any) -> None:
        """A single rank exchanges nothing and waits for nobody."""
        plan = whole(draft(build, (1,), batch=4))
        assert plan.exchanges == ()
        assert plan.barrier_ms == 0


def single(build: Any) -> Draft:
    """Build a draft of one pipeline of two stages with a tied embedding."""
    setting = build.setting(tied_embeddings=True)
    template = make_template(setting, Layout(runs=runs((build.chip_class(), 2)), **ONE_SITE), ())
    assert template is not None
    base = Draft(setting=setting, model="tiny", fleet="f", groups=(), schedule="", zero_stage=0, links=())
    made = make_draft(base, [(template, 1)], 4)
    assert made is not None
    return made


class TestLongLink:
    @pytest.mark.parametrize(("counts", "gbps"), [((1,), 10), ((2,), 5), ((1, 1), 5), ((2, 3), 2)])
    def test_shared_by_all_that_cross(self, build: Any, counts: tuple[int, ...], gbps: float) -> None:
        """All pipelines of a draft that cross a link share its rate, whichever group they are of."""
        made = crossing(build, counts)
        wires = {wire for group in made.groups for wire in group.template.wires}
        assert {(wire.gbps, wire.long_link) for wire in wires} == {(gbps, True)}
        plan = whole(made)
        streams = sum(len(replica.sends) for replica in plan.replicas)
        assert streams * gbps == 10
        assert {send.wire for replica in plan.replicas for send in replica.sends} <= {wire.name for wire in wires}

    def test_slower_boundaries_slow_the_guess(self, build: Any) -> None:
        """A group's pace and fill follow the share that the other groups leave it."""
        alone, together = (crossing(build, counts).groups[0].template for counts in ((1,), (1, 3)))
        assert together.fill_ms > alone.fill_ms
        assert together.pace_ms >= alone.pace_ms


def crossing(build: Any, counts: tuple[int, ...]) -> Draft:
    """Build a draft of pipelines from north to south, one group a count, over a link of 10 Gb/s."""
    setting, links = build.setting(), (build.link(gbps=10.0),)
    choices = []
    for index, count in enumerate(counts):
        ends = build.chip_class(f"north/chip{index}"), build.chip_class(f"south/chip{index}", tflops=0.5)
        template = make_template(
            setting, Layout(runs=runs(*((end, 1) for end in ends)), count=count, **ONE_SITE), links
        )
        assert template is not None
        choices.append((template, count))
    base = Draft(setting=setting, model="tiny", fleet="f", groups=(), schedule="", zero_stage=0, links=links)
    made = make_draft(base, choices, 4 * sum(counts))
    assert made is not None
    return made


class TestSketch:
    @settings(derandomize=True, deadline=None, max_examples=25)
    @given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(9, 40), st.booleans(), st.booleans())
    def test_like_the_whole(self, build: Any, counts: list[int], batch: int, tied: bool, sharded: bool) -> None:
        """The sketch of one replica a group takes exactly as long as the plan of all replicas."""
        sites = ("north",) if sharded else ("north", "south")
        made = draft(build, tuple(counts), batch, tied=tied, zero_stage=int(sharded), sites=sites)
        assert simulate(sketch(made)).step_ms == pytest.approx(simulate(whole(made)).step_ms)

    def test_does_not_fit_as_dealt(self, build: Any) -> None:
        """A deal that would need more memory than its template had in mind is refused."""
        made = single(build)
        template = made.groups[0].template
        tight = replace(template, layout=replace(template.layout, runs=runs((build.chip_class(memory_gb=0.004), 2))))
        assert make_draft(made, [(tight, 1)], 4) is not None
        assert make_draft(made, [(tight, 1)], 64, "gpipe") is None
