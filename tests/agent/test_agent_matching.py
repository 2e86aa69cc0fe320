"""Searches that end in time."""

import re

from argosy.agent.matching import BoundedSearch


class TestBoundedSearch:
    def test_it_finds_what_a_pattern_looks_for(self):
        """A search that ends by itself tells what it found."""
        search = BoundedSearch()
        assert [search.found(re.compile("b+"), text) for text in ("abc", "ac")] == [True, False]

    def test_it_breaks_off_what_would_never_end(self):
        """A search that tries exponentially many ways is broken off, and the next one works."""
        search = BoundedSearch(limit_s=0.02)
        assert search.found(re.compile("(x+x+)+y"), "x" * 40) is None
        assert search.found(re.compile("x"), "x") is True
