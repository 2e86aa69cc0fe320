"""Search of bytes for signatures: literals over whole blocks at once, patterns on the few lines that hold one.

The literals of all signatures are searched for at once (hyperscan), blind to case, so that a block is read once however
many signatures there are. Must not know where bytes come from, nor what a signature means.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hyperscan import HS_FLAG_CASELESS, HS_FLAG_SINGLEMATCH, HS_MODE_BLOCK, Database

from argosy.contracts.errors import BadInputError
from argosy.health.signature import Signature

# A line is tried no wider than this around the literal, so that a line of a gigabyte costs no more than any other.
BEFORE_BYTES, AFTER_BYTES = 2_048, 6_144
SHAPES_MAX, SHAPE_BYTES_MAX = 8_192, 1_024
_SHAPE = bytes.maketrans(b"123456789", b"000000000")
# What may stand in a pattern without making it care which digit it meets: counts, and all digits alike.
_BLIND = re.compile(r"\\d|0-9|\{\d*,?\d*\}|\(\?P<\w+>|\(\?P=\w+\)")

# What makes a pattern match a part of a line although it doesn't match the whole.
_ANCHORED = re.compile(r"\^|\\A|\(\?<[!=]|\\\[\[?[IWEFVC]|\(\?![^)]*\.\*")


# Not frozen, which would double the time that one takes to make, for they come by the million.
@dataclass(slots=True, kw_only=True)
class Hit:
    """A line of a block that holds a literal: its bytes, clipped, and where in the block they begin.

    shape: the line with all digits alike. candidates: the signatures to try, by their places in `Scanner.signatures`.
    """

    line: bytes
    shape: bytes
    start: int
    candidates: tuple[int, ...]


class Scanner:
    """Finds lines that hold a literal of any of the signatures, and tells which signatures a line matches.

    trying: whose pattern is being searched for at this moment; tried: how many searches were begun.
    """

    def __init__(self, signatures: Sequence[Signature]) -> None:
        """Compile the signatures; raises BadInputError naming the one whose pattern or literals can't be used."""
        self.signatures = tuple(signatures)
        self.trying: Signature | None = None
        self.tried = 0
        self._patterns = tuple(_compiled(signature) for signature in self.signatures)
        self._blind = tuple(not re.search(r"\d", _BLIND.sub("", one.pattern)) for one in self.signatures)
        self._loose = tuple(_ANCHORED.search(one.pattern) is None for one in self.signatures)
        # What to try on lines of a shape; False where that depends on a line's digits.
        self._shapes: dict[bytes, tuple[tuple[int, ...], bool]] = {}
        self._dull: set[bytes] = set()
        # What looks like a fault and is none matters only on lines that something else matches as well.
        self._search = _Literals([one for one in self.signatures if one.role != "harmless"], bytes)
        self._literals = _Literals(self.signatures, bytes)
        # A literal with digits may stand in one line and not in another of the same shape.
        self._numbered = _Literals(self.signatures, _numbered_shape)

    def hits(self, block: bytes, start: int = 0) -> Iterator[Hit]:
        """Find the lines that hold a literal which ends behind `start`, in order; carriage returns end lines too.

        Lines that are `dull` are left out.
        """
        done, returns = start, b"\r" in block
        for begin, end in self._search.found(block):
            if end <= done or (block[end : end + 2] == b"]:" and _is_prefix(block, begin, end)):
                continue
            # This loop runs for every line of some logs, so it calls nothing of ours unless it must.
            first = block.rfind(b"\n", max(0, begin - BEFORE_BYTES), begin) + 1 or max(0, begin - BEFORE_BYTES)
            done = block.find(b"\n", end, end + AFTER_BYTES)
            if done < 0:
                done = min(len(block), end + AFTER_BYTES)
            if returns:
                first = block.rfind(b"\r", first, begin) + 1 or first
                stop = block.find(b"\r", end, done)
                done = stop if stop >= 0 else done
            line = block[first:done]
            shape = line.translate(_SHAPE)
            known = self._shapes.get(shape)
            if known is None:
                known = self._learnt(line, shape)
            candidates, exact = known
            if candidates and not exact:
                there = self.candidates(line)
                candidates = tuple(index for index in candidates if index in there)
            if candidates:
                yield Hit(line=line, shape=shape, start=first, candidates=candidates)

    def candidates(self, line: bytes) -> tuple[int, ...]:
        """Tell which signatures have a literal in a line, by their places in `signatures`."""
        return self._literals.owners(line)

    def note_dull(self, hit: Hit) -> None:
        """Note that a line means nothing, so that lines which differ from it in digits alone needn't be tried.

        Training logs are such lines by the million. Patterns and literals that ask for certain digits are tried.
        """
        if len(hit.shape) <= SHAPE_BYTES_MAX and hit.shape not in self._dull:
            self._dull.add(hit.shape)
            numbered = self._numbered.owners(hit.shape)
            left = [index for index in hit.candidates if not self._blind[index] and index not in numbered]
            wanted = {index for index in (*left, *numbered) if self.signatures[index].role != "harmless"}
            # Whoever is left to be tried may stand in harmless words again.
            calm = (index for index in hit.candidates if self.signatures[index].role == "harmless")
            self._shapes[hit.shape] = tuple(sorted(wanted.union(calm))) if wanted else (), not numbered

    def _learnt(self, line: bytes, shape: bytes) -> tuple[tuple[int, ...], bool]:
        """Find out which signatures lines of a shape may match, and whether that is so for all of them."""
        numbered = self._numbered.owners(shape)
        known = tuple(sorted({*self.candidates(line), *numbered})), not numbered
        if len(shape) <= SHAPE_BYTES_MAX:
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
                self._dull.clear()
            self._shapes[shape] = known
        return known

    def may_match(self, index: int, whole: str) -> bool:
        """Tell, before a line's head is taken off, whether a signature's pattern may match what is left."""
        return not self._loose[index] or whole.startswith("{") or self._found(index, whole) is not None

    def match(self, index: int, text: str) -> dict[str, str] | None:
        """Try a signature's pattern on a line's text; gives the named groups that matched, or None."""
        found = self._found(index, text)
        return None if found is None else {name: value for name, value in found.groupdict().items() if value}

    def _found(self, index: int, text: str) -> re.Match[str] | None:
        self.trying = self.signatures[index]
        self.tried += 1
        found = self._patterns[index].search(text)
        self.trying = None
        return found


class Needles:
    """A few texts that are looked for in many blocks, three times as fast as Python's own search.

    >>> Needles(b"Timeout (", b"Traceback").stand_in(b"... Timeout (0:01:00)!")
    True
    """

    def __init__(self, *texts: bytes) -> None:
        """Compile the texts, of which none may be empty."""
        self._found = False
        self._database = Database(mode=HS_MODE_BLOCK)
        flags, numbers = [HS_FLAG_SINGLEMATCH] * len(texts), list(range(len(texts)))
        self._database.compile(list(texts), numbers, elements=len(texts), flags=flags, literal=True)

    def stand_in(self, block: bytes) -> bool:
        """Tell whether any of them stands in a block."""
        self._found = False
        self._database.scan(block, match_event_handler=self._note)
        return self._found

    def _note(self, _number: int, _begin: int, _end: int, _flags: int, _context: object) -> None:
        self._found = True


class _Literals:
    """The literals of signatures, compiled to be searched for at once, and whose they are."""

    def __init__(self, signatures: Sequence[Signature], form: Callable[[bytes], bytes]) -> None:
        """Compile them. form: what becomes of a literal; an empty one is left out."""
        owners: dict[bytes, set[int]] = {}
        for index, signature in enumerate(signatures):
            for literal in signature.literals:
                text = form(literal.encode().lower())
                if text:
                    owners.setdefault(text, set()).add(index)
        self._owners = tuple(owners.values())
        self._sizes = tuple(map(len, owners))
        self._database = Database(mode=HS_MODE_BLOCK) if owners else None
        if self._database is not None:
            flags = [HS_FLAG_CASELESS] * len(owners)
            numbers = list(range(len(owners)))
            self._database.compile(list(owners), numbers, elements=len(owners), flags=flags, literal=True)

    def found(self, block: bytes) -> list[tuple[int, int]]:
        """Find where literals stand: begin and end of each, by their ends."""
        sizes = self._sizes
        return [(end - sizes[number], end) for end, number in self._matches(block)]

    def owners(self, line: bytes) -> tuple[int, ...]:
        """Tell whose literals stand in a line."""
        found = ((number, end - self._sizes[number], end) for end, number in self._matches(line))
        literals = {number for number, begin, end in found if not _is_prefix(line, begin, end)}
        return tuple(sorted({owner for number in literals for owner in self._owners[number]}))

    def _matches(self, text: bytes) -> list[tuple[int, int]]:
        """Find end and number of every literal in a text, in order."""
        matches: list[tuple[int, int]] = []

        def note(number: int, _begin: int, end: int, _flags: int, _context: object) -> None:
            matches.append((end, number))

        if self._database is not None:
            self._database.scan(text, match_event_handler=note)
        return sorted(matches)


def shape_of(block: bytes) -> bytes:
    """Give a text with all digits alike."""
    return block.translate(_SHAPE)


def _numbered_shape(literal: bytes) -> bytes:
    """Give the shape of a literal that has digits; nothing for others."""
    return literal.translate(_SHAPE) if re.search(rb"\d", literal) else b""


def _is_prefix(line: bytes, begin: int, end: int) -> bool:
    """Tell a launcher's prefix, such as `[rank0]:`, which stands before every line of a rank and is no part of it."""
    return line[end : end + 2] == b"]:" and line[begin - 1 : begin] == b"["


def _compiled(signature: Signature) -> re.Pattern[str]:
    if not signature.literals or not all(signature.literals):
        raise BadInputError(f"signature {signature.name}: literals: write at least one text, and no empty one")
    try:
        return re.compile(signature.pattern, re.IGNORECASE if signature.ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadInputError(f"signature {signature.name}: pattern: not a regular expression: {error}") from error
