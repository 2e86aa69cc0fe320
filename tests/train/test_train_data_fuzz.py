"""Damaged input files: a clear error or a clean read, never anything else."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from argosy.contracts.errors import BadInputError
from argosy.model.config import read_config
from argosy.model.named import config_text
from argosy.train.data.documents import read_pieces
from argosy.train.data.tokenizing import make_tokenizer, read_choice, read_tokenizer
from argosy.train.weights.importing import SINGLE_FILE, open_hf

LINES = b'{"text": "hello", "n": 1}\n{"text": "w\\u00e4 \xc3\xa4", "n": [1, {"a": 2}]}\n' * 3
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=4) | st.sampled_from([b"{", b'"', b"]", b"1"])),
    min_size=1,
    max_size=4,
)
FUZZ = settings(derandomize=True, deadline=None, max_examples=80)


def damaged(content: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """Replace some bytes at each place, given as a share of the length, by others."""
    for share, removed, added in edits:
        at = int(share * len(content))
        content = content[:at] + added + content[at + removed :]
    return content


def parquet() -> bytes:
    """Write a small Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": ["a", "b", None] * 20}), sink)
    return sink.getvalue().to_pybytes()


def refusal(read: Callable[[], object], name: str) -> str:
    """Read, and give what the error says, or the file's own name when there was none."""
    try:
        read()
    except BadInputError as error:
        return str(error)
    return name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give one folder for all examples of a law."""
    return tmp_path_factory.mktemp("fuzz")


class TestDamagedFiles:
    @pytest.mark.parametrize(
        ("name", "content"),
        [("a.jsonl", LINES), ("a.jsonl.gz", gzip.compress(LINES, mtime=0)), ("a.parquet", parquet()), ("a.txt", LINES)],
        ids=["jsonl", "gzip", "parquet", "text"],
    )
    @given(edits=EDITS)
    @FUZZ
    def test_corpus(self, folder: Path, name: str, content: bytes, edits: list[tuple[float, int, bytes]]) -> None:
        """A damaged corpus is read or refused with its name."""
        (folder / name).write_bytes(damaged(content, edits))
        assert name in refusal(lambda: list(read_pieces(folder / name, "text")), name)

    @given(edits=EDITS)
    @FUZZ
    def test_tokenizer(self, folder: Path, edits: list[tuple[float, int, bytes]]) -> None:
        """A damaged tokenizer.json still encodes, or is refused with its name."""
        whole = make_tokenizer(read_choice("bytes"), lambda: iter([])).json.encode()
        (folder / "t.json").write_bytes(damaged(whole, edits))
        assert "t.json" in refusal(lambda: read_tokenizer(folder / "t.json").encode(["hällo world"]), "t.json")

    @given(edits=EDITS)
    @FUZZ
    def test_weights(self, folder: Path, edits: list[tuple[float, int, bytes]]) -> None:
        """Damaged weights are refused when they are opened, or opened and read whole."""
        whole = save({"model.norm.weight": torch.ones(64), "lm_head.weight": torch.ones(256, 64)})
        header_bytes = 8 + int.from_bytes(whole[:8], "little")
        (folder / SINGLE_FILE).write_bytes(damaged(whole[:header_bytes], edits) + whole[header_bytes:])
        with pytest.raises(BadInputError, match=str(folder)):
            open_hf(folder, read_config(*config_text("tiny")))

    @given(
        value=st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3))
    )
    @FUZZ
    def test_index(self, tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
        """Whatever stands for the map of shards, no file outside the folder is opened."""
        there = tmp_path_factory.mktemp("index")
        (there / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": value}}))
        with pytest.raises(BadInputError, match=r"model\.safetensors\.index\.json|missing"):
            open_hf(there, read_config(*config_text("tiny")))
