"""How the script begins."""

import pytest

from argosy import __version__
from argosy.cli import start


class TestStart:
    def test_hands_over(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        """It runs the command line and gives its code."""
        monkeypatch.setattr("sys.argv", ["argosy", "--version"])
        monkeypatch.setattr("argosy.cli.main.keep_output", lambda: None)
        assert start.main() == 0
        assert capsys.readouterr().out == f"argosy {__version__}\n"

    def test_interrupted_while_loading(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Ctrl-C while modules load ends in one line and the code of an interrupt, without a traceback."""

        def interrupt(_name: str) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(start, "import_module", interrupt)
        assert start.main() == 130
        assert capsys.readouterr().err == "interrupted\n"
