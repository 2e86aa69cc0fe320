"""Quantities as people write them."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Nics
from argosy.contracts.units import (
    parse_bytes,
    parse_count,
    parse_duration_s,
    parse_gbps,
    parse_nics,
    parse_switch,
    show,
)

PARSERS = (parse_duration_s, parse_nics, parse_gbps, parse_bytes, parse_count, parse_switch)
ANYTHING = st.one_of(
    st.text(max_size=12),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.lists(st.integers(), max_size=2),
    st.from_regex(r"[0-9]{1,3}[xX]?[0-9.]{0,4}[a-zA-Z]{0,3}", fullmatch=True),
)


class TestDuration:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("40h", 144000),
            ("10m", 600),
            ("90s", 90),
            ("1h30m", 5400),
            ("250ms", 0.25),
            ("2d", 172800),
            (7, 7),
            ("7", 7),
        ],
    )
    def test_durations_are_seconds(self, text, seconds):
        """Every unit, their sums and bare numbers are read as seconds."""
        assert parse_duration_s(text) == seconds

    @pytest.mark.parametrize(
        "value", ["", "h", "40 parsecs", "-3h", "1h x", -1, math.inf, math.nan, True, None, "1e999s"]
    )
    def test_other_values_are_refused(self, value):
        """Unknown units, negative and endless times, and what is no time are refused."""
        with pytest.raises(BadInputError):
            parse_duration_s(value)

    def test_an_unknown_unit_is_named(self):
        """The error names the unit that is wrong and those that exist."""
        with pytest.raises(BadInputError, match=r"unknown unit of time 'parsecs' in '40 parsecs'; units are us, ms, s"):
            parse_duration_s("40 parsecs")

    @given(st.floats(min_value=0, max_value=1e12))
    def test_numbers_pass_unchanged(self, seconds):
        """A number of seconds stays what it is, as a number and as text."""
        assert parse_duration_s(seconds) == seconds
        assert parse_duration_s(f"{seconds!r}s") == seconds


class TestNics:
    @pytest.mark.parametrize(
        ("text", "count", "gbps"),
        [("8x400G", 8, 400), ("400G", 1, 400), ("2 x 1.6T", 2, 1600), ("4x100Gb/s", 4, 100), ("1x250M", 1, 0.25)],
    )
    def test_cards_times_rate(self, text, count, gbps):
        """`8x400G` is eight cards of 400 Gb/s; T and M are read too."""
        assert parse_nics(text) == Nics(count=count, gbps=gbps)

    def test_bytes_are_refused_by_name(self):
        """GB in a link rate is a mistake of eight times, so it's pointed out."""
        with pytest.raises(BadInputError, match=r"rates are in bits \(G\), not bytes \(GB\)"):
            parse_nics("8x400GB")

    @pytest.mark.parametrize("value", ["0x400G", "8x0G", "8x", "x400G", "8", 400, None, "-1x400G"])
    def test_no_network_is_refused(self, value):
        """No cards, no rate and no unit are refused."""
        with pytest.raises(BadInputError):
            parse_nics(value)

    def test_a_rate_is_a_number_or_text(self):
        """A link's rate is a number of Gb/s or text with its unit."""
        assert (parse_gbps(400), parse_gbps("1.6T")) == (400, 1600)


class TestCount:
    @pytest.mark.parametrize(
        ("value", "count"), [(12, 12), ("20k", 20000), ("1.5M", 1500000), ("1,000", 1000), ("1_000", 1000), (3.0, 3)]
    )
    def test_counts_with_suffixes(self, value, count):
        """Whole numbers, thousands marks and k, M, G, T are read."""
        assert parse_count(value) == count

    @pytest.mark.parametrize("value", ["1.5", 0.5, "-3", -3, True, "many", "", "1e999", None, "0.0001k"])
    def test_what_is_not_whole_is_refused(self, value):
        """Fractions, negative numbers and words are refused."""
        with pytest.raises(BadInputError):
            parse_count(value)

    @given(st.integers(0, 10**15))
    def test_any_whole_number_survives(self, count):
        """A whole number is itself, as a number and with thousands marks."""
        assert parse_count(count) == parse_count(f"{count:,}") == count


class TestOthers:
    def test_bytes_are_decimal_unless_told(self):
        """1 GB is 10^9 bytes, 1 GiB is 2^30."""
        assert (parse_bytes("1.5GB"), parse_bytes("1GiB"), parse_bytes(7)) == (1.5e9, 2**30, 7)

    def test_switches(self):
        """yes, on, true and their opposites in any case."""
        assert [parse_switch(value) for value in ("yes", "ON", True, "no", "Off", False)] == [True] * 3 + [False] * 3

    def test_values_are_shown_short(self):
        """A value in an error stays on one short line, switches as YAML writes them."""
        assert show("a" * 500) == "'" + "a" * 56 + "..."
        assert (show("a\nb"), show(True), show(None), show([1])) == (r"'a\nb'", "true", "nothing", "[1]")

    @given(ANYTHING)
    def test_parsers_never_fall_over(self, value):
        """Whatever is written, a parser answers or raises BadInputError."""
        for parser in PARSERS:
            with contextlib.suppress(BadInputError):
                assert parser(value) is not None
