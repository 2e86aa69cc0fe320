"""How a generation ended, judged from what its nodes hold."""

import pytest

from argosy.contracts.job import HangSpec
from argosy.contracts.talk import Held, HeldRank
from argosy.engine.verdict import judge, judge_silence, outcome_of


def held(*ranks, state="ended", **fields):
    """Make what a node holds: ranks as (code, blame, text)."""
    made = tuple(
        HeldRank(rank=number, code=code, blame=blame, text=text, ended_us=100 - number)
        for number, (code, blame, text) in enumerate(ranks)
    )
    return Held(attempt="job-1.1", generation=0, state=state, ranks=made, **fields)


GOOD, ALIVE = (0, "", ""), (None, "", "")


class TestDone:
    def test_all_nodes_must_have_ended_well(self):
        """An attempt is done when every node says that all its ranks left with 0."""
        assert judge({"a": held(GOOD), "b": held(GOOD)}, 2).outcome == "done"
        assert judge({"a": held(GOOD)}, 2) is None
        assert judge({"a": held(GOOD), "b": held(ALIVE, state="running")}, 2) is None

    def test_the_same_end_has_the_same_evidence(self):
        """What is seen twice is named alike, so that it acts once."""
        nodes = {"a": held((3, "", "x"))}
        assert judge(nodes, 1).evidence == judge(dict(nodes), 1).evidence == "job-1.1:0 a rank 0 code 3"


class TestCauses:
    def test_an_explanation_beats_an_earlier_symptom(self):
        """A rank that lost its peer is not at fault, though it ended first."""
        symptom = (1, "infrastructure", "Connection closed by peer [10.0.0.2]:4711")
        verdict = judge({"a": held(GOOD, symptom), "b": held((4, "user", "no text in corpus.txt"))}, 2)
        assert (verdict.node, verdict.outcome) == ("b", "user")
        assert verdict.text == "rank 0 on b: no text in corpus.txt"

    def test_a_death_beats_a_silent_code(self):
        """A rank that a signal killed explains the code that another left with."""
        verdict = judge({"a": held((1, "", "")), "b": held((-9, "", ""))}, 2)
        assert (verdict.node, verdict.outcome) == ("b", "infrastructure")
        assert "when memory is short" in verdict.text

    def test_a_symptom_is_not_certain_while_others_live(self):
        """While ranks live that may yet explain themselves, a symptom is no more than that."""
        symptom = (1, "", "gloo: Connection reset by peer")
        assert not judge({"a": held(symptom), "b": held(ALIVE, state="running")}, 2).certain
        assert judge({"a": held(symptom), "b": held(GOOD)}, 2).certain

    def test_a_node_that_could_not_start_is_told(self):
        """Why a node could not start its ranks is the cause, before any rank ran."""
        verdict = judge({"a": held(blame="infrastructure", text="no space left")}, 1)
        assert (verdict.outcome, verdict.text, verdict.rank) == ("infrastructure", "a: no space left", -1)


class TestOutcomes:
    @pytest.mark.parametrize(
        ("code", "blame", "outcome"),
        [
            (1, "", "user"),
            (-9, "", "infrastructure"),
            (137, "", "infrastructure"),
            (-11, "", "user"),
            (139, "", "user"),
            (128, "", "user"),
            (255, "", "user"),
            (1, "argosy", "infrastructure"),
            (-9, "user", "user"),
        ],
    )
    def test_exits_and_words(self, code, blame, outcome):
        """A rank's word counts first, then how it ended; a shell's 128 and more stands for a signal."""
        assert outcome_of(code, blame) == outcome


class TestSilence:
    def test_one_node_that_writes_is_enough(self):
        """Only rank 0 of many frameworks prints: a job hangs when all its nodes are silent."""
        nodes = {"a": held(ALIVE, state="running", quiet_s=900.0), "b": held(ALIVE, state="running", quiet_s=5.0)}
        assert judge_silence(nodes, 2, HangSpec(no_output_for_s=10)) is None
        assert judge_silence(nodes, 2, HangSpec(no_output_for_s=5)).outcome == "infrastructure"

    def test_steps_count_from_the_first_mark(self):
        """Loading may take as long as it wants; only after the first step others must follow."""
        hang = HangSpec(step_pattern="step", no_step_for_s=10)
        assert judge_silence({"a": held(ALIVE, state="running", unmarked_s=None)}, 1, hang) is None
        found = judge_silence({"a": held(ALIVE, state="running", unmarked_s=20.0)}, 1, hang)
        assert found.text == "no line matched hang.step_pattern for 20 s; 10 s are allowed"

    def test_a_job_that_starts_does_not_hang(self):
        """Nodes that still make ready, or were not heard yet, are not silent."""
        hang = HangSpec(no_output_for_s=1)
        assert judge_silence({"a": held(ALIVE, state="starting", quiet_s=99.0)}, 1, hang) is None
        assert judge_silence({"a": held(ALIVE, state="running", quiet_s=99.0)}, 2, hang) is None
