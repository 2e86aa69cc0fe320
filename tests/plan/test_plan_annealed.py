"""Walks over mixes of pipelines: what they are priced by, and what becomes of where they end."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.fleet import ChipClass
from argosy.contracts.plan import Plan
from argosy.fleet.catalogue import load_catalogue
from argosy.plan.forms import FORMS
from argosy.plan.mix.anneal import deal
from argosy.plan.mix.arrays import arrays_of
from argosy.plan.mix.mix import rows_of
from argosy.plan.pipelines.grid import Part
from argosy.plan.planner import plan_job
from argosy.plan.search import ranking
from argosy.plan.search.annealed import annealed, mix_of, terms_of
from argosy.plan.search.bettering import walked
from argosy.plan.search.mixtables import mix_problem
from argosy.plan.search.offers import Offer
from argosy.plan.search.predict import Timed
from argosy.plan.search.question import make_search
from argosy.plan.search.search import Search

BATCH = 24


def parts_of(build: Any, slower: float = 0.5, memory_gb: float = 64.0) -> list[Part]:
    """Take four chips of a class, and eight of one that is slower."""
    fast = build.chip_class("north/fast", 0.001)
    slow = build.chip_class("north/slow", 0.001 * slower, nodes=4, memory_gb=memory_gb)
    return build.parts(fast, slow)


def search_of(build: Any, **asked: Any) -> Search:
    """Make the search of a small job."""
    return make_search(build.job(global_batch_size=BATCH), build.shape(), (), "fleet", **asked)


def drafts_of(search: Search, parts: list[Part], count: int = 6) -> list[Timed]:
    """Give some good drafts."""
    return [estimate.timed for estimate in search.estimates(parts, BATCH, count)]


class TestPrices:
    @pytest.mark.parametrize("memory_gb", [64.0, 0.001])
    def test_a_pipelines_pace_is_that_of_its_template(self, build: Any, memory_gb: float) -> None:
        """What a walk takes a pipeline to do is what the template it came from does, recomputed layers and all."""
        parts = parts_of(build, memory_gb=memory_gb)
        search = search_of(build)
        for timed in drafts_of(search, parts):
            draft = timed.draft
            if draft.schedule == "interleaved":
                continue
            for group in draft.groups:
                one = replace(draft, groups=(replace(group, count=1),))
                terms = terms_of(search, draft, parts)
                problem, mix = mix_problem(terms), mix_of(one, terms)
                arrays = arrays_of(problem, range(len(parts)))
                rows, size = rows_of(problem, arrays, mix), group.template.layout.sequences
                tables, _, _, factors = arrays.numbers
                once_s, twice_s = (deal(rows, tables, factors, rounds * size)[0] for rounds in (64, 65))
                assert (twice_s - once_s) * 1e3 == pytest.approx(group.template.pace_ms, rel=0.02)


class TestAnnealed:
    @settings(derandomize=True, deadline=None, max_examples=10)
    @given(st.floats(0.2, 1.0), st.sampled_from([0.03, 64.0]))
    def test_what_a_walk_finds_keeps_the_rules(self, build: Any, slower: float, memory_gb: float) -> None:
        """Drafts of where walks end take the whole batch, on no more chips than there are."""
        parts, search = parts_of(build, slower, memory_gb), search_of(build)
        for timed in drafts_of(search, parts, 2):
            for candidate in annealed(search, timed.draft, parts, 2000):
                for draft in search.drafts(candidate, BATCH):
                    assert draft.sequences == BATCH
                    assert all(draft.chips.get(part.chip_class.name, 0) <= part.chips for part in parts)

    def test_a_walk_repeats(self, build: Any) -> None:
        """Twice from one draft, twice the same end."""
        parts = parts_of(build)
        slowest = drafts_of(search_of(build), parts)[-1].draft
        ends = [[candidate.choice for candidate in annealed(search_of(build), slowest, parts, 3000)] for _ in range(2)]
        assert ends[0]
        assert ends[0] == ends[1]

    def test_for_the_trainer_a_pipeline_has_one_degree(self, build: Any) -> None:
        """Argosy's own trainer runs pipelines of one TP degree; a walk for it finds no others."""
        parts, search = parts_of(build), search_of(build, runnable=True)
        for timed in drafts_of(search, parts):
            for candidate in annealed(search, timed.draft, parts, 3000):
                assert all(len({run.tp for run in one.layout.runs}) == 1 for one, _ in candidate.choice)

    def test_nothing_for_frameworks_with_like_replicas(self, build: Any) -> None:
        """Where all replicas must be alike there is nothing to walk over."""
        parts = parts_of(build)
        draft = drafts_of(search_of(build), parts)[0].draft
        formed = search_of(build, form=next(iter(FORMS.values())))
        assert not list(annealed(formed, draft, parts))

    def test_nothing_where_weights_are_shared(self, build: Any) -> None:
        """Replicas that share gradients or weights are all alike, and are tried one by one."""
        parts, search = parts_of(build), search_of(build)
        draft = replace(drafts_of(search, parts)[0].draft, zero_stage=3)
        assert not list(annealed(search, draft, parts))


class TestWalked:
    def test_never_slower_and_enough_chips(self, build: Any) -> None:
        """A walk gives back what it began with unless it found something faster, of no fewer chips than asked for."""
        parts, search = parts_of(build), search_of(build)
        for timed in drafts_of(search, parts):
            used = sum(timed.draft.chips.values())
            job = build.job(global_batch_size=BATCH)
            asked = replace(job, chips=replace(job.chips, minimum=used))
            better = walked(search, asked, Offer(timed=timed, parts=tuple(parts))).timed
            assert better.timeline.step_ms <= timed.timeline.step_ms
            assert sum(better.draft.chips.values()) >= used


def neo_plan(build: Any) -> Plan:
    """Plan GPT-Neo-2.7B on 32 A100 and 96 A10 of one site, in nodes of four."""
    chips = load_catalogue()
    classes = [
        ChipClass(
            name=f"north/{name}", site="north", chip=chips.chip(name), chips_per_node=4, nodes=nodes, nic_gbps=400.0
        )
        for name, nodes in (("a100-sxm-40gb", 8), ("a10", 24))
    ]
    job = build.job("gpt-neo-2.7b", sequence_length=2048, global_batch_size=1024, precision="bf16")
    return plan_job(job, build.shape("gpt-neo-2.7b"), classes, ())[0]


class TestParts:
    @pytest.mark.slow
    def test_a_part_of_a_class_joins_another(self, build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A third of the A10 in pipelines with A100 and the rest alone is found, and beats what is found without."""
        mixed = neo_plan(build)
        made = {tuple(stage.chip_class for stage in replica.stages) for replica in mixed.replicas}
        assert made == {("north/a10",), ("north/a10", "north/a100-sxm-40gb")}
        monkeypatch.setattr(ranking, "walks", lambda search, job, ranked: [])
        apart = neo_plan(build)
        assert mixed.prediction is not None
        assert apart.prediction is not None
        assert mixed.prediction.step_ms < 0.99 * apart.prediction.step_ms
