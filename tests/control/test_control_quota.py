"""Guarantees, borrowing and lending in normalised chips, and what parents keep for their children."""

from argosy.contracts.policy import EVERY_KIND, Policy, Queue, Round
from argosy.control.quota import UNLIMITED, QuotaTree
from support.cores import Core, policy, queue, size

H, A = "north/h800", "south/a910"


def tree(*queues):
    """Make a quota tree of two kinds, the second worth half of the first."""
    return QuotaTree(Policy(queues=queues, worth={"b": 0.5}), ("a", "b"))


class TestNormalisedGuarantee:
    def test_it_is_reclaimed(self):
        """A queue that owned normalised chips only never got them back from a borrower."""
        core = Core(policy(queue("own", guarantee={"normalised": 32}), queue("poor")), north_h800=(4, 4, 4))
        core.submit(size(H, 4), queue="poor")
        assert core.submit(size(H, 4), queue="own").state == "running"

    def test_what_runs_within_it_is_nobody_s_to_take(self):
        """A job within its queue's normalised guarantee was stopped for one that owned chips by kind."""
        rules = policy(queue("own", guarantee={"normalised": 16}), queue("other", guarantee={"h800": 32}))
        core = Core(rules, north_h800=(4, 4, 4))
        own = core.submit(size(H, 2), queue="own")
        other = core.submit(size(H, 3), queue="other")
        assert (own.state, other.state) == ("running", "waiting")

    def test_what_runs_beyond_it_is_borrowed(self):
        """Two of its four nodes are more than it owns, and are taken back."""
        rules = policy(queue("own", guarantee={"normalised": 16}), queue("other", guarantee={"h800": 16}))
        core = Core(rules, north_h800=(4, 4, 4))
        jobs = [core.submit(size(H, 1), queue="own") for _ in range(4)]
        other = core.submit(size(H, 2), queue="other")
        assert ([job.state for job in jobs].count("running"), other.state) == (2, "running")

    def test_it_counts_each_kind_by_its_worth(self):
        """16 normalised chips entitle to 16 of worth 1 or 32 of worth a half, of kinds that are not named."""
        quota = tree(Queue(name="q", guarantee={"normalised": 16}))
        asked = ({0: 16}, {0: 17}, {1: 32}, {1: 33}, {0: 8, 1: 16})
        assert [quota.depth(0, quota.amounts(chips)) for chips in asked] == [0, 1, 0, 1, 0]

    def test_a_kind_that_is_named_is_bounded_by_both(self):
        """With 8 of kind a among 16 normalised, no more than 8 of a are owned."""
        quota = tree(Queue(name="q", guarantee={"a": 8, "normalised": 16}))
        asked = ({0: 8}, {0: 9}, {1: 32}, {0: 8, 1: 17})
        assert [quota.depth(0, quota.amounts(chips)) for chips in asked] == [0, 1, 0, 1]

    def test_it_is_dealt_in_turns(self):
        """A queue that takes turns deals what it owns in normalised chips, and leaves the rest to who waits for it."""
        turns = queue("turns", guarantee={"normalised": 16}, order="fair", round=Round())
        core = Core(policy(turns, queue("poor")), north_h800=(4, 4, 4))
        jobs = [core.submit(size(H, 1), queue="turns", run=False) for _ in range(4)]
        others = [core.submit(size(H, 1), queue="poor", run=False) for _ in range(2)]
        core.run()
        assert [sum(job.state == "running" for job in some) for some in (jobs, others)] == [2, 2]


class TestNormalisedLimits:
    def test_what_is_not_lent_is_kept(self):
        """A queue that lends none of its normalised chips finds them free."""
        own = queue("own", guarantee={"normalised": 16}, lend={"normalised": 0})
        core = Core(policy(own, queue("poor")), north_h800=(4, 4, 4))
        poor = [core.submit(size(H, 1), queue="poor") for _ in range(4)]
        assert [job.state for job in poor].count("running") == 2
        assert core.why(poor[3]).code == "NO_QUOTA"
        assert core.submit(size(H, 2), queue="own").state == "running"

    def test_no_borrowing_means_none_in_normalised_chips(self):
        """`borrow: no` beside a normalised guarantee made every job one that never fits."""
        quota = tree(Queue(name="q", guarantee={"normalised": 16}, borrow={EVERY_KIND: 0}, lend={EVERY_KIND: 0}))
        row = quota.rows[0]
        assert (row.most, row.protected) == ([UNLIMITED, UNLIMITED, 16_000], [0, 0, 16_000])

    def test_without_a_normalised_guarantee_every_kind_is_limited(self):
        """What is written for every kind holds for each, not for their sum."""
        row = tree(Queue(name="q", guarantee={"a": 8}, borrow={EVERY_KIND: 4})).rows[0]
        assert row.most == [12, 4, UNLIMITED]


class TestParents:
    def test_a_parent_s_lending_limit_counts_what_its_children_own(self):
        """A department that lends nothing, and states no guarantee of its own, kept nothing."""
        quota = tree(Queue(name="p", lend={EVERY_KIND: 0}), Queue(name="c", parent="p", guarantee={"a": 40}))
        assert (quota.rows[0].protected[0], quota.top_held[0]) == (40, 40)

    def test_a_parent_of_both_sorts_has_room_for_all(self):
        """One child owns by kind, one in normalised chips: the parent owns the worth of both."""
        children = (
            Queue(name="a", parent="p", guarantee={"a": 8}),
            Queue(name="b", parent="p", guarantee={"normalised": 4}),
        )
        row = tree(Queue(name="p"), *children).rows[0]
        assert (row.own, row.entitled) == ([8, 0, 12_000], [UNLIMITED, UNLIMITED, 12_000])
