"""Tokenizers: raw bytes, a given `tokenizer.json`, or a byte-level BPE trained on the spot.

Each turns texts into token numbers and names the one that ends a document. The only module that knows the library
`tokenizers`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from argosy.contracts.errors import BadInputError
from argosy.contracts.job import TRAINED_VOCABULARY_MAX, TRAINED_VOCABULARY_MIN
from argosy.train.data.sources import nearest_file

BYTES_VOCAB = 256
BYTES_END = 255
END_OF_TEXT_TRAINED = 0
END_OF_TEXT = "<|endoftext|>"
END_NAMES = (END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "<｜end▁of▁sentence｜>", "<|im_end|>", "[SEP]")
_ALLOWED = 'allowed: "bytes", "train:N" (for example train:4096), or the path of a tokenizer.json or its folder'


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What `data.tokenizer` asks for: raw bytes, a file, or `train_size` tokens to be trained."""

    text: str
    file: Path | None = None
    train_size: int | None = None


class TextTokenizer:
    """Texts to token numbers.

    vocab_size: highest number + 1. end_of_text, end_name: the token that ends every document, and how it is spelt.
    json: text of tokenizer.json. dtype: of the tokens.
    """

    def __init__(self, library: Tokenizer, *, end_of_text: int, json: str, raw_bytes: bool = False) -> None:
        self._library, self._raw_bytes = library, raw_bytes
        self.end_of_text, self.json = end_of_text, json
        self.end_name = str(library.id_to_token(end_of_text))
        self.vocab_size = max(library.get_vocab(with_added_tokens=True).values()) + 1
        self.dtype: np.dtype[np.uint16] | np.dtype[np.uint32]
        self.dtype = np.dtype(np.uint16) if self.vocab_size <= 1 << 16 else np.dtype(np.uint32)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Tokens of each text; names of special tokens inside a text are ordinary text."""
        if self._raw_bytes:
            return [np.frombuffer(text.encode(), dtype=np.uint8).astype(self.dtype) for text in texts]
        return [
            np.array(found.ids, dtype=self.dtype)
            for found in self._library.encode_batch_fast(texts, add_special_tokens=False)
        ]


def read_choice(text: str) -> Choice:
    """Understand `data.tokenizer` without opening anything but looking whether the file is there."""
    if text == "bytes":
        return Choice(text=text)
    if text.startswith("train:"):
        return Choice(text=text, train_size=_train_size(text))
    path = Path(text).expanduser()
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise BadInputError(f'data.tokenizer: no file "{path}"{nearest_file(path)}; {_ALLOWED}')
    return Choice(text=text, file=path)


def _train_size(text: str) -> int:
    digits = text.removeprefix("train:").replace("_", "")
    if not (digits.isascii() and digits.isdigit() and _is_vocabulary(int(digits))):
        raise BadInputError(
            f'data.tokenizer: "{text}": after train: a whole number from {TRAINED_VOCABULARY_MIN} (all bytes and the '
            f"end of text) to {TRAINED_VOCABULARY_MAX:,} is expected, for example train:4096"
        )
    return int(digits)


def _is_vocabulary(size: int) -> bool:
    return TRAINED_VOCABULARY_MIN <= size <= TRAINED_VOCABULARY_MAX


def make_tokenizer(choice: Choice, texts: Callable[[], Iterator[str]]) -> TextTokenizer:
    """Make the tokenizer that was asked for; `texts` is called only when one has to be trained."""
    if choice.train_size is not None:
        return _train(choice.train_size, texts())
    return _bytes() if choice.file is None else read_tokenizer(choice.file)


def read_tokenizer(path: Path) -> TextTokenizer:
    """Read a tokenizer.json; its truncation, padding and added prefixes don't apply.

    Raises BadInputError when it is no tokenizer or names no end of text.
    """
    try:
        json = path.read_text(encoding="utf-8")
        library = Tokenizer.from_str(json)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: cannot read: {error}") from error
    except Exception as error:  # the library raises bare Exception for whatever it can't parse
        raise BadInputError(f"{path}: not a tokenizer.json: {str(error)[:200]}; {_ALLOWED}") from error
    library.no_truncation()
    library.no_padding()
    library.encode_special_tokens = True
    return TextTokenizer(library, end_of_text=_end_of_text(path, library), json=json)


def _end_of_text(path: Path, library: Tokenizer) -> int:
    for name in END_NAMES:
        number = library.token_to_id(name)
        if number is not None:
            return int(number)
    special = [token.content for token in library.get_added_tokens_decoder().values()]
    shown = ", ".join(special[:10]) or "none"
    raise BadInputError(
        f"{path}: no token that ends a text; expected one of {', '.join(END_NAMES)}; its special tokens: {shown}"
    )


def _byte_level(model: models.BPE) -> Tokenizer:
    library = Tokenizer(model)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.encode_special_tokens = True
    return library


def _train(size: int, texts: Iterable[str]) -> TextTokenizer:
    library = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(texts, trainer=trainer)
    return TextTokenizer(library, end_of_text=END_OF_TEXT_TRAINED, json=library.to_str())


def _bytes() -> TextTokenizer:
    """Token number = byte. 0xFF never occurs in UTF-8, so its number is free to end a document."""
    vocab = {character: byte for byte, character in enumerate(_byte_characters()) if byte != BYTES_END}
    library = _byte_level(models.BPE(vocab=vocab | {END_OF_TEXT: BYTES_END}, merges=[]))
    library.add_special_tokens([AddedToken(END_OF_TEXT, special=True)])
    return TextTokenizer(library, end_of_text=BYTES_END, json=library.to_str(), raw_bytes=True)


def _byte_characters() -> list[str]:
    """List how byte-level BPE spells each byte: itself where it prints, else the next character from U+0100 on."""
    printing = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    spare = iter(range(BYTES_VOCAB, 2 * BYTES_VOCAB))
    return [chr(byte) if byte in printing else chr(next(spare)) for byte in range(BYTES_VOCAB)]
