"""The files that `argosy diagnose` is pointed at: found in folders, unpacked, and read in blocks.

Knows gzip, bzip2, xz, zstd, tar and zip, by their first bytes and not by their names. It must not know what logs say.
"""

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import select
import stat
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

import zstandard

from argosy.cli.words import counted
from argosy.contracts.errors import BadInputError
from argosy.contracts.plain import plain_text

BLOCK_BYTES, HEAD_BYTES = 1 << 20, 1 << 16
STDIN = "-"
NESTED_MAX = 3
ZIP = b"PK\x03\x04"
# One byte of so many that no text holds makes a file none; a crash, or a log emptied while it is written, leaves holes.
BINARY_SHARE = 10
NO_TEXT = bytes(sorted({*range(32), 127} - set(b"\a\b\t\n\f\r\x1b")))
_HOLE = re.compile(rb"\0{16,}+")
NOTES_MAX = 20
# A program's text, or what it reads, quotes the words of faults without any having happened. Named files are read.
OTHER_SUFFIXES = frozenset(
    {".py", ".ipynb", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".rs", ".go", ".js", ".sh", ".md", ".rst", ".html"}
    | {".css", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".png", ".jpg", ".pdf", ".svg", ".safetensors", ".bin"}
    | {".so", ".parquet", ".npy", ".npz", ".whl", ".o", ".a", ".pyc", ".onnx", ".gguf"}
)
SKIPPED_FOLDERS = frozenset({".git", "__pycache__", ".venv", "node_modules", ".hg", ".svn"})
# What unpacking a stranger's file may raise: libraries tell damage in their own ways.
BROKEN = (
    *(OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, tarfile.TarError, zipfile.BadZipFile),
    *(ValueError, ArithmeticError, LookupError, RuntimeError, struct.error),
)
MEMBER_BYTES_MAX, TAR_HEAD_BYTES_MAX = 1 << 38, 1 << 20
# A pipe or standard input that goes on beyond has no end, and so has what is packed twice.
STREAM_BYTES_MAX, PIPE_WAIT_S = 1 << 36, 10.0
# Times of change beyond are nobody's.
NEWEST_US = 4_102_444_800_000_000


class Readable(Protocol):
    """Whatever gives bytes."""

    def read(self, size: int, /) -> bytes:
        """Read at most so many bytes; none at the end."""


@dataclass(slots=True, kw_only=True)
class Reading:
    """What was read so far, and what couldn't be."""

    files: int = 0
    read_bytes: int = 0
    skipped: int = 0
    newest_us: int | None = None
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Note what a person should know; after NOTES_MAX only that there is more."""
        text = printable(text)
        if len(self.notes) == NOTES_MAX:
            self.notes.append("more like these are not listed")
        elif len(self.notes) < NOTES_MAX:
            self.notes.append(text)


@dataclass(slots=True, kw_only=True)
class Log:
    """One log: its name as a person knows it, its first bytes, and its blocks, which can be read once.

    binary: it holds no text, so that searching it would find words of programs.
    """

    name: str
    head: bytes
    binary: bool
    blocks: Iterator[bytes]

    def whole(self, bytes_max: int) -> bytes | None:
        """Read all blocks, which can be read again after; None for more than bytes_max."""
        kept: list[bytes] = []
        for block in self.blocks:
            kept.append(block)
            if sum(map(len, kept)) > bytes_max:
                self.blocks = chain(kept, self.blocks)
                return None
        self.blocks = iter(kept)
        return b"".join(kept)


def printable(text: str) -> str:
    r"""Give a text of one line that a terminal obeys none of: names of files may hold line ends, colours, any bytes.

    >>> printable("rank_\udcff\n.log")
    'rank_?\\n.log'
    """
    return plain_text(text.encode("utf-8", "replace").decode()).replace("\n", "\\n").replace("\t", "\\t")


def find_files(names: Sequence[str], reading: Reading) -> list[Path]:
    """List the files under files and folders, each once, in the order of their names.

    Raises BadInputError for a name that isn't there, for a device, and where there is nothing to read at all.
    """
    found: dict[Path, None] = {}
    for name in names:
        path = Path(name)
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError) as error:
            if name == STDIN:
                found[path] = None
                continue
            reason = getattr(error, "strerror", None) or error
            raise BadInputError(
                f"{name}: can't be read: {reason}; name files or folders of logs, or - for standard input"
            ) from error
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise BadInputError(
                f"{name}: a device, which may never end; name files or folders of logs, or - for standard input"
            )
        found |= dict.fromkeys(_walked(path, reading)) if stat.S_ISDIR(mode) else {path: None}
    if not found:
        skipped = f" ({counted(reading.skipped, 'file')} of other kinds)" if reading.skipped else ""
        raise BadInputError(f"{', '.join(names)}: no logs there{skipped}; name a file to have it read whatever it is")
    return list(found)


def _walked(top: Path, reading: Reading) -> Iterator[Path]:
    seen: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(
        top, onerror=lambda error: reading.note(f"{error.filename}: {error.strerror}"), followlinks=True
    ):
        about = _about(folder, reading)
        # Links may lead in a circle.
        if about is None or (about.st_dev, about.st_ino) in seen:
            folders.clear()
            continue
        seen.add((about.st_dev, about.st_ino))
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in sorted(files):
            path = Path(folder, name)
            about = _about(path, reading)
            if about is not None and stat.S_ISREG(about.st_mode) and _is_wanted(name, reading):
                yield path


def _about(path: Path | str, reading: Reading) -> os.stat_result | None:
    """Look at what a folder names; None where that is gone or forbidden, which is noted unless it is a dead link."""
    try:
        return os.stat(path)
    except OSError as error:
        if not os.path.islink(path):
            reading.note(f"{path}: {error.strerror}")
        return None


def read_logs(paths: Iterable[Path], reading: Reading) -> Iterator[Log]:
    """Read files one after the other, unpacked; what can't be read is noted, and the rest goes on."""
    for path in paths:
        reading.files += 1
        name = "standard input" if str(path) == STDIN else printable(str(path))
        try:
            with _opened(path) as raw:
                _date(raw, reading)
                if raw.peek(4).startswith(ZIP) and raw.seekable():
                    yield from _zipped(name, raw, reading)
                else:
                    yield from _unpacked(name, raw, reading, 0)
        except BROKEN as error:
            reading.note(f"{name}: {_reason(error)}")


def _opened(path: Path) -> io.BufferedReader:
    if str(path) == STDIN and sys.stdin is None:
        raise OSError("it is closed")
    if str(path) == STDIN:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    return _opened_pipe(path) if path.is_fifo() else path.open("rb")


def _opened_pipe(path: Path) -> io.BufferedReader:
    """Open a pipe that somebody writes to; raises OSError when nobody does within PIPE_WAIT_S."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    stream = os.fdopen(number, "rb")
    if not select.select([number], [], [], PIPE_WAIT_S)[0]:
        stream.close()
        raise OSError(f"a pipe to which nobody wrote for {PIPE_WAIT_S:g} s")
    os.set_blocking(number, True)
    return stream


def _date(raw: io.BufferedReader, reading: Reading) -> None:
    """Keep the newest time of change, for logs that tell no date."""
    about = os.fstat(raw.fileno())
    changed_us = about.st_mtime_ns // 1_000
    if stat.S_ISREG(about.st_mode) and 0 < changed_us < NEWEST_US:
        reading.newest_us = max(reading.newest_us or 0, changed_us)


class _Raw(io.RawIOBase):
    """Gives what something readable gives, to be looked at before it is read.

    error: what ended it before its end; all that came before is given.
    """

    def __init__(self, source: Readable, bytes_max: int | None) -> None:
        # Unpackers lose what they had when a larger read meets the damage.
        self._read: Callable[[int], bytes] = getattr(source, "read1", source.read)
        self.error: BaseException | None = None
        self._left = bytes_max

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        if self._left is not None and self._left <= 0:
            self.error = OSError(f"it has no end within {STREAM_BYTES_MAX / (1 << 30):,.3g} GiB")
            return 0
        try:
            data = self._read(len(view))
        except BROKEN as error:
            self.error = error
            return 0
        view[: len(data)] = data
        self._left = None if self._left is None else self._left - len(data)
        return len(data)


def _unpacked(name: str, source: Readable, reading: Reading, depth: int) -> Iterator[Log]:
    """Find out from the first bytes what a stream is, and give the logs in it."""
    # What can't be wound back is no file, and may have no end; what is packed twice may become a million times as much.
    endless = depth > 1 or (depth == 0 and isinstance(source, io.BufferedReader) and not source.seekable())
    raw = _Raw(source, STREAM_BYTES_MAX if endless else None)
    stream = io.BufferedReader(raw, HEAD_BYTES)
    head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    opener = next((opener for magic, opener in _PACKED.items() if head.startswith(magic)), None)
    if opener is not None and depth < NESTED_MAX:
        yield from _unpacked(name, opener(stream), reading, depth + 1)
    elif head[257:262] == b"ustar" and depth < NESTED_MAX:
        yield from _tarred(name, stream, reading, depth + 1)
    elif head.startswith(ZIP):
        reading.note(f"{name}: a zip archive inside another, or not from a file; unpack it first")
    elif opener is not None:
        reading.note(f"{name}: packed more than {NESTED_MAX} times over; unpack it first")
    elif head:
        yield _log(name, head, stream, reading)
    if raw.error is not None:
        reading.note(f"{name}: {_reason(raw.error)}; what came before was read")


def _log(name: str, head: bytes, stream: Readable, reading: Reading) -> Log:
    """Give a log; one that begins with a hole is judged by what stands behind it, and holds no text if nothing does."""
    wide = next((codec for mark, codec in _WIDE.items() if head.startswith(mark)), "")
    blocks = _blocks(stream, reading, wide)
    if not head.strip(b"\0"):
        first = next((block for block in blocks if block.strip(b"\0")), b"").lstrip(b"\0")
        head, blocks = first[:HEAD_BYTES], chain([first], blocks)
    written = _HOLE.sub(b"", head)
    odd = len(written) - len(written.translate(None, NO_TEXT))
    return Log(
        name=name, head=head, binary=not wide and (not written or odd * BINARY_SHARE > len(written)), blocks=blocks
    )


def _blocks(stream: Readable, reading: Reading, wide: str) -> Iterator[bytes]:
    """Read a stream to its end, or to where it is damaged. wide: the codec of text in two bytes a character."""
    decoder = codecs.getincrementaldecoder(wide)("replace") if wide else None
    while block := stream.read(BLOCK_BYTES):
        reading.read_bytes += len(block)
        yield decoder.decode(block).encode("utf-8", "replace") if decoder else block


class _Heads(io.RawIOBase):
    """Reads a tar archive, whose heads alone must not fill memory: one may say that it has gigabytes.

    end: where the head that is read now ends at the latest; None while a file of the archive is read.
    """

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self.end: int | None = TAR_HEAD_BYTES_MAX
        self._stream, self._at = stream, 0

    def read(self, size: int = -1, /) -> bytes:
        """Read at most so many bytes."""
        if self.end is not None and self._at > self.end + tarfile.RECORDSIZE:
            raise tarfile.ReadError(f"the head of a file in it has over {TAR_HEAD_BYTES_MAX >> 20} MiB")
        data = self._stream.read(size)
        self._at += len(data)
        return data


def _tarred(name: str, stream: BinaryIO, reading: Reading, depth: int) -> Iterator[Log]:
    heads = _Heads(stream)
    with tarfile.open(fileobj=heads, mode="r|") as archive:
        while True:
            heads.end = archive.offset + TAR_HEAD_BYTES_MAX
            member = archive.next()
            heads.end = None
            # It keeps all that it has seen, for whoever goes back; a few megabytes may hold millions.
            archive.members.clear()  # type: ignore[attr-defined]  # not in typeshed
            if member is None:
                return
            if member.size > MEMBER_BYTES_MAX:  # tarfile would look for its end in a stream that has long ended
                raise tarfile.ReadError(f"{member.name} says that it has {member.size:,} bytes, which can't be")
            inner = archive.extractfile(member) if member.isfile() and _is_wanted(member.name, reading) else None
            if inner is not None:
                yield from _unpacked(printable(f"{name}/{member.name}"), inner, reading, depth)


def _zipped(name: str, stream: io.BufferedReader, reading: Reading) -> Iterator[Log]:
    with zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            if member.flag_bits & 1:
                reading.note(f"{name}/{member.filename}: needs a password; unpack it first")
            elif not member.is_dir() and _is_wanted(member.filename, reading):
                with archive.open(member) as inner:
                    yield from _unpacked(printable(f"{name}/{member.filename}"), inner, reading, 1)


def _is_wanted(name: str, reading: Reading) -> bool:
    """Tell whether a file that nobody named may be a log; counts those that aren't."""
    wanted = PurePosixPath(name).suffix.lower() not in OTHER_SUFFIXES
    reading.skipped += not wanted
    return wanted


def _unzstd(stream: BinaryIO) -> Readable:
    return zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)


def _reason(error: BaseException) -> str:
    return f"can't be read further: {getattr(error, 'strerror', None) or error}"


# By the bytes that such files begin with.
_PACKED: dict[bytes, Callable[[BinaryIO], Readable]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _unzstd,
}
_WIDE = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
