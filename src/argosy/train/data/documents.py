"""Documents out of text, JSON Lines and Parquet files, gzipped or not, piece by piece.

A text file is one document, a line of JSON Lines or a row of Parquet another. Memory stays bounded by the longest line
or row: long text files come in pieces that end with a line. Knows nothing of tokens.
"""

import codecs
import gzip
import itertools
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from argosy.contracts.errors import BadInputError
from argosy.train.data.fields import missing_field, wrong_type
from argosy.train.data.parquet import parquet_texts

PIECE_BYTES = 1 << 20
LINE_BYTES_MAX = 1 << 28
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_PACKED = (".zst", ".xz", ".bz2", ".zip", ".tar", ".tgz", ".7z", ".arrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Part of one document. ends: the document ends with it. share: how much of the file is read, 0 to 1."""

    text: str
    ends: bool
    share: float


def read_pieces(path: Path, text_field: str) -> Iterator[Piece]:
    """Read one file's documents in order; `text_field` is the key or column that holds the text.

    Raises BadInputError naming the file and the line, row or byte that is wrong.
    """
    kind = path.name.lower().removesuffix(".gz")
    if kind.endswith(_PACKED):
        raise BadInputError(
            f"{path}: cannot read {Path(kind).suffix}; allowed: text, .jsonl, .parquet, and .gz of the first two"
        )
    try:
        if kind.endswith(".parquet"):
            yield from (Piece(text=text, ends=True, share=share) for text, share in parquet_texts(path, text_field))
            return
        with path.open("rb") as raw:
            stream: IO[bytes] = gzip.GzipFile(fileobj=raw) if path.name.lower().endswith(".gz") else raw  # type: ignore[assignment]
            shares = _Shares(raw, path.stat().st_size)
            blocks = (
                _json_pieces(path, stream, text_field) if kind.endswith(_JSON_LINES) else _text_pieces(path, stream)
            )
            for text, ends in blocks:
                yield Piece(text=text, ends=ends, share=shares.now())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInputError(f"{path}: not a whole gzip file: {error}") from error
    except OSError as error:
        raise BadInputError(f"{path}: cannot read: {error.strerror or error}") from error


class _Shares:
    """How far a file is read, by its own position, so that a gzipped one needs no unpacked size."""

    def __init__(self, raw: IO[bytes], size_bytes: int) -> None:
        self._raw, self._size_bytes = raw, max(size_bytes, 1)

    def now(self) -> float:
        return min(self._raw.tell() / self._size_bytes, 1.0)


def _text_pieces(path: Path, stream: IO[bytes]) -> Iterator[tuple[str, bool]]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset, block = 0, _block(stream)
    while block:
        following = _block(stream)
        try:
            text = decoder.decode(block, final=not following)
        except UnicodeDecodeError as error:
            raise _not_utf8(path, offset - len(decoder.getstate()[0]), error) from error
        yield (text.removeprefix("\ufeff") if offset == 0 else text), not following
        offset, block = offset + len(block), following


def _block(stream: IO[bytes]) -> bytes:
    """Read about PIECE_BYTES, up to the end of a line where one comes soon enough."""
    return stream.read(PIECE_BYTES) + stream.readline(PIECE_BYTES)


def _json_pieces(path: Path, stream: IO[bytes], text_field: str) -> Iterator[tuple[str, bool]]:
    offset = 0
    for number, line in zip(itertools.count(1), _lines(stream), strict=False):
        if len(line) > LINE_BYTES_MAX:
            raise BadInputError(f"{path}:{number}: longer than {LINE_BYTES_MAX:,} bytes; is it one JSON object a line?")
        try:
            text = line.decode().removeprefix("\ufeff" if number == 1 else "")
        except UnicodeDecodeError as error:
            raise _not_utf8(path, offset, error) from error
        if text.strip():
            yield _json_text(f"{path}:{number}", text, text_field), True
        offset += len(line)


def _lines(stream: IO[bytes]) -> Iterable[bytes]:
    return iter(lambda: stream.readline(LINE_BYTES_MAX + 1), b"")


def _json_text(where: str, line: str, text_field: str) -> str:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise BadInputError(f"{where}:{error.colno}: not JSON: {error.msg}; one object a line is expected") from error
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{where}: not JSON that can be read: {error}") from error
    if not isinstance(value, dict):
        raise BadInputError(
            f"{where}: {type(value).__name__} where an object is expected; write one JSON object a line"
        )
    if text_field not in value:
        raise missing_field(where, text_field, list(value))
    text = value[text_field]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise wrong_type(where, text_field, type(text).__name__)
    return _whole(where, text_field, text)


def _whole(where: str, text_field: str, text: str) -> str:
    """Refuse half a surrogate pair, which JSON can spell and UTF-8 can't."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInputError(
            f'{where}: "{text_field}" holds half a surrogate pair at character {error.start}'
        ) from error
    return text


def _not_utf8(path: Path, offset: int, error: UnicodeDecodeError) -> BadInputError:
    """offset: of the bytes that were decoded, in the (unpacked) file."""
    byte = error.object[error.start]
    return BadInputError(
        f"{path}: not UTF-8: byte 0x{byte:02x} at offset {offset + error.start:,}; "
        f"convert it first, for example: iconv -f LATIN1 -t UTF-8 {path.name}"
    )
