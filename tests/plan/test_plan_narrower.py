"""What is found near the best offer with one choice given."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.plan.forms import FORMS
from argosy.plan.pipelines.grid import Part
from argosy.plan.search.narrower import blocks_of, narrower, restrictions
from argosy.plan.search.offers import Offer
from argosy.plan.search.question import make_search
from argosy.plan.search.search import Search

BATCH = 24


@pytest.fixture
def part(build: Any) -> Part:
    """Sixteen chips of one class, four a node."""
    return Part(chip_class=build.chip_class("north/chip", 0.001, nodes=4, chips_per_node=4), chips=16)


@pytest.fixture
def search(build: Any) -> Search:
    """Make the search of a small job."""
    return make_search(build.job(global_batch_size=BATCH), build.shape(), (), "fleet")


def offer(search: Search, part: Part) -> Offer:
    """Time a first offer on a part."""
    return Offer(timed=search.estimates([part], BATCH, 1)[0].timed, parts=(part,))


class TestRestrictions:
    def test_one_thing_at_a_time(self, search: Search, part: Part) -> None:
        """Sizes that divide the batch, ways to recompute and forms are given by turns, and a node fewer."""
        given = list(restrictions(search, (part,)))
        sizes = [freedom.sizes[0] for freedom, _ in given if len(freedom.sizes) == 1]
        assert sizes == sorted(sizes)
        assert all(BATCH % size == 0 for size in sizes)
        assert {f.recomputes[0] for f, _ in given if len(f.recomputes) == 1} == set(search.freedom.recomputes)
        assert [freedom.form for freedom, _ in given if freedom.form] == list(FORMS.values())
        assert [parts[0].chips for freedom, parts in given if freedom == search.freedom] == [12]

    def test_what_is_given_stays(self, search: Search, part: Part) -> None:
        """A size that the job gives is not given otherwise."""
        search.freedom = replace(search.freedom, sizes=(2,))
        assert all(freedom.sizes == (2,) for freedom, _ in restrictions(search, (part,)))


class TestNarrower:
    def test_on_the_same_chips(self, search: Search, build: Any, part: Part) -> None:
        """Every offer uses no more than the chips of the best, and its parts."""
        best = offer(search, part)
        found = narrower(search, build.job(global_batch_size=BATCH), [best])
        assert found
        assert all(one.parts == (part,) and sum(one.timed.draft.chips.values()) <= 16 for one in found)


class TestBlocksOf:
    def test_apart(self, search: Search, part: Part) -> None:
        """A class in pipelines of its own is a block of its own."""
        assert blocks_of(offer(search, part), [part]) == [(part,)]
