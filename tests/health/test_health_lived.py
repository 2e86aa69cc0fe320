"""Words that make a fault harmless, and words of an end that don't let them."""

import pytest

from argosy.health.denials import counts_none
from argosy.health.lived import asserted, lived_through

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
FULL = "OSError: [Errno 28] No space left on device: '/scratch/a'"
TRACE = ("Traceback (most recent call last):", '  File "train.py", line 3, in step')
ENDED = "ERROR: failed (exitcode: 1) local_rank: 0 (pid: 1) of binary: python"


def named(incidents) -> list[tuple[str, str]]:
    """Give classes and confidences."""
    return [(each.fault_class, each.confidence) for each in incidents]


class TestWords:
    @pytest.mark.parametrize(
        "text",
        [
            f"caught {OOM}, retrying with half the batch",
            f"previous run failed: {OOM}",
            f"OOM caught: {OOM}",
            f"skipping sample: {FULL}",
            f"(this is expected) {FULL}",
            f"{FULL}; falling back to /scratch2",
            f"attempt 2/5: {FULL}",
            f"Recovering from {OOM}",
            f"WARN transient {FULL}, second try ok",
            f"resolved: {FULL}",
            f"{OOM} -- took half the batch and went on",
            "NCCL error: unhandled system error, communicator recovered",
        ],
    )
    def test_what_was_lived_through_is_no_incident(self, judged, text: str):
        """A fault that its own line calls past is none where nothing ended."""
        assert lived_through(text)
        assert judged(text) == ()

    @pytest.mark.parametrize(
        "text",
        [
            f"caught exception: {OOM}, aborting",
            f"{FULL}, giving up after 5 retries",
            f"attempt 5/5: {FULL}",
            f"could not be handled: {FULL}",
            f"{FULL}, retried 7 times, out of retries",
            f"{FULL}; error ignored, exited with code 1",
            f"Caught OutOfMemoryError in replica 1 on device 1. {OOM}",
            f"resolved node-1 to 10.0.0.1, {FULL}",
        ],
    )
    def test_words_of_an_end_count_for_more(self, judged, text: str):
        """Whoever catches an error to end with it did not live through it."""
        assert not lived_through(text)
        assert judged(text)[0].confidence == "high"

    def test_counts_of_none_are_none(self):
        """The number of a rank before a word of trouble is no count."""
        assert counts_none("health check: no ECC errors")
        assert counts_none("errors: 0, retries: 3")
        assert not counts_none("rank 0 errors out")
        assert not counts_none("error: 0 active drivers")

    def test_a_list_of_possible_reasons_is_no_evidence(self, judged):
        """What may be the reason was not seen."""
        line = "task 37: heartbeat timeout. This indicates that the task has failed, got preempted, or crashed."
        assert asserted(line).endswith("timeout. ")
        assert all(each.fault_class != "scheduler.preempted" for each in judged(line))


class TestContext:
    def test_it_is_told_where_nothing_else_explains_the_end(self, judged):
        """A job that ended after all may have ended for what was called harmless; that is less sure."""
        assert named(judged(f"caught {FULL}, falling back", ENDED)) == [("storage.disk_full", "medium")]

    def test_it_does_not_hide_the_cause(self, judged):
        """Another rank's error is the cause, however weakly it speaks."""
        lines = (f"[rank0]: caught {FULL}, falling back", "[rank2]: KeyError: 'labels'", ENDED)
        assert named(judged(*lines)) == [("user.exception", "low")]

    @pytest.mark.parametrize(
        "lines",
        [
            (*TRACE, OOM, "OOM caught, retrying with half the batch"),
            ("step failed, retrying with half the batch", *TRACE, OOM),
            (
                "Exception ignored in: <function Loader.__del__>",
                *TRACE,
                "AssertionError: can only test a child process",
            ),
        ],
    )
    def test_a_traceback_is_called_past_by_the_lines_around_it(self, judged, lines: tuple[str, ...]):
        """Loggers print the word before the error or after it."""
        assert judged(*lines) == ()

    def test_of_many_alike_the_newest_counts(self, judged):
        """Nine were lived through, and the tenth ended the job."""
        lines = []
        for turn in range(10):
            lines += [f"[rank0]: step {5 * turn + place} loss 2.0" for place in range(5)] + [f"[rank0]: {OOM}"]
        assert named(judged(*lines)) == [("gpu.oom", "high")]
