"""The form in which knowledge is written down: YAML with families, classes, tables of codes, signatures and rules.

A user's file of patterns has the same form as those that come with Argosy, and every mistake in it is told with its
place. Must not open a file, nor judge.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

import yaml
from pydantic import Field

from argosy.contracts.documents import Document, Section, problems_error, read_document, validate
from argosy.contracts.explain import Path, nearest
from argosy.health.book import Book, Code, CodeTable, FaultClass, Rule
from argosy.health.signature import Role, Signature

Remedy = Literal["restart_in_place", "cordon_replace", "fix_user_code", "fix_config", "retry"]
AnyRemedy = Remedy | Literal["none", "follow_other"]
Kind = Literal["rank", "chip", "host", "link", "code", "configuration", "unknown"]
Layer = Literal["kernel", "driver", "fabric", "storage", "runtime", "framework", "user", "launcher", "scheduler"]
Strength = Annotated[int, Field(ge=1, le=3)]
Text = Annotated[str, Field(min_length=1, max_length=4_000)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)*$", max_length=80)]
Names = tuple[Annotated[str, Field(min_length=1)], ...]


class ClassRow(Section):
    """One class of faults."""

    meaning: Text
    culprit: Kind
    remedy: Remedy
    advice: Text
    spreads: bool = False
    own: bool = False


class SignatureRow(Section):
    """One signature; what it leaves out comes from its class and from the file."""

    name: Name
    pattern: Text
    literals: Annotated[tuple[Text, ...], Field(min_length=1)]
    role: Role = "cause"
    layer: Layer | None = None
    fault_class: str = ""
    meaning: str = ""
    culprit: Kind | None = None
    remedy: Remedy | None = None
    advice: str = ""
    strength: Strength = 2
    ignore_case: bool = False
    codes: str = ""
    example: str = ""
    sources: tuple[str, ...] = ()


class CodesRow(Section):
    """Codes of one table that mean the same."""

    codes: Annotated[tuple[int | str, ...], Field(min_length=1)]
    meaning: Text
    action: Text
    remedy: AnyRemedy
    fault_class: str = ""
    strength: Strength = 3


class TableRow(Section):
    """One vendor's table of codes."""

    table: Name
    what: Text
    source: Text
    codes: tuple[CodesRow, ...]


class RuleRow(Section):
    """What several sightings mean together."""

    name: Name
    fault_class: str
    meaning: Text
    strength: Strength = 2
    all: Annotated[Names, Field(min_length=1)]
    any: Names = ()
    none: Names = ()


class BookFile(Section):
    """One file of knowledge. layer: who prints the signatures, where they do not say so themselves."""

    layer: Layer = "framework"
    families: dict[Name, Text] = Field(default_factory=dict)
    classes: dict[Name, ClassRow] = Field(default_factory=dict)
    tables: tuple[TableRow, ...] = ()
    signatures: tuple[SignatureRow, ...] = ()
    rules: tuple[RuleRow, ...] = ()


def _unwatched(_signature: str) -> None:
    """Take note of nothing."""


def read_book(
    own: Mapping[str, str], users: Mapping[str, str] | None = None, trying: Callable[[str], None] = _unwatched
) -> Book:
    """Read the files that come with Argosy (`own`: name -> text), then a user's, whose signatures come first.

    trying: is told whose example is searched, and an empty name after it, for a pattern may search for hours.
    Raises BadInputError with file, line and what is allowed.
    """
    added = [_Read.of(read_document(text, name), trying) for name, text in (users or {}).items()]
    return _joined([*added, *(_Read.of(_fast_document(text, name)) for name, text in own.items())])


class _Read:
    """One file, checked by itself, with the places of its parts."""

    def __init__(self, document: Document, file: BookFile, trying: Callable[[str], None]) -> None:
        self.document = document
        self.file = file
        self.trying = trying

    @classmethod
    def of(cls, document: Document, trying: Callable[[str], None] = _unwatched) -> "_Read":
        return cls(document, validate(document, BookFile), trying)


def _fast_document(text: str, name: str) -> Document:
    """Read a file of our own: the parser in C tells no places, but tests have read these files already."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return Document(source=name, value=yaml.load(text, Loader=loader), places={})


def _joined(read: Sequence[_Read]) -> Book:
    families: dict[str, str] = {}
    classes: dict[str, FaultClass] = {}
    tables: dict[str, CodeTable] = {}
    for each in reversed(read):
        families |= each.file.families
        classes |= {name: FaultClass(name=name, **row.model_dump()) for name, row in each.file.classes.items()}
        tables |= {row.table: _table(row) for row in each.file.tables}
    problems = [problem for each in read for problem in _problems(each, classes, families, tables)]
    problems += _twice(read)
    if problems:
        raise problems_error(problems)
    rows = [(row, each.file.layer) for each in read for row in each.file.signatures]
    return Book(
        signatures=tuple(_signature(row, layer, classes) for row, layer in rows),
        families=families,
        classes=classes,
        tables=tables,
        table_of={row.name: row.codes for row, _ in rows if row.codes},
        rules=tuple(Rule(**row.model_dump()) for each in read for row in each.file.rules),
        examples={row.name: row.example for row, _ in rows if row.example},
    )


def _table(row: TableRow) -> CodeTable:
    codes = {}
    for group in row.codes:
        for code in group.codes:
            values = {**group.model_dump(exclude={"codes"}), "code": str(code).upper()}
            codes[values["code"]] = Code(**values)
    return CodeTable(name=row.table, what=row.what, source=row.source, codes=codes)


def _signature(row: SignatureRow, layer: str, classes: Mapping[str, FaultClass]) -> Signature:
    known = classes.get(row.fault_class) or classes["unknown"]
    return Signature(
        name=row.name,
        meaning=row.meaning or known.meaning,
        role=row.role,
        layer=row.layer or layer,
        literals=row.literals,
        pattern=row.pattern,
        fault_class=row.fault_class,
        culprit=row.culprit or known.culprit,
        remedy=row.remedy or known.remedy,
        advice=row.advice or known.advice,
        strength=row.strength,
        ignore_case=row.ignore_case,
        sources=row.sources,
    )


def _problems(
    read: _Read, classes: Mapping[str, FaultClass], families: Mapping[str, str], tables: Mapping[str, CodeTable]
) -> Iterator[str]:
    """Find what one file names and nobody knows, and patterns that can't be right."""
    say = read.document.problem
    for name in read.file.classes:
        if name.partition(".")[0] not in {*families, "unknown"}:
            yield say(("classes", name), _not_known("family", name.partition(".")[0], families))
    for index, row in enumerate(read.file.signatures):
        at = ("signatures", index)
        if row.fault_class and row.fault_class not in classes:
            yield say((*at, "fault_class"), _not_known("class", row.fault_class, classes))
        if row.codes and row.codes not in tables:
            yield say((*at, "codes"), _not_known("table of codes", row.codes, tables))
        if row.role == "cause" and not row.fault_class and not row.codes:
            yield say(at, f"{row.name}: a cause needs fault_class, such as gpu.lost")
        yield from _pattern_problems(read, at, row)
    rows: list[tuple[Path, str]] = [(("rules", place), row.fault_class) for place, row in enumerate(read.file.rules)]
    for index, table in enumerate(read.file.tables):
        rows += [(("tables", index, "codes", place), group.fault_class) for place, group in enumerate(table.codes)]
    for path, name in rows:
        if name and name not in classes:
            yield say((*path, "fault_class"), _not_known("class", name, classes))


def _pattern_problems(read: _Read, at: Path, row: SignatureRow) -> Iterator[str]:
    say = read.document.problem
    try:
        pattern = re.compile(row.pattern, re.IGNORECASE if row.ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        yield say((*at, "pattern"), f"{row.name}: not a regular expression: {error}")
        return
    if row.codes and not {"code", "signal"} & set(pattern.groupindex):
        yield say((*at, "pattern"), f"{row.name}: codes need a named group: (?P<code>...)")
    if not row.example:
        return
    read.trying(row.name)
    found = pattern.search(row.example)
    read.trying("")
    if not found:
        yield say((*at, "example"), f"{row.name}: the pattern does not match its example")
    elif not any(literal.lower() in row.example.lower() for literal in row.literals):
        yield say((*at, "literals"), f"{row.name}: the example holds none of the literals, so it would never be tried")


def _twice(read: Sequence[_Read]) -> Iterator[str]:
    """Find names that two signatures or rules share."""
    seen: set[tuple[str, str]] = set()
    for each in read:
        names = [(("signatures", at), row.name) for at, row in enumerate(each.file.signatures)]
        names += [(("rules", at), row.name) for at, row in enumerate(each.file.rules)]
        for (kind, at), name in names:
            if (kind, name) in seen:
                yield each.document.problem((kind, at, "name"), f"{name}: the name is taken; choose another")
            seen.add((kind, name))


def _not_known(what: str, name: str, known: Mapping[str, object]) -> str:
    near = nearest(name, known)
    hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(known)[:20])}"
    return f"no {what} {name!r}{hint}"
