"""Tokenizers: bytes, files, trained on the spot."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from argosy.contracts.errors import BadInputError
from argosy.train.data.tokenizing import END_OF_TEXT, TextTokenizer, make_tokenizer, read_choice, read_tokenizer

TEXT = "The quick brown fox jumps over the lazy dog. " * 50


def no_text() -> Iterator[str]:
    """Fail: only training may ask for text."""
    raise AssertionError("asked for text")


def trained(size: int = 280) -> TextTokenizer:
    """Train on TEXT."""
    return make_tokenizer(read_choice(f"train:{size}"), lambda: iter([TEXT]))


class TestBytes:
    @given(text=st.text(max_size=50))
    @settings(derandomize=True, deadline=None, max_examples=60)
    def test_a_token_is_a_byte(self, text: str) -> None:
        """Tokens are the bytes of the text, and the library says the same by the tokenizer.json."""
        ours = make_tokenizer(read_choice("bytes"), no_text)
        assert ours.encode([text])[0].tolist() == list(text.encode())
        library = Tokenizer.from_str(ours.json)
        library.encode_special_tokens = True
        assert library.encode(text, add_special_tokens=False).ids == list(text.encode())
        assert library.decode(list(text.encode())) == text

    def test_ends_texts_with_a_byte_that_no_text_has(self) -> None:
        """The end of text is 255, which UTF-8 never uses, so 256 numbers are enough."""
        ours = make_tokenizer(read_choice("bytes"), no_text)
        assert (ours.vocab_size, ours.end_of_text, ours.end_name) == (256, 255, END_OF_TEXT)


class TestTrain:
    def test_has_the_size_asked_for(self) -> None:
        """train:N gives N tokens, the end of text among them as number 0."""
        assert (trained().vocab_size, trained().end_of_text, trained().dtype) == (280, 0, np.uint16)

    def test_is_the_same_each_time(self) -> None:
        """Training twice on the same text gives the same tokenizer."""
        assert trained().json == trained().json

    def test_gives_the_text_back(self) -> None:
        """Any text, seen or not, survives encoding and decoding."""
        text = "Zwölf Boxkämpfer 😀\n\tjagen  Viktor"
        assert Tokenizer.from_str(trained().json).decode(trained().encode([text])[0].tolist()) == text

    def test_takes_the_end_marker_in_a_text_for_text(self) -> None:
        """A document can't end another by writing the marker."""
        assert trained().end_of_text not in trained().encode([f"a {END_OF_TEXT} b"])[0]

    @pytest.mark.parametrize("text", ["train:", "train:many", "train:256", "train:-5", "train:9999999999", "train:4²"])
    def test_refuses_other_sizes(self, text: str) -> None:
        """A size must be a whole number between the bytes and the limit."""
        with pytest.raises(BadInputError, match="a whole number from 257"):
            read_choice(text)


class TestFile:
    def test_reads_what_training_wrote(self, tmp_path: Path) -> None:
        """A tokenizer.json gives the tokens of the tokenizer it was written from, by file or folder."""
        (tmp_path / "tokenizer.json").write_text(trained().json)
        for text in (str(tmp_path / "tokenizer.json"), str(tmp_path)):
            ours = make_tokenizer(read_choice(text), no_text)
            assert ours.encode([TEXT])[0].tolist() == trained().encode([TEXT])[0].tolist()

    def test_ignores_truncation_and_padding(self, tmp_path: Path) -> None:
        """A file made for short prompts still gives every token of a long text."""
        library = Tokenizer.from_str(trained().json)
        library.enable_truncation(4)
        library.enable_padding(length=8)
        library.save(str(tmp_path / "t.json"))
        long, short = read_tokenizer(tmp_path / "t.json").encode([TEXT, "a"])
        assert len(long) == len(trained().encode([TEXT])[0])
        assert len(short) == 1

    def test_needs_wider_numbers_for_a_large_vocabulary(self, tmp_path: Path) -> None:
        """Beyond 65,536 tokens numbers take four bytes; a gap in the vocabulary counts."""
        value = json.loads(trained().json)
        value["model"]["vocab"]["unused"] = 70_000
        (tmp_path / "t.json").write_text(json.dumps(value))
        ours = read_tokenizer(tmp_path / "t.json")
        assert (ours.vocab_size, ours.dtype) == (70_001, np.uint32)

    @pytest.mark.parametrize("text", ["{", "{}", '{"version": "1.0", "model": {"type": "Unheard"}}', "[1]"])
    def test_refuses_what_is_no_tokenizer(self, tmp_path: Path, text: str) -> None:
        """A file that the library can't read is named, with what is allowed."""
        (tmp_path / "t.json").write_text(text)
        with pytest.raises(BadInputError, match=r"t\.json: not a tokenizer\.json.*allowed"):
            read_tokenizer(tmp_path / "t.json")

    def test_refuses_one_without_an_end_of_text(self, tmp_path: Path) -> None:
        """Documents could not be told apart, so the special tokens there are get listed."""
        (tmp_path / "t.json").write_text(trained().json.replace(END_OF_TEXT, "<|pause|>"))
        with pytest.raises(BadInputError, match=r"no token that ends a text; expected one of .*: <\|pause\|>"):
            read_tokenizer(tmp_path / "t.json")

    def test_names_the_nearest_file(self, tmp_path: Path) -> None:
        """A misspelt path is answered with what is there and what is allowed."""
        (tmp_path / "tokenizer.json").write_text("{}")
        with pytest.raises(BadInputError, match=r'tokeniser\.json"; nearest: tokenizer\.json; allowed: "bytes"'):
            read_choice(str(tmp_path / "tokeniser.json"))
