"""A prepared token set on disk and the batches read from it.

Which sequences a step trains on follows from (seed, step) and the global batch size alone, never from the plan: any
rank can read any rows at any step. Knows nothing of text, tokenizers or ranks.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from argosy.contracts import codec
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.train.data.shuffle import permuted

TOKENS_FILE = "tokens.bin"
META_FILE = "meta.json"
TOKENIZER_FILE = "tokenizer.json"
_SAMPLE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMeta:
    """What `meta.json` says of `tokens.bin`.

    dtype: uint16 or uint32, little-endian. vocab_size: highest token number + 1. end_of_text: the token after every
    document. text_bytes: UTF-8 bytes of all documents. tokenizer: as `data.tokenizer` gave it. tokenizer_s: how long
    making it took.
    """

    tokens: int
    dtype: str
    vocab_size: int
    end_of_text: int
    documents: int
    files: int
    text_bytes: int
    tokenizer: str
    tokenizer_s: float
    version: int = codec.VERSION

    @property
    def file_bytes(self) -> int:
        """How long `tokens.bin` must be."""
        return self.tokens * np.dtype(self.dtype).itemsize


def read_meta(folder: Path) -> TokenMeta:
    """Read a token set's description and check that its tokens are all there.

    Raises InfrastructureError when the folder is not a whole token set.
    """
    try:
        meta = codec.decode((folder / META_FILE).read_bytes(), TokenMeta)
        size_bytes = (folder / TOKENS_FILE).stat().st_size
    except (OSError, BadInputError) as error:
        raise InfrastructureError(f"{folder}: not a token set: {error}; prepare the data again") from error
    if meta.dtype not in ("uint16", "uint32"):
        raise InfrastructureError(f"{folder}: not a token set: dtype {meta.dtype}; prepare the data again")
    if size_bytes != meta.file_bytes:
        raise InfrastructureError(
            f"{folder}: {TOKENS_FILE} has {size_bytes:,} bytes, not {meta.file_bytes:,}; prepare it again"
        )
    return meta


def fingerprint(folder: Path) -> str:
    """Name a token set by its content: a hash of what `meta.json` counts and of the first and last tokens.

    Not of all tokens, which may be terabytes; and not of file times, so that a rebuilt set of the same text is the
    same.
    """
    meta = read_meta(folder)
    digest = hashlib.blake2b(digest_size=8)
    digest.update(f"{meta.tokens} {meta.vocab_size} {meta.end_of_text} {meta.documents} {meta.text_bytes}".encode())
    with (folder / TOKENS_FILE).open("rb") as file:
        digest.update(file.read(_SAMPLE_BYTES))
        file.seek(max(0, meta.file_bytes - _SAMPLE_BYTES))
        digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


class TokenSet:
    """Memory-mapped sequences of sequence_length + 1 tokens; each shares its last token with the next one's first.

    Sequence i holds tokens i x sequence_length .. (i + 1) x sequence_length, so every token but the first is predicted
    once.
    """

    def __init__(self, folder: Path | str, *, sequence_length: int) -> None:
        self.meta = read_meta(Path(folder))
        self.sequence_length = sequence_length
        self._count = sequence_count(self.meta.tokens, sequence_length)
        if not self._count:
            raise BadInputError(
                f"{folder}: {self.meta.tokens:,} tokens, too few for one sequence of {sequence_length:,}"
            )
        self._tokens = np.memmap(
            Path(folder) / TOKENS_FILE, dtype=np.dtype(self.meta.dtype).newbyteorder("<"), mode="r"
        )

    def __len__(self) -> int:
        return self._count

    def batch(self, step: int, global_batch_size: int, seed: int) -> NDArray[np.int64]:
        """All sequences of one step (counted from 0): shape [global_batch_size, sequence_length + 1]."""
        return self.rows(step, global_batch_size, seed, 0, global_batch_size)

    def rows(self, step: int, global_batch_size: int, seed: int, start: int, count: int) -> NDArray[np.int64]:
        """Rows start .. start + count - 1 of that step's batch, reading no others.

        Steps take the sequences in shuffled order; when all were used a new epoch begins with a new shuffle, within a
        batch if need be.
        """
        if step < 0 or start < 0 or count < 0 or start + count > global_batch_size:
            raise ValueError(f"rows {start}..{start + count} of step {step}: outside a batch of {global_batch_size}")
        drawn = step * global_batch_size + np.arange(start, start + count, dtype=np.uint64)
        chosen = permuted(drawn % np.uint64(self._count), self._count, seed, drawn // np.uint64(self._count))
        first = chosen.astype(np.int64)[:, None] * self.sequence_length
        taken: NDArray[np.int64] = self._tokens[first + np.arange(self.sequence_length + 1)].astype(np.int64)
        return taken


def sequence_count(tokens: int, sequence_length: int) -> int:
    """How many sequences of sequence_length + 1 tokens, each sharing one with the next, so many tokens give."""
    return max(0, (tokens - 1) // sequence_length)
