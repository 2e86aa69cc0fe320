"""Building token sets: whole or not at all, once."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.job import DataSpec
from argosy.train.data import prepare as prepare_module
from argosy.train.data.folders import beside, put, put_over
from argosy.train.data.prepare import TokenSetInfo, prepare
from argosy.train.data.tokens import META_FILE, TOKENS_FILE, TokenSet

WORDS = "the quick brown fox jumps over the lazy dog\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two small text files and a line file in a folder of their own."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    (folder / "b.txt").write_text("two!")
    (folder / "c.jsonl").write_text('{"text": "x"}\n{"text": ""}\n{"text": "yz"}\n')
    return folder


def build(
    corpus: Path, files: str = "*", tokenizer: str = "bytes", length: int = 4, vocab: int | None = 256
) -> TokenSetInfo:
    """Prepare what is in the folder, with a cache beside it."""
    spec = DataSpec(files=(f"{corpus}/{files}",), tokenizer=tokenizer)
    return prepare(spec, sequence_length=length, vocab_size=vocab, cache=corpus.parent / "cache")


@contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond the limit, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class TestPrepare:
    def test_joins_documents_with_the_end_of_text(self, corpus: Path) -> None:
        """Tokens are all documents in order, each ended by the end of text; empty ones are left out."""
        info = build(corpus)
        tokens = np.fromfile(info.folder / TOKENS_FILE, dtype=info.meta.dtype)
        assert bytes(tokens.astype(np.uint8)) == b"one\xfftwo!\xffx\xffyz\xff"
        assert (info.meta.documents, info.meta.files, info.meta.text_bytes, info.sequences) == (4, 3, 10, 3)

    def test_what_it_builds_can_be_opened(self, corpus: Path) -> None:
        """The folder it names is a token set of as many sequences."""
        info = build(corpus)
        assert len(TokenSet(info.folder, sequence_length=4)) == info.sequences

    def test_cuts_no_document_in_two(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file read in many pieces is still one document, whatever is batched together."""
        monkeypatch.setattr("argosy.train.data.documents.PIECE_BYTES", 5)
        monkeypatch.setattr(prepare_module, "_BATCH_PIECES", 2)
        (tmp_path / "c").mkdir()
        (tmp_path / "c" / "long.txt").write_text(WORDS * 3)
        assert build(tmp_path / "c").meta.documents == 1
        assert build(tmp_path / "c").meta.tokens == len(WORDS) * 3 + 1

    def test_trains_a_tokenizer(self, corpus: Path) -> None:
        """train:N keeps the tokenizer beside the tokens."""
        (corpus / "d.txt").write_text(WORDS * 20)
        info = build(corpus, tokenizer="train:270", vocab=270)
        assert info.meta.vocab_size == 270
        assert len(json.loads(info.tokenizer_file.read_text())["model"]["vocab"]) == 270

    def test_trains_on_a_part_of_every_file(self, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The text a tokenizer is trained on is bounded, and each file has its share."""
        monkeypatch.setattr(prepare_module, "TRAINING_TEXT_BYTES", 6)
        sample = prepare_module._Corpus(tuple(sorted(corpus.iterdir())), "text", None).sample()
        assert list(sample) == ["on", "tw", "x", "", "y"]

    def test_tells_how_far_it_is(self, corpus: Path) -> None:
        """The listener hears of every part of the work, in rising shares up to 1."""
        heard: list[tuple[str, float]] = []
        spec = DataSpec(files=(f"{corpus}/*",), tokenizer="train:257")
        prepare(
            spec,
            sequence_length=4,
            vocab_size=None,
            cache=corpus.parent / "cache",
            progress=lambda *it: heard.append(it),
        )
        assert [what for what, share in heard if share == 1.0] == ["tokenizer", "tokens"]
        assert heard == sorted(heard, key=lambda it: (it[0] == "tokens", it[1]))

    @pytest.mark.slow
    def test_the_standard_library_is_text_enough(self, tmp_path: Path) -> None:
        """`stdlib:` gives millions of bytes of text on any machine."""
        info = prepare(DataSpec(files=("stdlib:",)), sequence_length=256, vocab_size=256, cache=tmp_path)
        assert info.meta.text_bytes > 5_000_000


class TestCache:
    def test_is_reused(self, corpus: Path) -> None:
        """The same data a second time is found, also for another sequence length."""
        first, second = build(corpus), build(corpus, length=5)
        assert (first.reused, second.reused) == (False, True)
        assert first.folder == second.folder

    @pytest.mark.parametrize("what", ["file", "tokenizer", "field", "files"])
    def test_is_built_anew_when_something_changed(self, corpus: Path, what: str) -> None:
        """A changed file, another tokenizer, field or list of files is another token set."""
        spec = DataSpec(files=(f"{corpus}/*.txt",))
        before = prepare(spec, sequence_length=2, vocab_size=None, cache=corpus / "cache")
        if what == "file":
            (corpus / "a.txt").write_text("changed")
        changes = {
            "tokenizer": {"tokenizer": "train:257"},
            "field": {"text_field": "t"},
            "files": {"files": (f"{corpus}/a.txt",)},
        }
        after = prepare(
            replace(spec, **changes.get(what, {})), sequence_length=2, vocab_size=None, cache=corpus / "cache"
        )
        assert after.folder != before.folder

    def test_is_built_anew_when_damaged(self, corpus: Path) -> None:
        """A set that lost some of its tokens is replaced."""
        folder = build(corpus).folder
        (folder / TOKENS_FILE).write_bytes(b"x")
        assert not build(corpus).reused
        assert len(TokenSet(folder, sequence_length=4)) == 3

    def test_keeps_what_another_process_built_meanwhile(self, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who comes second leaves the first one's set alone and uses it."""
        real = prepare_module._write_tokens

        def beaten(*given: object) -> object:
            monkeypatch.setattr(prepare_module, "_write_tokens", real)
            inodes.append((build(corpus).folder / META_FILE).stat().st_ino)
            return real(*given)  # type: ignore[arg-type]

        inodes: list[int] = []
        monkeypatch.setattr(prepare_module, "_write_tokens", beaten)
        assert (build(corpus).folder / META_FILE).stat().st_ino == inodes[0]
        assert len(list((corpus.parent / "cache").iterdir())) == 1

    @pytest.mark.slow
    def test_two_processes_at_once_both_succeed(self, corpus: Path) -> None:
        """Two real processes that build the same set end well, with one whole set."""
        (corpus / "d.txt").write_text(WORDS * 5000)
        code = (
            "from argosy.train.data.prepare import *; import sys; spec = DataSpec(files=(sys.argv[1] + '/*',)); "
            "prepare(spec, sequence_length=4, vocab_size=None, cache=Path(sys.argv[2]))"
        )
        command = [sys.executable, "-c", code, str(corpus), str(corpus.parent / "cache")]
        processes = [subprocess.Popen(command) for _ in range(2)]
        assert [process.wait(60) for process in processes] == [0, 0]
        assert build(corpus).reused


class TestErrors:
    def test_refuses_a_corpus_without_text(self, corpus: Path) -> None:
        """Files that hold nothing are refused, and nothing stays in the cache."""
        (corpus / "a.txt").write_text("")
        with pytest.raises(BadInputError, match=r"no text in .*a\.txt; every document is empty"):
            build(corpus, files="a.txt")
        assert list((corpus.parent / "cache").iterdir()) == []

    def test_refuses_a_corpus_shorter_than_a_sequence(self, corpus: Path) -> None:
        """Too little text is answered with how much there is and what would fit."""
        with pytest.raises(
            BadInputError, match=r"14 tokens in 4 documents of 3 files.*needs 15\..*sequence_length to 13"
        ):
            build(corpus, length=14)

    @pytest.mark.parametrize("tokenizer", ["bytes", "train:300"])
    def test_refuses_a_vocabulary_beyond_the_models(self, corpus: Path, tokenizer: str) -> None:
        """More tokens than the model knows are refused before any is written."""
        with pytest.raises(BadInputError, match=r"has \d+ tokens, the model's vocab_size is 255\. Use"):
            build(corpus, tokenizer=tokenizer, vocab=255)
        assert list(corpus.parent.glob("cache/*")) == []

    def test_refuses_a_reused_set_for_a_smaller_model(self, corpus: Path) -> None:
        """The check also holds when the set comes out of the cache."""
        build(corpus)
        with pytest.raises(BadInputError, match="vocab_size is 100"):
            build(corpus, vocab=100)

    def test_leaves_nothing_after_a_bad_line(self, corpus: Path) -> None:
        """An error in the middle of a file leaves no half-built set."""
        (corpus / "c.jsonl").write_text('{"text": "x"}\n{"text": ')
        with pytest.raises(BadInputError, match=r"c\.jsonl:2:"):
            build(corpus)
        assert list((corpus.parent / "cache").iterdir()) == []

    def test_leaves_nothing_on_a_full_disk(self, corpus: Path) -> None:
        """When the tokens can't be written, the path and the free space are named and nothing stays."""
        (corpus / "d.txt").write_text(WORDS * 1000)
        with (
            file_size_limit(4096),
            pytest.raises(InfrastructureError, match=r"cache/\w+: no room while writing.*GB are free"),
        ):
            build(corpus)
        assert list((corpus.parent / "cache").iterdir()) == []

    def test_names_a_cache_that_can_not_be_made(self, corpus: Path) -> None:
        """A cache whose place is taken by a file is an infrastructure error that names it."""
        (corpus.parent / "cache").write_text("in the way")
        with pytest.raises(InfrastructureError, match=r"cache.*cannot write"):
            build(corpus)


class TestFolders:
    def test_put_does_not_touch_what_is_there(self, tmp_path: Path) -> None:
        """A folder with something in it keeps its name and content."""
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "mine").touch()
        with beside(tmp_path / "there") as new:
            assert put(new, tmp_path / "there") is False
        assert [path.name for path in tmp_path.rglob("*")] == ["there", "mine"]

    def test_put_over_replaces_the_whole_folder(self, tmp_path: Path) -> None:
        """Nothing of the old content stays, and no folder beside it."""
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "old").touch()
        with beside(tmp_path / "there") as new:
            (new / "new").touch()
            put_over(new, tmp_path / "there")
        assert [path.name for path in tmp_path.rglob("*")] == ["there", "new"]

    def test_old_rubbish_is_swept_and_young_is_not(self, tmp_path: Path) -> None:
        """What a process killed long ago left is removed; what may still be written is not."""
        old, young = tmp_path / ".set.0.partial", tmp_path / ".set.1.partial"
        old.mkdir()
        young.mkdir()
        os.utime(old, (0, 0))
        with beside(tmp_path / "set"):
            assert (old.exists(), young.exists()) == (False, True)
