"""Which message names the cause when many ranks fail."""

import pytest

from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError, NeverFitsError, UserCodeError
from argosy.contracts.messages import Failed, Finished, Note, RankExited
from argosy.engine.failure import failure_error, first_failure, is_failure

PEER = "RuntimeError: [pair.cc:547] Connection closed by peer [127.0.0.1]:35201"


def failed(rank=0, blame="infrastructure", text="disk /data is full"):
    """Make a rank's last words."""
    return Failed(rank=rank, blame=blame, text=text)


def exited(rank=0, code=1):
    """Make the end of a rank's process."""
    return RankExited(rank=rank, code=code)


class TestFirstFailure:
    def test_nothing_failed(self):
        """Ranks that end with 0 and notes are no failure."""
        assert first_failure([exited(code=0), Note(text="x"), Finished(step=1, memory_gb=0.1)]) is None

    def test_a_cause_beats_lost_peers(self):
        """A full disk told late is chosen over lost connections told first."""
        cause = failed(rank=3)
        messages = [failed(0, text=PEER), exited(0), failed(1, text=PEER), cause, exited(3, 5)]
        assert first_failure(messages) is cause

    def test_a_killed_rank_beats_lost_peers(self):
        """A rank killed by a signal is chosen though its peers spoke first."""
        killed = exited(2, -9)
        assert first_failure([failed(0, text=PEER), failed(1, text=PEER), exited(0), killed]) is killed

    def test_ranks_stopped_afterwards_are_not_the_cause(self):
        """A bug of ours told before the others were stopped stays the cause."""
        bug = failed(1, "argosy", "KeyError: 'head'")
        assert first_failure([bug, exited(1, 1), exited(0, -15), exited(2, -9)]) is bug

    def test_a_killed_rank_before_odd_errors(self):
        """Errors that nobody recognises, told after a rank was killed, are its consequence."""
        killed = exited(0, -9)
        assert first_failure([killed, failed(1, "argosy", "RuntimeError: odd")]) is killed

    def test_an_exit_code_beats_lost_peers(self):
        """A rank that left with a code and no word comes before those that lost it."""
        left = exited(1, 3)
        assert first_failure([failed(0, text=PEER), left, exited(0, 5)]) is left

    def test_only_lost_peers(self):
        """When all that is known are lost peers, the first is told."""
        first = failed(2, text=PEER)
        assert first_failure([first, failed(0, text=PEER)]) is first

    @pytest.mark.parametrize(("message", "expected"), [(failed(), True), (exited(code=0), False), (exited(), True)])
    def test_what_counts_as_failure(self, message, expected):
        """Failed and a code other than 0 count."""
        assert is_failure(message) is expected


class TestFailureError:
    @pytest.mark.parametrize(
        ("blame", "kind"),
        [("user", UserCodeError), ("infrastructure", InfrastructureError), ("argosy", ArgosyError)],
    )
    def test_blame_decides_the_class(self, blame, kind):
        """The error's class, and so the exit code, follows the blame."""
        error = failure_error(Failed(rank=1, node="n-1", blame=blame, text="no luck"))
        assert type(error) is kind
        assert str(error) == "rank 1 on n-1: no luck"

    @pytest.mark.parametrize(
        ("code", "kind"),
        [(2, BadInputError), (3, NeverFitsError), (4, UserCodeError), (5, InfrastructureError), (1, ArgosyError)],
    )
    def test_the_ranks_exit_code_is_kept(self, code, kind):
        """A bad checkpoint once left with 4, for its blame alone was looked at; the rank's own code decides."""
        blame = {5: "infrastructure", 1: "argosy"}.get(code, "user")
        error = failure_error(Failed(rank=0, blame=blame, text="x", exit_code=code))
        assert (type(error), error.exit_code) == (kind, code)

    @pytest.mark.parametrize(
        ("code", "kind", "text"),
        [
            (-9, InfrastructureError, "rank 0 was killed by SIGKILL without a word; the kernel kills"),
            (-11, InfrastructureError, "rank 0 was killed by SIGSEGV without a word"),
            (2, BadInputError, "rank 0 ended with code 2 without a word"),
            (4, UserCodeError, "rank 0 ended with code 4 without a word"),
            (70, ArgosyError, "rank 0 ended with code 70 without a word"),
        ],
    )
    def test_exit_codes_decide_the_class(self, code, kind, text):
        """A rank that left without a word is judged by how it ended."""
        error = failure_error(exited(0, code))
        assert type(error) is kind
        assert str(error).startswith(text)
