"""Search of blocks for signatures."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.health.origins import read_head
from argosy.health.scanner import Scanner
from support.sightings import SIGNATURES, make_signature

SCANNER = Scanner(SIGNATURES)


class TestHits:
    def test_lines_with_a_literal_are_found_once(self) -> None:
        """A line counts once however many literals it holds, whatever their case; others not at all."""
        block = b"one\nXID xid CUDA OUT OF MEMORY\ntwo\nprogress\rcuda out of memory\r\nthree"
        assert [hit.line for hit in SCANNER.hits(block)] == [b"XID xid CUDA OUT OF MEMORY", b"cuda out of memory"]

    def test_what_was_searched_before_is_skipped(self) -> None:
        """Literals that end within the first bytes were seen with the block before."""
        assert [hit.start for hit in SCANNER.hits(b"Xid\nXid\n", 3)] == [4]

    def test_long_lines_are_clipped(self) -> None:
        """Of a line without end only what is around the literal is cut out."""
        block = b"x" * 100_000 + b"Xid" + b"y" * 100_000
        (hit,) = SCANNER.hits(block)
        assert len(hit.line) < 10_000
        assert b"Xid" in hit.line

    def test_no_signatures_find_nothing(self) -> None:
        """Without signatures there is nothing to search for."""
        assert (list(Scanner(()).hits(b"Xid")), Scanner(()).candidates(b"Xid")) == ([], ())

    @given(
        st.lists(st.sampled_from(["Xid", "xi", "CUDA out of memory", "CUDA out", "\n", "\r", " ", "a"]), max_size=30)
    )
    def test_it_finds_the_lines_that_plain_search_finds(self, pieces: list[str]) -> None:
        """The lines found are those in which some literal stands, no more and no fewer."""
        text = "".join(pieces)
        lines = [
            line for line in re.split(r"[\r\n]", text) if "xid" in line.lower() or "cuda out of memory" in line.lower()
        ]
        assert [hit.line.decode() for hit in SCANNER.hits(text.encode())] == lines


class TestMatch:
    def test_all_signatures_with_a_literal_are_candidates(self) -> None:
        """Literals that overlap hide none of their signatures."""
        scanner = Scanner(
            [make_signature(name, name) for name in ("timed out", "timed out waiting", "out wait", "other")]
        )
        assert scanner.candidates(b"Timed out waiting for x") == (0, 1, 2)

    def test_named_groups_become_fields(self) -> None:
        """Groups that matched are given, empty ones are not."""
        scanner = Scanner([make_signature("peer", r"peer (?P<peer>\d+)(?P<host> on \w+)?", "peer")])
        assert scanner.match(0, "waits for peer 3") == {"peer": "3"}
        assert scanner.match(0, "peer 4 on b") == {"peer": "4", "host": " on b"}
        assert scanner.match(0, "nothing") is None


class TestMayMatch:
    @given(
        st.sampled_from([r"^out", r"(?<!x)out", r"out of", r"\bout(?! of)", r"(?!.*bad)out", r"\[E X"]),
        st.sampled_from(
            ["[rank3]: out of", "3: xout of bad", "[E1130 14:02:11.2 X.cpp] out", "bad | out x", '{"log": "out"}']
        ),
    )
    def test_it_never_rules_out_a_match(self, pattern: str, line: str) -> None:
        """What is ruled out by the whole line doesn't match without its head either."""
        scanner = Scanner([make_signature("any", pattern, "out")])
        matches = scanner.match(0, read_head(line).text) is not None
        assert scanner.may_match(0, line) or not matches


class TestDullLines:
    def test_lines_that_differ_in_digits_alone_are_tried_once(self) -> None:
        """What matched nothing is not tried again with other numbers, unless a literal or pattern asks for them."""
        scanner = Scanner([make_signature("any", r"Xid \d{2}!", "Xid"), make_signature("code", "Xid 79", "79")])
        block = b"step 10 Xid\nstep 11 Xid\nstep 79 Xid\nstep 12 Xid 13!\n"
        first, *rest = scanner.hits(block)
        scanner.note_dull(first)
        assert len(rest) == 3
        assert [hit.line for hit in scanner.hits(block)] == [b"step 79 Xid", b"step 12 Xid 13!"]

    def test_patterns_that_ask_for_digits_are_tried(self) -> None:
        """A line whose shape was dull may still match a pattern that names a number."""
        scanner = Scanner([make_signature("code", "Xid 79", "Xid"), make_signature("range", "Xid [1-3]", "Xid")])
        (hit,) = scanner.hits(b"Xid 45")
        scanner.note_dull(hit)
        assert [hit.candidates for hit in scanner.hits(b"Xid 79")] == [(0, 1)]

    def test_literals_with_digits_are_seen(self) -> None:
        """A line whose shape was dull may hold a literal that the first of its shape did not."""
        scanner = Scanner([make_signature("any", "x ready", "ready"), make_signature("code", r"Error \d+: not", "802")])
        (hit,) = scanner.hits(b"Error 500: not ready")
        scanner.note_dull(hit)
        assert [hit.candidates for hit in scanner.hits(b"Error 501: not ready\nError 802: not ready")] == [(1,)]

    @given(st.lists(st.sampled_from(["Xid 5: 1", "Xid (PCI:0): 7", "Xid (PCI:0): x", "CUDA out of memory 3", "a"])))
    def test_it_changes_nothing_that_is_found(self, lines: list[str]) -> None:
        """Leaving dull lines out leaves out no match."""
        scanner = Scanner(SIGNATURES)
        found = []
        for hit in scanner.hits("\n".join(lines).encode()):
            matches = [index for index in hit.candidates if scanner.match(index, hit.line.decode()) is not None]
            found += [hit.line.decode()] if matches else []
            if not matches:
                scanner.note_dull(hit)
        assert found == [line for line in lines if line in ("Xid (PCI:0): 7", "CUDA out of memory 3")]


class TestSignatures:
    @pytest.mark.parametrize(
        ("fields", "problem"),
        [
            ({"pattern": "("}, "pattern: not a regular"),
            ({"literals": ()}, "literals"),
            ({"literals": ("",)}, "literals"),
        ],
    )
    def test_broken_ones_are_refused_by_name(self, fields: dict[str, Any], problem: str) -> None:
        """A pattern that doesn't compile, or no literal, is told with the signature's name."""
        with pytest.raises(BadInputError, match=f"signature mine: {problem}"):
            Scanner([make_signature("mine", **({"pattern": "x"} | fields))])
