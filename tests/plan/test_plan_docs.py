"""The example in docs/plan.md is what the program prints."""

import re
from pathlib import Path
from typing import Any

import pytest

from argosy.cli.main import main

ROOT = Path(__file__).parents[2]
ENDS = re.compile(r"ends about [\d :-]+")


def lines(text: str) -> list[str]:
    """Give the lines of a text, blanks at their ends and the date left out."""
    return [ENDS.sub("ends about ...", line.rstrip()) for line in text.strip().splitlines()]


class TestExample:
    @pytest.mark.slow
    def test_as_printed(self, capsys: Any, monkeypatch: Any) -> None:
        """The command in the first example prints what stands below it, but for the date."""
        monkeypatch.chdir(ROOT)
        block = Path("docs/plan.md").read_text("utf-8").split("```")[1].strip()
        command, shown = block.split("\n", 1)
        assert main(command.removeprefix("$ argosy ").split()) == 0
        assert lines(capsys.readouterr().out) == lines(shown)
