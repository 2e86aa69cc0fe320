"""What becomes of pipelines that a walk put together, and of offers that are as fast as simpler ones."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.plan.pipelines.grid import Family, Part
from argosy.plan.pipelines.layouts import Layout
from argosy.plan.search.bettering import TIED, plainest
from argosy.plan.search.neighbours import kinds_of, made
from argosy.plan.search.offers import Offer
from argosy.plan.search.predict import timed_again
from argosy.plan.search.question import make_search
from argosy.plan.search.search import Search

BATCH = 24
ZERO_BUBBLE = Family(schedule="zero-bubble")


@pytest.fixture(scope="module")
def part(build: Any) -> Part:
    """Eight chips of one class."""
    return Part(chip_class=build.chip_class("north/chip", 0.001, nodes=4), chips=8)


@pytest.fixture(scope="module")
def search(build: Any) -> Search:
    """Make the search of a small job."""
    return make_search(build.job(global_batch_size=BATCH), build.shape(), (), "fleet")


def layout_of(search: Search, part: Part, places: int, count: int) -> Layout:
    """Lay out so many pipelines of so many places of two chips."""
    layout = kinds_of(search.estimates([part], BATCH, 1)[0].draft)[0].layout
    return replace(layout, runs=(replace(layout.runs[0], tp=2, places=places),), microbatch_size=1, count=count)


class TestMade:
    def test_one_place_beside_several(self, search: Search, part: Part) -> None:
        """Beside pipelines of several places those of one take part in zero-bubble."""
        layouts = [layout_of(search, part, 2, 1), layout_of(search, part, 1, 2)]
        for mix in (layouts, layouts[::-1]):
            drafts = [draft for one in made(search, mix, ZERO_BUBBLE, BATCH) for draft in search.drafts(one, BATCH)]
            assert [draft.schedule for draft in drafts] == ["zero-bubble"]
            assert {group.template.layout.depth for group in drafts[0].groups} == {1, 2}

    def test_places_alone(self, search: Search, part: Part) -> None:
        """By themselves pipelines of one place have no bubble to fill."""
        assert not list(made(search, [layout_of(search, part, 1, 4)], ZERO_BUBBLE, BATCH))


class TestPlainest:
    def test_what_is_as_fast_shares_less(self, build: Any) -> None:
        """Two ranks that would share gradients or weights share the optimizer's state alone if that is as fast."""
        part = Part(chip_class=build.chip_class("north/chip", 0.001, nodes=1), chips=2)
        search = make_search(build.job(precision="bf16"), build.shape(), (), "fleet")
        first = search.estimates([part], 8, 1)[0].timed
        for zero_stage in (0, 1, 2, 3):
            timed = timed_again(replace(first.draft, zero_stage=zero_stage))
            assert timed is not None
            plain = plainest(search, Offer(timed=timed, parts=(part,))).timed
            assert plain.draft.zero_stage == min(zero_stage, 1)
            assert plain.timeline.step_ms <= timed.timeline.step_ms * (1 + TIED)

    def test_what_is_faster_stays(self, build: Any) -> None:
        """Replicas that share gradients go on doing so where sharing the optimizer's state alone takes longer."""
        search = make_search(build.job(precision="bf16"), build.shape(), (), "fleet")
        part = Part(chip_class=build.chip_class("north/chip", 100.0, nodes=2, nic_gbps=1.0), chips=4)
        shared = [one.timed for one in search.estimates([part], 8, 40) if one.draft.zero_stage > 1]
        assert shared
        for timed in shared:
            alone, plain = (
                timed_again(replace(timed.draft, zero_stage=1)),
                plainest(search, Offer(timed=timed, parts=(part,))),
            )
            assert alone is not None
            longer = alone.timeline.step_ms > timed.timeline.step_ms * (1 + TIED)
            assert (plain.timed is timed) == longer
