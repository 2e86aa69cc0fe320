"""Tables that fit their screen."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from argosy.cli.tables import column_widths, fitting, gap, made_table
from argosy.cli.words import console

COLUMNS = {
    "#": ["1", "2"],
    "chips": ["512 h800-sxm + 768 ascend-910b3", "8 h800-sxm"],
    "tokens/s": ["5.39 M", "76.82 k"],
}


def printed(width: int) -> list[str]:
    """Print a table on a screen of a width."""
    screen = Console(width=width)
    with screen.capture() as caught:
        screen.print(made_table(COLUMNS, width, ["chips"], ["#", "tokens/s"]))
    return caught.get().splitlines()


class TestWidths:
    @pytest.mark.parametrize("width", [26, 30, 45, 80, 120])
    def test_nothing_is_cut(self, width: int) -> None:
        """Whatever the width, all words of all columns are there, and no line is longer than the screen."""
        lines = printed(width)
        words = {word for texts in COLUMNS.values() for text in texts for word in text.split()}
        assert words <= set(" ".join(lines).split())
        assert max(map(len, lines)) <= width

    def test_what_matters_least_goes_first(self) -> None:
        """Columns are left out in the order given until the rest fits, and no more than that."""
        assert fitting(COLUMNS, 26, ["tokens/s", "#"]) == list(COLUMNS)
        assert fitting(COLUMNS, 20, ["tokens/s", "#"]) == ["#", "chips"]
        assert fitting(COLUMNS, 12, ["tokens/s", "#"]) == ["chips"]

    @given(
        st.dictionaries(st.text("ab ", min_size=1), st.lists(st.text("abc "), min_size=1), min_size=1),
        st.integers(1, 150),
    )
    @settings(derandomize=True, max_examples=60)
    def test_a_screen_is_never_overrun(self, columns: dict[str, list[str]], width: int) -> None:
        """Columns get what they can't do without, and what is more never passes the screen."""
        least = column_widths(columns, 0, [])
        shared = column_widths(columns, width, [])
        between = gap(width) * (len(columns) - 1)
        assert all(shared[title] >= least[title] for title in columns)
        assert sum(shared.values()) + between <= max(width, sum(least.values()) + between)


class TestConsole:
    @pytest.mark.parametrize(("columns", "width"), [("60", 60), ("", 110), ("wide", 110)])
    def test_columns_are_honoured(self, columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """COLUMNS says how wide the screen is also where there is no terminal."""
        monkeypatch.setenv("COLUMNS", columns)
        assert console(110).width == width
