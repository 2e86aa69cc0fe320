"""The files that `argosy diagnose` is pointed at."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from argosy.cli import diagnose_files
from argosy.cli.diagnose_files import BLOCK_BYTES, NOTES_MAX, Reading, find_files, read_logs
from argosy.contracts.errors import BadInputError

TEXT = b"one\nCUDA out of memory\n" * 1_000


def tarred(text: bytes) -> bytes:
    """Put a text in a tar archive, with a program beside it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in (("logs/rank_0.log", text), ("train.py", b"CUDA out of memory")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _written(path: Path, data: bytes) -> None:
    """Write to a pipe until nobody reads it."""
    with contextlib.suppress(BrokenPipeError):
        path.write_bytes(data)


def zipped(text: bytes) -> bytes:
    """Put a text in a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/rank_0.log", text)
    return buffer.getvalue()


def read(path: Path) -> tuple[dict[str, bytes], Reading]:
    """Read all logs of a file."""
    reading = Reading()
    logs = {log.name: b"".join(log.blocks) for log in read_logs(find_files([str(path)], reading), reading)}
    return logs, reading


class TestPacked:
    @pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress, bytes])
    def test_each_form_is_read_whatever_its_name(self, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
        """Packed logs are unpacked by their content, several pieces after one another too."""
        (tmp_path / "x.log").write_bytes(pack(TEXT) + pack(b"two\n"))
        logs, reading = read(tmp_path / "x.log")
        assert list(logs.values()) == [TEXT + b"two\n"]
        assert reading.notes == []

    @pytest.mark.parametrize("pack", [tarred, lambda text: gzip.compress(tarred(text)), zipped])
    def test_archives_give_their_logs(self, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
        """Archives are read through, packed ones too, without the programs in them."""
        (tmp_path / "x").write_bytes(pack(TEXT))
        logs, _ = read(tmp_path / "x")
        assert logs == {f"{tmp_path}/x/logs/rank_0.log": TEXT}

    @pytest.mark.parametrize(
        "pack", [gzip.compress, lzma.compress, zstandard.compress, lambda text: gzip.compress(tarred(text))]
    )
    def test_what_is_cut_short_is_read_as_far_as_it_goes(self, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
        """A file that ends early gives what it has, and is noted."""
        data = os.urandom(400_000) + TEXT
        (tmp_path / "x").write_bytes(pack(data)[:300_000])
        logs, reading = read(tmp_path / "x")
        assert all(data.startswith(part[:100_000]) for part in logs.values())
        assert all(str(tmp_path / "x") in note for note in reading.notes)

    def test_a_file_in_an_archive_that_says_an_impossible_size(self, tmp_path: Path) -> None:
        """It is noted, instead of being looked for without end."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            info = tarfile.TarInfo("rank_0.log")
            info.pax_headers = {"size": "9" * 23}
            archive.addfile(info)
        (tmp_path / "x").write_bytes(buffer.getvalue())
        logs, reading = read(tmp_path / "x")
        assert logs == {}
        assert "99,999,999,999,999,999,999,999 bytes, which can't be" in reading.notes[0]

    def test_a_name_of_gigabytes_in_an_archive_is_not_read(self, tmp_path: Path) -> None:
        """A few megabytes packed held a tar whose first name had two gigabytes, and took twice that of memory."""
        first, second = tarfile.TarInfo("rank_0.log"), tarfile.TarInfo("././@LongLink")
        first.size, second.size, second.type = 512, 1 << 24, tarfile.GNUTYPE_LONGNAME
        heads = [info.tobuf(tarfile.GNU_FORMAT) for info in (first, second)]
        (tmp_path / "x").write_bytes(heads[0] + b"x" * 512 + heads[1] + b"a" * second.size)
        logs, reading = read(tmp_path / "x")
        assert list(logs.values()) == [b"x" * 512]
        assert reading.notes == [f"{tmp_path}/x: can't be read further: the head of a file in it has over 1 MiB"]

    @pytest.mark.parametrize("magic", [b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"])
    def test_what_only_looks_packed_is_noted(self, tmp_path: Path, magic: bytes) -> None:
        """A damaged archive is a note, and the next file is read."""
        (tmp_path / "a").write_bytes(magic + b"nonsense" * 100)
        (tmp_path / "b").write_bytes(TEXT)
        logs, reading = read(tmp_path)
        assert logs[f"{tmp_path}/b"] == TEXT
        assert len(reading.notes) == 1

    def test_packing_in_packing_has_an_end(self, tmp_path: Path) -> None:
        """What is packed deeper than anybody packs is not searched, and told."""
        data = TEXT
        for _ in range(6):
            data = gzip.compress(data)
        (tmp_path / "x").write_bytes(data)
        logs, reading = read(tmp_path / "x")
        assert logs == {}
        assert "packed more than 3 times over" in reading.notes[0]

    def test_text_of_two_bytes_a_character_is_read(self, tmp_path: Path) -> None:
        """What some shells redirect to is text as well."""
        (tmp_path / "x").write_bytes("CUDA out of memory\n".encode("utf-16"))
        assert list(read(tmp_path / "x")[0].values()) == [b"CUDA out of memory\n"]

    def test_blocks_are_bounded(self, tmp_path: Path) -> None:
        """A large file comes in blocks."""
        (tmp_path / "x").write_bytes(b"x" * (3 * BLOCK_BYTES))
        for log in read_logs([tmp_path / "x"], Reading()):
            assert log.whole(BLOCK_BYTES) is None
            blocks = list(log.blocks)
            assert (max(map(len, blocks)), sum(map(len, blocks))) == (BLOCK_BYTES, 3 * BLOCK_BYTES)


class TestFindFiles:
    def test_folders_are_walked_in_order(self, tmp_path: Path) -> None:
        """All logs below a folder are found once, without programs, settings and versioning."""
        for name in ("b.log", "a/x.out", "a/train.py", ".git/HEAD", "conf.yaml", "no_ending", "w.safetensors"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("x")
        reading = Reading()
        found = find_files([str(tmp_path), str(tmp_path / "b.log")], reading)
        assert [str(path.relative_to(tmp_path)) for path in found] == ["b.log", "no_ending", "a/x.out"]
        assert reading.skipped == 3

    def test_a_named_file_is_read_whatever_it_is_called(self, tmp_path: Path) -> None:
        """Endings count only where nobody named the file."""
        (tmp_path / "out.md").write_bytes(TEXT)
        assert list(read(tmp_path / "out.md")[0].values()) == [TEXT]

    def test_what_is_not_there_is_an_error(self, tmp_path: Path) -> None:
        """A name that isn't there, and a folder with no log, are refused by name."""
        with pytest.raises(BadInputError, match=r"absent\.log: can't be read: No such file"):
            find_files([str(tmp_path / "absent.log")], Reading())
        with pytest.raises(BadInputError, match="can't be read"):
            find_files(["a\0b"], Reading())
        (tmp_path / "x.py").write_text("x")
        with pytest.raises(BadInputError, match="no logs there \\(1 file of other kinds\\)"):
            find_files([str(tmp_path)], Reading())

    def test_devices_are_refused(self) -> None:
        """A device may give bytes for ever."""
        with pytest.raises(BadInputError, match="/dev/urandom: a device, which may never end"):
            find_files(["/dev/urandom"], Reading())

    def test_line_ends_in_names_stay_in_their_line(self, tmp_path: Path) -> None:
        """A name with a line end is shown with an escape, so that it can't look like two lines of the answer."""
        (tmp_path / "a\nb.log").write_bytes(TEXT)
        logs, _ = read(tmp_path / "a\nb.log")
        assert [name.removeprefix(str(tmp_path)) for name in logs] == ["/a\\nb.log"]

    def test_a_pipe_without_a_writer_is_not_waited_for_without_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is noted, and the rest is read."""
        monkeypatch.setattr(diagnose_files, "PIPE_WAIT_S", 0.001)
        os.mkfifo(tmp_path / "pipe")
        reading = Reading()
        assert list(read_logs([tmp_path / "pipe"], reading)) == []
        assert "nobody wrote" in reading.notes[0]

    def test_a_pipe_without_an_end_is_left_at_some_point(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What came before is read, and it is noted."""
        monkeypatch.setattr(diagnose_files, "STREAM_BYTES_MAX", 1 << 17)
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=_written, args=(tmp_path / "pipe", b"x\n" * (1 << 17)))
        writer.start()
        reading = Reading()
        size = sum(len(block) for log in read_logs([tmp_path / "pipe"], reading) for block in log.blocks)
        writer.join()
        assert 1 << 17 <= size <= 1 << 18
        assert "no end" in reading.notes[0]

    def test_what_is_packed_twice_is_left_at_some_point(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Eight hundred kilobytes unpacked to sixty-four gigabytes, and a packing more to a thousand times that."""
        monkeypatch.setattr(diagnose_files, "STREAM_BYTES_MAX", 1 << 17)
        (tmp_path / "x").write_bytes(gzip.compress(gzip.compress(b"x\n" * (4 * BLOCK_BYTES))))
        logs, reading = read(tmp_path / "x")
        assert 1 << 17 <= len(logs[f"{tmp_path}/x"]) <= 2 * BLOCK_BYTES
        assert "no end" in reading.notes[0]

    def test_pipes_and_sockets_in_folders_are_left_alone(self, tmp_path: Path) -> None:
        """What would never end is not opened; links to nowhere and loops do no harm."""
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "loop").symlink_to(tmp_path)
        (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
        (tmp_path / "x.log").write_bytes(TEXT)
        assert len(find_files([str(tmp_path)], Reading())) == 1

    def test_what_may_not_be_looked_at_is_noted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A folder that may be listed and not entered hides what its names are; the rest is read."""
        for name in ("a.log", "b.log"):
            (tmp_path / name).write_bytes(TEXT)
        (tmp_path / "gone").symlink_to("nowhere")
        look = os.stat

        def refuse(path: Path | str, **options: bool) -> os.stat_result:
            if str(path).endswith("a.log"):
                raise PermissionError(13, "Permission denied")
            return look(path, **options)

        reading = Reading()
        with monkeypatch.context() as patched:
            patched.setattr(diagnose_files.os, "stat", refuse)
            assert [path.name for path in find_files([str(tmp_path)], reading)] == ["b.log"]
        assert reading.notes == [f"{tmp_path / 'a.log'}: Permission denied"]


class TestReading:
    def test_notes_are_bounded(self) -> None:
        """A thousand damaged files don't fill the screen."""
        reading = Reading()
        for number in range(100):
            reading.note(str(number))
        assert len(reading.notes) == NOTES_MAX + 1

    def test_binary_is_told(self, tmp_path: Path) -> None:
        """A file full of zeros is no text, and an empty one is nothing."""
        (tmp_path / "core").write_bytes(b"\x7fELF" + b"\0" * 1_000)
        (tmp_path / "empty").write_bytes(b"")
        reading = Reading()
        assert [log.binary for log in read_logs(find_files([str(tmp_path)], reading), reading)] == [True]

    def test_holes_do_not_make_a_log_binary(self, tmp_path: Path) -> None:
        """What a crash leaves behind a log, or a log emptied while it was written leaves before it, is zeros."""
        (tmp_path / "x.log").write_bytes(b"\0" * 100_000 + TEXT)
        (log,) = read_logs([tmp_path / "x.log"], Reading())
        assert not log.binary
