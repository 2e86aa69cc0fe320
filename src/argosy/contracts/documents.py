"""Files that people write, in YAML (of which JSON is a part), with the line and column of every key.

`read_document` turns text into plain values and their places, `override` applies `--set key=value`, `validate` checks
the whole against a pydantic model and reports all problems at once, one a line. It must not know any particular file's
keys, nor open a file.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import pydantic
import yaml

from argosy.contracts.errors import BadInputError
from argosy.contracts.explain import NUMBER, Path, dotted_path, explain, got_text
from argosy.contracts.plain import is_plain

M = TypeVar("M", bound=pydantic.BaseModel)

TEXT_LENGTH_MAX = 500_000
DEPTH_MAX = 32
VALUES_MAX = 100_000
DIGITS_MAX = 40
PROBLEMS_MAX = 10

# YAML 1.2's numbers rather than 1.1's: 3e-4 is a number, 08:30 and 2026-12-24 are text, 010 is ten.
_INTEGER = re.compile(r"[-+]?\d+(?:_\d+)*")
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}


class Section(pydantic.BaseModel):
    """What models of files derive from: unknown keys are errors, numbers are finite, values don't change.

    OTHER_NAMES maps what people may write instead (old names, other tools' names) to the key that is meant.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    OTHER_NAMES: ClassVar[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file's values, and where each stands.

    source: the file's name as the user gave it. places: path -> `job.yaml:7:11` or `--set train.steps=5`.
    """

    source: str
    value: dict[str, Any]
    places: Mapping[Path, str]

    def place(self, path: Path) -> str:
        """Say where a path stands; for a key that is absent, where its parent stands."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return self.source

    def problem(self, path: Path, text: str) -> str:
        """Write one line about a path: place, dotted path, text."""
        dotted = dotted_path(path)
        return f"{self.place(path)}  {dotted}: {text}" if dotted else f"{self.place(path)}  {text}"

    def error(self, path: Path, text: str) -> BadInputError:
        """Make the error for one thing that is wrong at a path; the caller raises it."""
        return BadInputError(self.problem(path, text))


def problems_error(problems: Sequence[str]) -> BadInputError:
    """Make one error out of several lines, at most PROBLEMS_MAX of them."""
    shown = list(problems[:PROBLEMS_MAX])
    if len(problems) > PROBLEMS_MAX:
        shown.append(f"... and {len(problems) - PROBLEMS_MAX} more")
    return BadInputError("\n".join(shown))


def decode_text(data: bytes, source: str) -> str:
    """Read a file's bytes as UTF-8 text (a byte order mark is dropped)."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        text = f"{source}:{line}  byte 0x{data[error.start]:02x} is not UTF-8 text; save the file as UTF-8"
        raise BadInputError(text) from error


def read_document(text: str, source: str) -> Document:
    """Read YAML text whose top is a mapping of keys.

    Raises BadInputError with `source:line:column` for syntax errors, keys written twice, tags, and documents that are
    too deep or too large.
    """
    place = _in_file(source)
    node = _compose(text, source, place)
    if node is None:
        raise BadInputError(f"{source}  is empty; write keys and values, such as `name: first`")
    reader = _Reader(place)
    value = reader.value(node, ())
    if reader.problems:
        raise problems_error(reader.problems)
    if not isinstance(value, dict):
        raise BadInputError(f"{source}:1:1  must be a mapping (`key: value` lines), got {got_text(value)}")
    return Document(source=source, value=value, places=reader.places)


def override(document: Document, assignments: Sequence[str]) -> Document:
    """Apply `key.inner=value` settings on top of a document, in order; values are YAML, so lists and mappings work.

    Raises BadInputError naming the flag for a setting that has no `=`, no key, or goes through what is no mapping.
    """
    value: dict[str, Any] = json.loads(json.dumps(document.value))
    places = dict(document.places)
    for assignment in assignments:
        flag = f"--set {assignment}"
        key, equals, text = assignment.partition("=")
        path = tuple(key.strip().split("."))
        if not equals or not all(path):
            raise BadInputError(f"{flag}  must be KEY=VALUE, such as --set train.steps=5")
        reader = _Reader(partial(_in_flag, flag))
        node = _compose(text, flag, partial(_in_flag, flag))
        new = None if node is None else reader.value(node, path)
        if reader.problems:
            raise problems_error(reader.problems)
        _assign(value, path, new, flag)
        places = {known: place for known, place in places.items() if known[: len(path)] != path}
        places.update({path[:length]: flag for length in range(1, len(path)) if path[:length] not in places})
        places.update({path: flag, **reader.places})
    return Document(source=document.source, value=value, places=places)


def validate(document: Document, model: type[M]) -> M:
    """Check a document against a pydantic model and return the instance.

    Types are strict (a quoted number is text, `true` is no number). Raises BadInputError with one line a problem.
    """
    try:
        # JSON mode is the only one where strict lists may fill tuples.
        return model.model_validate_json(json.dumps(document.value), strict=True)
    except pydantic.ValidationError as error:
        problems: dict[Path, str] = {}
        for detail in error.errors(include_url=False):
            path = _real_path(document.value, detail["loc"], str(detail["type"]))
            problems.setdefault(path, document.problem(path, explain(model, path, dict(detail))))
        order = {path: number for number, path in enumerate(document.places)}
        paths = sorted(problems, key=lambda path: order.get(path, order.get(path[:-1], -1)))
        raise problems_error([problems[path] for path in paths]) from error


def _in_flag(flag: str, _line: int, _column: int) -> str:
    """Write a place in a flag's value: the flag itself."""
    return flag


def _compose(text: str, source: str, place: Callable[[int, int], str]) -> yaml.Node | None:
    """Parse YAML into nodes with marks."""
    if len(text) > TEXT_LENGTH_MAX:
        raise BadInputError(f"{source}  has {len(text):,} characters; at most {TEXT_LENGTH_MAX:,} are read")
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = place(mark.line, mark.column) if mark else source
        what = str(error.problem or error.context)
        if "'\\t'" in what:
            what = "a tab is used for indentation; use spaces"
        raise BadInputError(f"{where}  not valid YAML: {what}") from error
    except yaml.reader.ReaderError as error:
        where = place(text.count("\n", 0, error.position), 0)
        code = ord(error.character) if isinstance(error.character, str) else error.character
        raise BadInputError(f"{where}  character U+{code:04X} is not allowed in YAML") from error
    except RecursionError as error:
        raise BadInputError(f"{source}  is nested too deeply; at most {DEPTH_MAX} levels are read") from error
    return node


class _Loader(yaml.SafeLoader):
    """A loader that leaves plain scalars as text; `_Reader` gives them their types."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - the name and kind are PyYAML's


class _Reader:
    """Turns nodes into plain values, noting places and problems; bounded, so aliases can't explode."""

    def __init__(self, place: Callable[[int, int], str]) -> None:
        self._place_of = place
        self.places: dict[Path, str] = {}
        self.problems: list[str] = []
        self._values = 0

    def value(self, node: yaml.Node, path: Path) -> Any:
        """Read one node and everything below it."""
        self._values += 1
        if len(path) > DEPTH_MAX:
            raise BadInputError(f"{self._place(node)}  is nested too deeply; at most {DEPTH_MAX} levels are read")
        if self._values > VALUES_MAX:
            text = f"holds too many values (aliases counted); at most {VALUES_MAX:,} are read"
            raise BadInputError(f"{self._place(node)}  {text}")
        self.places.setdefault(path, self._place(node))
        if isinstance(node, yaml.MappingNode) and node.tag.endswith(":map"):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag.endswith(":seq"):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":str"):
            return self._scalar(node, path)
        self._problem(node, path, f"tags such as {node.tag} are not read; drop it")
        return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, path, "a key must be one word, not a list or mapping")
                continue
            key = self._checked_text(key_node, path)
            inner = (*path, key)
            if key == "<<":
                self._problem(key_node, inner, "merge keys are not read; write the keys out")
            elif key in result:
                self._problem(key_node, inner, f"written twice; first at {self.places[inner]}")
            else:
                self.places[inner] = self._place(key_node)
                result[key] = self.value(value_node, inner)
        return result

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text = self._checked_text(node, path)
        if node.style is not None:
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        is_integer = _INTEGER.fullmatch(text)
        if not is_integer and not NUMBER.fullmatch(text):
            return text
        if len(text) > DIGITS_MAX:
            self._problem(node, path, f"a number of {len(text)} digits is too long")
            return 0
        return int(text) if is_integer else float(text)

    def _checked_text(self, node: yaml.ScalarNode, path: Path) -> str:
        text: str = node.value
        # YAML's escapes can write all of these; some survive neither as file names nor as JSON, others fool a reader.
        bad = next((char for char in text if not is_plain(char)), None)
        if bad is not None:
            self._problem(node, path, f"holds the character U+{ord(bad):04X}, which can't be shown; leave it out")
            return ""
        return text

    def _problem(self, node: yaml.Node, path: Path, text: str) -> None:
        self.problems.append(f"{self._place(node)}  {dotted_path(path)}: {text}")

    def _place(self, node: yaml.Node) -> str:
        return self._place_of(node.start_mark.line, node.start_mark.column)


def _in_file(source: str) -> Callable[[int, int], str]:
    """Make the function that writes a place in a file from a line and column counted from 0."""
    return lambda line, column: f"{source}:{line + 1}:{column + 1}"


def _assign(value: dict[str, Any], path: Sequence[str], new: Any, flag: str) -> None:
    """Put a value at a path, making mappings on the way."""
    for depth, part in enumerate(path[:-1]):
        inner = value.get(part)
        if inner is None:
            inner = value[part] = {}
        if not isinstance(inner, dict):
            inner_path = dotted_path(tuple(path[: depth + 1]))
            raise BadInputError(f"{flag}  {inner_path} is {got_text(inner)}, so it has no keys to set")
        value = inner
    value[path[-1]] = new


def _real_path(value: Any, location: tuple[str | int, ...], kind: str) -> Path:
    """Reduce pydantic's location to the document's own path: names of union members and validators drop out."""
    path: list[str | int] = []
    for index, part in enumerate(location):
        in_mapping = isinstance(value, dict) and part in value
        in_list = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if in_mapping or in_list:
            value = value[part]
            path.append(part)
        elif kind == "missing" and index == len(location) - 1:
            path.append(part)
    return tuple(path)
