"""Build a token set from a data specification, once: files -> documents -> tokens -> a folder in the cache.

The folder's name is a hash of all that its content depends on, so an unchanged corpus is reused and a changed one is
built anew. It appears whole or not at all; two processes that build the same one at once both end with a good one.
Knows nothing of models or ranks.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers

from argosy.contracts import codec
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.job import DataSpec
from argosy.train.data.documents import Piece, read_pieces
from argosy.train.data.folders import beside, put, put_over, writing
from argosy.train.data.sources import find_files
from argosy.train.data.tokenizing import Choice, TextTokenizer, make_tokenizer, read_choice
from argosy.train.data.tokens import (
    META_FILE,
    TOKENIZER_FILE,
    TOKENS_FILE,
    TokenMeta,
    read_meta,
    sequence_count,
)

Progress = Callable[[str, float], None]

TRAINING_TEXT_BYTES = 256 * 10**6
_BATCH_CHARACTERS = 1 << 20
_BATCH_PIECES = 4096
_PROGRESS_SHARE = 0.01
# Raise it when the same files would give other tokens or another layout.
_BUILD = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSetInfo:
    """A token set that is ready for training. folder: what TokenSet opens. reused: it was in the cache already.

    tokenizer_file: the tokenizer.json inside the folder, also for `bytes`.
    """

    folder: Path
    meta: TokenMeta
    sequence_length: int
    sequences: int
    reused: bool

    @property
    def tokenizer_file(self) -> Path:
        """Where the set's tokenizer.json lies."""
        return self.folder / TOKENIZER_FILE


def prepare(
    spec: DataSpec,
    *,
    sequence_length: int,
    vocab_size: int | None,
    cache: Path,
    progress: Progress | None = None,
) -> TokenSetInfo:
    """Build the token set, or find it in `cache`, and check that this model can train on it.

    vocab_size: the model's; None checks nothing. progress: called with what is being done and the share done, 0 to 1.
    Raises BadInputError for what is wrong with the files, InfrastructureError when the cache can't be written.
    """
    files = find_files(spec.files)
    choice = read_choice(spec.tokenizer)
    _check_vocabulary(choice.text, choice.train_size or 0, vocab_size)
    folder = cache / _key(spec, files, choice)
    meta = _ready(folder)
    reused = meta is not None
    if meta is None:
        meta = _build(folder, _Corpus(files, spec.text_field, progress), choice, vocab_size)
    _check_vocabulary(choice.text, meta.vocab_size, vocab_size)
    sequences = sequence_count(meta.tokens, sequence_length)
    if not sequences:
        raise BadInputError(
            f"data.files: {meta.tokens:,} tokens in {meta.documents:,} documents of {meta.files:,} files; one sequence "
            f"needs {sequence_length + 1:,}. Add text, or set train.sequence_length to {meta.tokens - 1:,} or less."
        )
    return TokenSetInfo(folder=folder, meta=meta, sequence_length=sequence_length, sequences=sequences, reused=reused)


def _check_vocabulary(tokenizer: str, tokens: int, vocab_size: int | None) -> None:
    if vocab_size is not None and tokens > vocab_size:
        raise BadInputError(
            f'data.tokenizer: "{tokenizer}" has {tokens:,} tokens, the model\'s vocab_size is {vocab_size:,}. '
            f"Use the model's own tokenizer.json, train:{vocab_size}, or a model with a larger vocab_size."
        )


def _key(spec: DataSpec, files: Iterable[Path], choice: Choice) -> str:
    """Name everything that the tokens depend on; a file stands for its content by size and time of change."""
    inputs = [*files, *([choice.file] if choice.file else [])]
    try:
        stats = [(str(path.absolute()), stat.st_size, stat.st_mtime_ns) for path in inputs if (stat := path.stat())]
    except OSError as error:
        raise BadInputError(f"data.files: cannot read {error.filename}: {error.strerror}") from error
    facts = [_BUILD, tokenizers.__version__, spec.text_field, spec.tokenizer, stats]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:20]


def _ready(folder: Path) -> TokenMeta | None:
    try:
        return read_meta(folder)
    except InfrastructureError:
        return None


class _Corpus:
    """The files in order; every pass over them tells the listener how far it is."""

    def __init__(self, files: tuple[Path, ...], text_field: str, progress: Progress | None) -> None:
        self.files, self._text_field = files, text_field
        self._progress, self._told = progress, ("", 0.0)

    def pieces(self) -> Iterator[Piece]:
        """All documents in order."""
        for number, path in enumerate(self.files):
            for piece in read_pieces(path, self._text_field):
                yield piece
                self._tell("tokens", (number + piece.share) / len(self.files))

    def sample(self) -> Iterator[str]:
        """Text to train a tokenizer on: the beginning of every file, TRAINING_TEXT_BYTES in all at most."""
        allowance = max(1, TRAINING_TEXT_BYTES // len(self.files))
        for number, path in enumerate(self.files):
            taken = 0
            for piece in read_pieces(path, self._text_field):
                yield piece.text[: allowance - taken]
                taken += len(piece.text)
                if taken >= allowance:
                    break
            self._tell("tokenizer", (number + 1) / len(self.files))

    def _tell(self, what: str, share: float) -> None:
        told, before = self._told
        if self._progress and (what != told or share >= min(before + _PROGRESS_SHARE, 1.0)):
            self._progress(what, share)
            self._told = (what, share)


def _build(folder: Path, corpus: _Corpus, choice: Choice, vocab_size: int | None) -> TokenMeta:
    with beside(folder) as partial, writing(folder):
        begin_s = time.monotonic()
        tokenizer = make_tokenizer(choice, corpus.sample)
        tokenizer_s = time.monotonic() - begin_s
        _check_vocabulary(choice.text, tokenizer.vocab_size, vocab_size)
        counts = _write_tokens(partial / TOKENS_FILE, corpus.pieces(), tokenizer)
        if not counts.documents:
            raise BadInputError(f"data.files: no text in {_count(corpus.files)}; every document is empty")
        meta = TokenMeta(
            tokens=counts.tokens,
            dtype=tokenizer.dtype.name,
            vocab_size=tokenizer.vocab_size,
            end_of_text=tokenizer.end_of_text,
            documents=counts.documents,
            files=len(corpus.files),
            text_bytes=counts.text_bytes,
            tokenizer=choice.text,
            tokenizer_s=tokenizer_s,
        )
        (partial / TOKENIZER_FILE).write_text(tokenizer.json, encoding="utf-8")
        (partial / META_FILE).write_bytes(codec.encode(meta))
        # A whole set that another process put there meanwhile is as good as ours; a damaged one makes way.
        if not put(partial, folder) and _ready(folder) is None:
            put_over(partial, folder)
    return meta


def _count(files: tuple[Path, ...]) -> str:
    return str(files[0]) if len(files) == 1 else f"{len(files):,} files from {files[0]} on"


@dataclass(slots=True)
class _Counts:
    tokens: int = 0
    documents: int = 0
    text_bytes: int = 0


def _write_tokens(path: Path, pieces: Iterable[Piece], tokenizer: TextTokenizer) -> _Counts:
    """Write all documents one after the other, each followed by the end of text; empty ones are left out."""
    counts = _Counts()
    begun = False
    end = np.array([tokenizer.end_of_text], dtype=tokenizer.dtype)
    with path.open("wb") as out:
        for batch in _batches(pieces):
            for piece, tokens in zip(batch, tokenizer.encode([piece.text for piece in batch]), strict=True):
                counts.text_bytes += len(piece.text.encode())
                begun = begun or len(tokens) > 0
                closes = begun and piece.ends
                written = np.concatenate([tokens, end]) if closes else tokens
                out.write(written.tobytes())
                counts.tokens += len(written)
                counts.documents += closes
                begun = begun and not piece.ends
    return counts


def _batches(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Group pieces so that the tokenizer has enough to work on in parallel and memory stays bounded."""
    batch: list[Piece] = []
    characters = 0
    for piece in pieces:
        batch.append(piece)
        characters += len(piece.text)
        if characters >= _BATCH_CHARACTERS or len(batch) >= _BATCH_PIECES:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
