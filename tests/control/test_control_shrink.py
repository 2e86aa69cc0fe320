"""Elastic borrowers give back by shrinking: no more than is asked for, and never out of their domain."""

from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.policy import Reclaim
from support.cores import Core, policy, queue, size

H = "north/h800"
LENDING = policy(queue("own", guarantee={"h800": 32}), queue("poor"))


class TestShrink:
    def test_a_borrower_gives_back_what_is_asked_for(self):
        """A borrower of 8 that could also run on 4 or 1 was to shrink to 1, which was more than the cap allowed."""
        core = Core(LENDING, north_h800=(8, 8, 8))
        big = core.submit(size(H, 8), size(H, 4), size(H, 1), queue="poor", elastic=True)
        own = core.submit(size(H, 4), queue="own")
        assert (own.state, len(core.held(big))) == ("running", 4)

    def test_free_nodes_spare_it(self):
        """Of three nodes that are asked for two are free; one is given back."""
        core = Core(LENDING, north_h800=(8, 8, 8))
        big = core.submit(size(H, 6), size(H, 5), size(H, 2), queue="poor", elastic=True)
        own = core.submit(size(H, 3), queue="own")
        assert (own.state, len(core.held(big))) == ("running", 5)

    def test_it_stays_together(self):
        """Six nodes lay in two racks; the four that were kept had to share one, and did not."""
        core = Core(LENDING, north_h800=(8, 4, 8))
        core.submit(size(H, 2), queue="own")
        big = core.submit(size(H, 6), size(H, 3, "rack"), queue="poor", elastic=True)
        own = core.submit(size(H, 2), queue="own")
        racks = {(int(name.rsplit("-", 1)[1]) - 1) // 4 for name in core.held(big)}
        assert big.state != "running" or (own.state, len(racks)) in (("running", 1), ("waiting", 2))

    @given(ladder=st.sets(st.integers(1, 7), max_size=5), asked=st.integers(1, 4), free=st.integers(0, 2))
    def test_the_least_step_that_suffices_is_taken(self, ladder, asked, free):
        """Whatever sizes it has, it shrinks to the largest that leaves enough, if any does."""
        rules = policy(*LENDING.queues, reclaim=Reclaim(at_most=100.0))
        core = Core(rules, north_h800=(8 + free, 16, 16))
        big = core.submit(*(size(H, n) for n in (8, *ladder)), queue="poor", elastic=True)
        own = core.submit(size(H, asked), queue="own")
        fits = [n for n in (8, *ladder) if 8 - n + free >= asked]
        assert own.state == "running"
        assert len(core.held(big)) == max(fits, default=0)
