"""What diagnosis knows: signatures, vendors' codes, classes of faults with what to do, and rules that join them.

Pure data and look-up. Must not know how it is written down (book_files.py), how logs are searched, nor how to judge.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from argosy.health.signature import Signature

UNKNOWN = "unknown"
NO_REMEDY = ("none", "follow_other")
"""What a code may say besides contracts.incident.REMEDIES: nothing need be done; another message tells what broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultClass:
    """One kind of fault.

    name: family and kind, such as `gpu.lost`. spreads: many hosts report one fault. own: a program does it to itself,
    whatever happens to machines and to other programs.
    """

    name: str
    meaning: str
    culprit: str
    remedy: str
    advice: str
    spreads: bool = False
    own: bool = False

    @property
    def family(self) -> str:
        """The part before the dot."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One code of a vendor's table, in our own words.

    action: what the vendor's own list says, such as `reset_gpu`. remedy: of contracts.incident.REMEDIES or NO_REMEDY.
    fault_class: empty for codes that speak for no fault. strength: as of a signature.
    """

    code: str
    meaning: str
    action: str
    remedy: str
    fault_class: str = ""
    strength: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTable:
    """A vendor's codes. what: how a person calls one, such as `Xid`."""

    name: str
    what: str
    source: str
    codes: Mapping[str, Code]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What several sightings mean together.

    all, any, none: names of signatures, `*` at the end for any rest. The rule takes the place of the causes it is
    made of.
    """

    name: str
    fault_class: str
    meaning: str
    strength: int
    all: tuple[str, ...]
    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """All of it. table_of: signature name -> name of the table in which its field `code` is looked up.

    examples: signature name -> a line that it matches. families: name -> meaning.
    """

    signatures: tuple[Signature, ...]
    families: Mapping[str, str]
    classes: Mapping[str, FaultClass]
    tables: Mapping[str, CodeTable]
    table_of: Mapping[str, str]
    rules: tuple[Rule, ...]
    examples: Mapping[str, str]

    def fault_class(self, name: str) -> FaultClass:
        """Look a class up; one that isn't in the book is the unknown one."""
        return self.classes.get(name, self.classes[UNKNOWN])

    def code(self, signature: str, code: str) -> Code | None:
        """Look up the code that a sighting of a signature carries; None for unknown ones and for other signatures."""
        table = self.tables.get(self.table_of.get(signature, ""))
        return table.codes.get(code.upper().removeprefix("0X")) if table else None
