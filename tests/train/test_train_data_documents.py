"""Documents out of text, JSON Lines and Parquet files."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.train.data import documents
from argosy.train.data.documents import read_pieces


def read(path: Path, field: str = "text") -> list[str]:
    """Read a file's documents, pieces joined."""
    texts, text = [], ""
    for piece in read_pieces(path, field):
        text += piece.text
        if piece.ends:
            texts.append(text)
            text = ""
    assert not text
    return texts


def lines(path: Path, *values: object) -> Path:
    """Write one JSON value a line."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def table(path: Path, **columns: pa.Array) -> Path:
    """Write a Parquet file."""
    pq.write_table(pa.table(columns), path)
    return path


class TestText:
    def test_a_file_is_one_document(self, tmp_path: Path) -> None:
        """A text file is read whole, line ends kept and the byte-order mark dropped."""
        path = tmp_path / "a.txt"
        path.write_bytes("\ufeffHällo\r\nworld\n".encode())
        assert read(path) == ["Hällo\r\nworld\n"]

    def test_an_empty_file_is_no_document(self, tmp_path: Path) -> None:
        """An empty file gives nothing."""
        (tmp_path / "a.txt").touch()
        assert read(tmp_path / "a.txt") == []

    def test_gzip_is_unpacked(self, tmp_path: Path) -> None:
        """A .gz is read as the file inside it."""
        (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"inside"))
        assert read(tmp_path / "a.txt.gz") == ["inside"]

    @given(text=st.text(alphabet="aä€😀\n", max_size=200))
    @settings(derandomize=True, deadline=None, max_examples=60)
    def test_pieces_join_to_the_text(self, tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
        """However small the pieces, characters cut between two of them come out whole."""
        path = tmp_path_factory.mktemp("pieces") / "a.txt"
        path.write_text(text, newline="")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(documents, "PIECE_BYTES", 3)
            assert "".join(read(path)) == text

    def test_tells_how_far_it_is(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Shares rise to 1 as pieces are read."""
        monkeypatch.setattr(documents, "PIECE_BYTES", 8)
        (tmp_path / "a.txt").write_text("some words in a line\n" * 20)
        shares = [piece.share for piece in read_pieces(tmp_path / "a.txt", "text")]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0

    def test_names_the_byte_that_is_not_utf8(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Other encodings are refused with file, byte and offset, also far into a file."""
        monkeypatch.setattr(documents, "PIECE_BYTES", 4)
        (tmp_path / "a.txt").write_bytes("abcd ä€\n".encode() + b"caf\xe9\n")
        with pytest.raises(BadInputError, match=r"a\.txt: not UTF-8: byte 0xe9 at offset 14; .*iconv"):
            read(tmp_path / "a.txt")


class TestJsonLines:
    def test_a_line_is_one_document(self, tmp_path: Path) -> None:
        """Each line gives its text; blank lines are passed over and null is an empty text."""
        path = tmp_path / "a.jsonl"
        path.write_text('{"text": "one", "id": 1}\n\n{"text": null}\n{"text": "t\\u00e4o"}')
        assert read(path) == ["one", "", "täo"]

    def test_reads_another_field(self, tmp_path: Path) -> None:
        """text_field chooses the key."""
        assert read(lines(tmp_path / "a.ndjson", {"body": "x"}), "body") == ["x"]

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (
                '{"title": "x", "texts": "y"}',
                r'a\.jsonl:2: no field "text"; fields here: title, texts; did you mean .*texts',
            ),
            ("{}", "fields here: none"),
            ('{"text": "half', r"a\.jsonl:2:\d+: not JSON"),
            ("[" * 100_000, "not JSON that can be read"),
            ('["text"]', "list where an object is expected"),
            ('{"text": 7}', 'field "text" is int, not text'),
            (r'{"text": "\ud800"}', "half a surrogate pair at character 0"),
        ],
    )
    def test_names_the_line_that_is_wrong(self, tmp_path: Path, line: str, said: str) -> None:
        """A bad line is refused with file and line number."""
        path = tmp_path / "a.jsonl"
        path.write_text('{"text": "fine"}\n' + line)
        with pytest.raises(BadInputError, match=said):
            read(path)

    def test_names_the_byte_that_is_not_utf8(self, tmp_path: Path) -> None:
        """The offset counts from the beginning of the file, not of the line."""
        (tmp_path / "a.jsonl").write_bytes(b'{"text": "fine"}\n{"text": "\xff"}\n')
        with pytest.raises(BadInputError, match="byte 0xff at offset 27"):
            read(tmp_path / "a.jsonl")

    def test_refuses_a_line_beyond_the_limit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file that is no JSON Lines does not fill the memory."""
        monkeypatch.setattr(documents, "LINE_BYTES_MAX", 10)
        with pytest.raises(BadInputError, match=r":1: longer than 10 bytes"):
            read(lines(tmp_path / "a.jsonl", {"text": "long enough"}))


class TestParquet:
    @pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
    def test_a_row_is_one_document(self, tmp_path: Path, kind: pa.DataType) -> None:
        """Every way to store text is read, null as an empty one."""
        path = table(
            tmp_path / "a.parquet", text=pa.array(["ä", None, "c"], type=pa.string()).cast(kind), n=pa.array([1, 2, 3])
        )
        assert read(path) == ["ä", "", "c"]

    def test_names_the_columns_there_are(self, tmp_path: Path) -> None:
        """A missing column is answered with the columns of the file."""
        with pytest.raises(BadInputError, match=r'a\.parquet: no field "text"; fields here: body, n'):
            read(table(tmp_path / "a.parquet", body=pa.array(["x"]), n=pa.array([1])))

    def test_refuses_a_column_of_numbers(self, tmp_path: Path) -> None:
        """A column that holds no text is refused by its type."""
        with pytest.raises(BadInputError, match='"n" is int64, not text'):
            read(table(tmp_path / "a.parquet", n=pa.array([1])), "n")

    def test_names_the_row_that_is_not_utf8(self, tmp_path: Path) -> None:
        """A broken string is refused with its row."""
        broken = pa.array([b"fine", b"\xff"], type=pa.binary()).view(pa.string())
        with pytest.raises(BadInputError, match="row 2"):
            read(table(tmp_path / "a.parquet", text=broken))

    def test_refuses_what_is_no_parquet(self, tmp_path: Path) -> None:
        """A text file with the wrong name is refused in one line."""
        (tmp_path / "a.parquet").write_text("hello " * 10)
        with pytest.raises(BadInputError, match="not a readable Parquet file"):
            read(tmp_path / "a.parquet")


class TestFiles:
    def test_refuses_half_a_gzip(self, tmp_path: Path) -> None:
        """A truncated archive is an error, not a short document."""
        (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"words " * 1000)[:40])
        with pytest.raises(BadInputError, match=r"a\.txt\.gz: not a whole gzip file"):
            read(tmp_path / "a.txt.gz")

    def test_refuses_other_archives_by_name(self, tmp_path: Path) -> None:
        """What can't be unpacked is refused before it is taken for text."""
        (tmp_path / "a.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
        with pytest.raises(BadInputError, match=r"cannot read \.zst; allowed"):
            read(tmp_path / "a.jsonl.zst")

    def test_names_a_file_that_vanished(self, tmp_path: Path) -> None:
        """A file that is gone by the time it is read is named."""
        with pytest.raises(BadInputError, match=r"gone\.txt: cannot read: No such file"):
            read(tmp_path / "gone.txt")
