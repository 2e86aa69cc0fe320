"""Text that a screen shows as it is."""

from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.plain import is_plain, plain_text


class TestPlain:
    def test_escapes(self) -> None:
        """What a terminal would obey, or what turns text around, is written as an escape."""
        assert plain_text("a\x1b[2J \u202eb\ngr\u00fc\u00dfe") == "a\\x1b[2J \\u202eb\ngr\u00fc\u00dfe"

    @given(st.text())
    def test_the_result_is_plain(self, text: str) -> None:
        """Whatever goes in, what comes out is plain and stays as it is."""
        assert all(map(is_plain, plain_text(text)))
        assert plain_text(plain_text(text)) == plain_text(text)
