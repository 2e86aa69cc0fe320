"""The parts the core is made of: domains, quotas, fading use, chance, fences, rungs, transitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.fencing import ATTEMPTS_MAX, Fence, Stamp
from argosy.contracts.policy import Policy, Queue
from argosy.control.chance import chance
from argosy.control.decay import average, faded, settled
from argosy.control.domains import RACK, SITE, SPINE, PoolTree, add, add_all, own, pick, remove, remove_all
from argosy.control.quota import QuotaTree
from argosy.control.transitions import JOB_MOVES, BrokenStateError, check_job

HOUR_US = 3_600_000_000


def tree(free, rack=4, spine=8):
    """Build a pool whose node i is free where free[i]."""
    pool = PoolTree("pool")
    for number, is_free in enumerate(free):
        leaf = pool.leaf(number // spine, number // rack)
        own(leaf, 1)
        if is_free:
            add(leaf, number)
    return pool


class TestDomains:
    @given(
        free=st.lists(st.booleans(), min_size=1, max_size=40), count=st.integers(1, 12), level=st.integers(RACK, SITE)
    )
    def test_what_is_found_has_room_and_lies_together(self, free, count, level):
        """A domain is found exactly when one has room; the nodes picked are free, distinct and within it."""
        pool = tree(free)
        domain = pool.find(count, level)
        assert (domain is None) == (pool.largest(level).free < count)
        if domain is not None:
            chosen = pick(domain, count)
            assert len(set(chosen)) == count
            assert all(free[number] for number in chosen)
            per = {RACK: 4, SPINE: 8}.get(level, 1000)
            assert len({number // per for number in chosen}) == 1

    def test_the_fullest_small_domain_is_taken(self):
        """Of racks with 4, 2 and 3 free nodes, two nodes go where exactly two are free."""
        pool = tree([1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0])
        assert pick(pool.find(2, SITE), 2) == [4, 5]

    def test_counts_follow_nodes(self):
        """Taking a node away lowers the counts of its rack, spine and pool."""
        pool = tree([1] * 8)
        remove(pool.leaf(0, 0), 0)
        assert (pool.leaf(0, 0).free, pool.top.free, pool.widest(RACK)) == (3, 7, 4)

    @given(
        free=st.lists(st.booleans(), min_size=1, max_size=40), moves=st.lists(st.sets(st.integers(0, 39)), max_size=6)
    )
    def test_counts_follow_nodes_that_move_together(self, free, moves):
        """However nodes come and go, each level's fullest domain has as many free nodes as a count finds."""
        pool = tree(free)
        leaf = [pool.leaf(number // 8, number // 4) for number in range(len(free))]
        for move in moves:
            numbers = [number for number in move if number < len(free)]
            gone = [number for number in numbers if free[number]]
            add_all(leaf, [number for number in numbers if not free[number]])
            remove_all(leaf, gone)
            free = [is_free != (number in numbers) for number, is_free in enumerate(free)]
        rack, spine = (max(sum(free[i : i + n]) for i in range(0, len(free), n)) for n in (4, 8))
        assert pool.most_free() == (rack, rack, spine, sum(free), sum(free))
        assert [pool.largest(level).free for level in (RACK, SPINE, SITE)] == [rack, spine, sum(free)]


class TestQuota:
    def make(self):
        """Make a parent that owns 100, with a child of 40 that lends 10 and one of 20."""
        queues = (
            Queue(name="p", guarantee={"h": 100}),
            Queue(name="a", parent="p", guarantee={"h": 40}, lend={"*": 10}),
            Queue(name="b", parent="p", guarantee={"h": 20}, borrow={"*": 50}),
        )
        quota = QuotaTree(Policy(queues=queues), ("h",))
        quota.capacity = [200, 0]
        return quota

    def test_depth_is_where_a_use_is_entitled(self):
        """20 chips are b's own, 60 its parent's, 90 nobody's."""
        quota = self.make()
        assert [quota.depth(2, quota.amounts({0: chips})) for chips in (20, 60, 90)] == [0, 1, 2]

    def test_a_borrowing_limit_holds(self):
        """B may hold 20 + 50 and no chip more."""
        quota = self.make()
        assert quota.excess(2, quota.amounts({0: 70}), 2) is None
        found = quota.excess(2, quota.amounts({0: 71}), 2)
        assert (found.queue, found.allowed, found.asked) == ("b", 70, 71)

    def test_what_is_not_lent_is_claimed(self):
        """A keeps 30 of its 40 from others though it holds nothing."""
        quota = self.make()
        assert (quota.rows[1].claim[0], quota.rows[0].held[0], quota.top_held[0]) == (30, 30, 30)

    @given(uses=st.lists(st.tuples(st.integers(1, 2), st.integers(1, 60)), max_size=12))
    def test_uses_that_end_leave_nothing(self, uses):
        """Whatever begins and ends, the tree is as it was."""
        quota, fresh = self.make(), self.make()
        for sign in (1, -1):
            for queue, chips in uses:
                quota.change(queue, quota.amounts({0: chips}), sign)
        assert [(row.held, row.claim) for row in quota.rows] == [(row.held, row.claim) for row in fresh.rows]
        assert (quota.top_held, quota.used) == (fresh.top_held, fresh.used)

    def test_a_parent_owns_what_its_children_own(self):
        """A parent that states nothing owns the sum."""
        queues = (Queue(name="p"), Queue(name="a", parent="p", guarantee={"h": 5}))
        assert QuotaTree(Policy(queues=queues), ("h",)).rows[0].own[0] == 5

    def test_normalised_chips_are_limited_too(self):
        """With chips worth a half, a limit of 10 normalised chips allows 20 of them."""
        queues = (Queue(name="q", guarantee={"normalised": 10}, borrow={"normalised": 0}),)
        quota = QuotaTree(Policy(queues=queues, worth={"h": 0.5}), ("h",))
        assert quota.excess(0, quota.amounts({0: 20}), 1) is None
        assert quota.excess(0, quota.amounts({0: 22}), 1).kind == "normalised"


class TestDecay:
    def test_half_is_left_after_a_half_life(self):
        """Use of nothing new halves in a half-life, to a thousandth."""
        assert faded(10**12, 0, HOUR_US, HOUR_US) == pytest.approx(5 * 10**11, rel=1e-3)

    def test_steady_use_settles_at_its_rate(self):
        """After many half-lives the average is the rate."""
        assert average(faded(0, 1000, 100 * HOUR_US, HOUR_US), HOUR_US) in (999, 1000)

    @given(cut=st.integers(0, 10 * HOUR_US))
    def test_it_matters_little_when_one_looks(self, cut):
        """Looking in between changes the result by less than a thousandth of what use settles at."""
        at_once = faded(0, 1000, 10 * HOUR_US, HOUR_US)
        in_two = faded(faded(0, 1000, cut, HOUR_US), 1000, 10 * HOUR_US - cut, HOUR_US)
        assert abs(at_once - in_two) <= settled(1000, HOUR_US) // 1000


class TestChance:
    def test_it_is_the_same_every_time_and_differs_by_purpose(self):
        """The same question has the same answer, another purpose another one."""
        assert chance(1, 2, "a", 10**9) == chance(1, 2, "a", 10**9) != chance(1, 2, "b", 10**9)


class TestFence:
    def stamp(self, term=1, generation=1, stops=False):
        """Make a stamp for attempt a."""
        return Stamp(term=term, attempt="a", generation=generation, stops=stops)

    def test_old_terms_and_generations_are_refused(self):
        """After term 2 and generation 3 nothing older counts."""
        fence = Fence()
        assert fence.refusal(self.stamp(2, 3)) == ""
        assert "term 1 is over" in fence.refusal(self.stamp(1, 4))
        assert "generation 2 of a is over" in fence.refusal(self.stamp(2, 2))

    def test_a_launch_after_its_stop_is_refused(self):
        """A launch held up on the way does not run what was stopped; the next generation does."""
        fence = Fence()
        assert fence.refusal(self.stamp(stops=True)) == ""
        assert "was stopped" in fence.refusal(self.stamp())
        assert fence.refusal(self.stamp(generation=2)) == ""

    def test_what_was_used_last_is_forgotten_last(self):
        """Of more attempts than are kept, those forgotten are the ones that nobody asked for longest."""
        fence = Fence()
        fence.refusal(self.stamp(stops=True))
        for number in range(ATTEMPTS_MAX):
            fence.refusal(Stamp(term=1, attempt=f"b-{number}", generation=1))
            if number == ATTEMPTS_MAX // 2:
                fence.refusal(self.stamp(stops=True))
        assert "was stopped" in fence.refusal(self.stamp())
        assert "b-0" not in fence.generations

    def test_the_same_command_twice_does_no_harm(self):
        """A doubled command is let through: obeying it again changes nothing."""
        fence = Fence()
        assert [fence.refusal(self.stamp()) for _ in range(2)] == ["", ""]


class TestTransitions:
    def test_illegal_moves_are_named(self):
        """An ended job stays ended, and the error says what was allowed."""
        with pytest.raises(BrokenStateError, match="job-1 can't go from ended to running"):
            check_job("ended", "running", "job-1")

    def test_every_state_but_ended_leads_to_the_end(self):
        """From every state a job can come to its end."""
        reached = {"ended"}
        for _ in JOB_MOVES:
            reached |= {state for state, targets in JOB_MOVES.items() if targets & reached}
        assert reached == set(JOB_MOVES)
