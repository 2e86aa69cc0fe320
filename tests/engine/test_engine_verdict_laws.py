"""What holds of every judgement, whatever nodes hold."""

from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.job import HangSpec
from argosy.contracts.talk import ENDED, RUNNING, STARTING, STOPPED, Held, HeldRank
from argosy.engine.verdict import DONE, judge, judge_silence

TEXTS = st.sampled_from(["", "no text in corpus.txt", "Connection closed by peer", "CUDA error"])
BLAMES = st.sampled_from(["", "user", "infrastructure", "argosy"])
CODES = st.one_of(st.none(), st.sampled_from([0, 1, 3, 137, 143, -6, -9, -15]))
RANKS = st.builds(HeldRank, rank=st.integers(0, 7), code=CODES, blame=BLAMES, text=TEXTS, ended_us=st.integers(0, 9))
HELD = st.builds(
    Held,
    attempt=st.just("job-1.1"),
    generation=st.just(0),
    state=st.sampled_from((STARTING, RUNNING, ENDED, STOPPED)),
    ranks=st.lists(RANKS, max_size=3).map(tuple),
    blame=st.sampled_from(["", "infrastructure"]),
    quiet_s=st.floats(0, 100),
    unmarked_s=st.one_of(st.none(), st.floats(0, 100)),
)
NODES = st.dictionaries(st.sampled_from("abcd"), HELD, max_size=4)


class TestLaws:
    @given(NODES, st.integers(1, 4))
    def test_done_means_done(self, nodes, count):
        """An attempt is done only when every node has ended and no rank left with anything but 0."""
        verdict = judge(nodes, count)
        if verdict is not None and verdict.outcome == DONE:
            assert len(nodes) >= count
            assert all(one.state == ENDED and not one.blame for one in nodes.values())
            assert not any(rank.code for one in nodes.values() for rank in one.ranks)

    @given(NODES, st.integers(1, 4))
    def test_every_failure_is_judged(self, nodes, count):
        """Where a rank left badly, or a node says why it could not, there is a verdict that isn't done."""
        failed = any(one.blame or any(rank.code for rank in one.ranks) for one in nodes.values())
        verdict = judge(nodes, count)
        assert failed == (verdict is not None and verdict.outcome != DONE)

    @given(NODES, st.integers(1, 4), st.randoms(use_true_random=False))
    def test_the_order_of_nodes_does_not_matter(self, nodes, count, chance):
        """The same nodes in another order are judged alike."""
        names = list(nodes)
        chance.shuffle(names)
        assert judge({name: nodes[name] for name in names}, count) == judge(nodes, count)

    @given(NODES, st.integers(1, 4))
    def test_no_limits_no_hang(self, nodes, count):
        """A job that names no limits never hangs."""
        assert judge_silence(nodes, count, HangSpec()) is None
