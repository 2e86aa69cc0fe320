"""Checkpoints that logs tell of: only those that were written."""

import pytest

from argosy.health.steps import checkpoint_of


class TestCheckpoint:
    def test_the_last_one_counts(self):
        """Of several the last of a block is named."""
        assert (
            checkpoint_of(b"saved checkpoint at step 400\nloss 2.1\nsaved checkpoint at step 500\nloss 2.0\n") == "500"
        )

    @pytest.mark.parametrize(
        "text",
        [
            "checkpoint of step 500 could not be written",
            "checkpoint of step 500 will be saved in the background",
            "checkpoint of step 500 was never written",
            "checkpoint of step 500 was not saved",
            "failed: checkpoint of step 500 saved in part",
            "loading checkpoint of step 500",
            "restored from the checkpoint that was written at step 500",
            "deleted snapshot step_500, which was saved before",
            "step 500 completed, next checkpoint at step 1000",
            "checkpoint every 500 steps: none is written yet",
        ],
    )
    def test_what_was_not_written_is_none(self, text: str):
        """A checkpoint that failed, is to come or is read is none to go on from."""
        assert checkpoint_of(b"saved checkpoint at step 300\n" + text.encode()) == "300"

    @pytest.mark.parametrize(
        "text",
        [
            "[Torch] Checkpoint global_step500 is ready now!",
            "Finished saving checkpoint: ckpt/iter_0000500 in 3.2s",
            "async checkpoint for step 500 finalized",
            "[snapshot] step 500 persisted to /snap",
            "Trainer saved snapshot step_500.pt",
            "Saving model checkpoint to out/checkpoint-500",
        ],
    )
    def test_it_is_told_in_many_words(self, text: str):
        """Frameworks call it a checkpoint or a snapshot, and say in their own words that it is whole."""
        assert int(checkpoint_of(text.encode())) == 500
