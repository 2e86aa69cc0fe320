"""Drafts made better one choice at a time."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.plan.pipelines.grid import Part
from argosy.plan.search.bettering import bettered
from argosy.plan.search.drafts import Draft, Group
from argosy.plan.search.neighbours import fewer, kinds_of, neighbours
from argosy.plan.search.predict import Timed, time_draft
from argosy.plan.search.question import make_search
from argosy.plan.search.search import Search

BATCH = 24


@pytest.fixture(scope="module")
def part(build: Any) -> Part:
    """Eight chips of one class."""
    return Part(chip_class=build.chip_class("north/chip", 0.001, nodes=4), chips=8)


@pytest.fixture(scope="module")
def search(build: Any) -> Search:
    """Make the search of a small job."""
    return make_search(build.job(global_batch_size=BATCH), build.shape(), (), "fleet")


@pytest.fixture(scope="module")
def worst(search: Search, part: Part) -> Timed:
    """Give the slowest of many drafts."""
    return search.estimates([part], BATCH, 40)[-1].timed


class TestBettered:
    def test_faster(self, search: Search, part: Part, worst: Timed) -> None:
        """From a poor draft steps lead to one that is faster, on no more chips than there are."""
        better = bettered(search, worst, [part], BATCH, 1)
        assert better.timeline.step_ms < worst.timeline.step_ms
        assert sum(better.draft.chips.values()) <= part.chips
        assert better.draft.sequences == BATCH

    def test_a_best_stays(self, search: Search, part: Part, worst: Timed) -> None:
        """What no single change makes better is given back as it is."""
        best = bettered(search, worst, [part], BATCH, 1)
        again = bettered(search, best, [part], BATCH, 1)
        assert again.timeline.step_ms == best.timeline.step_ms

    def test_keeps_enough_chips(self, search: Search, part: Part, worst: Timed) -> None:
        """Who asks for a number of chips is not given fewer."""
        used = sum(worst.draft.chips.values())
        assert sum(bettered(search, worst, [part], BATCH, used).draft.chips.values()) >= used


class TestNeighbours:
    def test_differ(self, search: Search, part: Part, worst: Timed) -> None:
        """Other families, degrees, sizes, depths and numbers are among them."""
        found = list(neighbours(search, worst.draft, [part], BATCH))
        layouts = [template.layout for one in found for template, _ in one.choice]
        assert len({one.family for one in found}) > 1
        assert len({(layout.depth, layout.runs[0].tp) for layout in layouts}) > 1
        assert len({layout.microbatch_size for layout in layouts}) > 1

    def test_fewer_are_no_busier(self, worst: Timed) -> None:
        """Of four replicas of which the busiest takes three of ten micro-batches, two share them evenly."""
        group = worst.draft.groups[0]
        groups = (replace(group, count=2, microbatches=3), replace(group, count=2, microbatches=2))
        kind = kinds_of(replace_groups(worst.draft, groups))[0]
        assert (kind.count, kind.microbatches, kind.most) == (4, 10, 3)
        assert [layout.count for layout in fewer(kind)] == [2]


def replace_groups(draft: Draft, groups: tuple[Group, ...]) -> Draft:
    """Give a draft other groups."""
    return replace(draft, groups=groups)


class TestTimed:
    def test_estimates_are_timed(self, search: Search, part: Part) -> None:
        """What a search answers is in the order of the timeline."""
        found = search.estimates([part], BATCH, 6)
        steps = [time_draft(one.draft).timeline.step_ms for one in found]
        assert steps == sorted(steps) == [one.step_ms for one in found]
