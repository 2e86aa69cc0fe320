"""The text of a job, made ready: found first, turned into tokens later, kept in a cache that all jobs share.

Adds to `train.data` where the cache is and whose file an error is about.
"""

from typing import Protocol

from argosy.cli.inputs import Inputs
from argosy.cli.jobs import told_of
from argosy.train.data.cache import cache_folder
from argosy.train.data.prepare import TokenSetInfo, prepare
from argosy.train.data.sources import find_files


class DataListener(Protocol):
    """Whoever shows how the data comes along."""

    def preparing(self, what: str, share: float) -> None:
        """Show how far the data is: what is made, and the share done, 0 to 1."""

    def prepared(self, info: TokenSetInfo) -> None:
        """Show the data."""


def check_files(inputs: Inputs) -> None:
    """See that there are files to train on, before anything else is done. Raises BadInputError."""
    with told_of(inputs.job_source, "data."):
        find_files(inputs.job.data.files)


def prepare_data(inputs: Inputs, vocab_size: int, listener: DataListener) -> TokenSetInfo:
    """Build the token set, or find it in the cache."""
    with told_of(inputs.job_source, "data."):
        info = prepare(
            inputs.job.data,
            sequence_length=inputs.job.train.sequence_length,
            vocab_size=vocab_size,
            cache=cache_folder() / "tokens",
            progress=listener.preparing,
        )
    listener.prepared(info)
    return info
