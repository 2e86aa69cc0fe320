"""What every benchmark's command line does with arguments that can't be."""

import argparse

import pytest

from argosy.contracts.errors import BadInputError
from command import start, whole_number


class TestWholeNumber:
    @pytest.mark.parametrize("text", ["0", "-3", "1.5", "\u00b2", "", "10000001", "many"])
    def test_refused(self, text: str) -> None:
        """What counts something is a whole number from 1 to a stated limit."""
        with pytest.raises(argparse.ArgumentTypeError, match="from 1 to 10,000,000, got"):
            whole_number(text)

    def test_read(self) -> None:
        """Other numbers are taken as they are."""
        assert whole_number("12") == 12


class TestStart:
    @pytest.fixture(autouse=True)
    def streams(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Leave this process's descriptors alone."""
        monkeypatch.setattr("command.keep_output", lambda: None)

    def test_a_mistake_is_a_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A user's mistake is told in a line, and the exit code says which kind it was."""

        def main() -> None:
            raise BadInputError("--chips: no such chip")

        with pytest.raises(SystemExit) as left:
            start(main)
        assert left.value.code == BadInputError.exit_code
        assert capsys.readouterr().err == "error: --chips: no such chip\n"

    def test_a_code_is_passed_on(self) -> None:
        """What main answers is what the process leaves with."""
        for code, expected in ((None, 0), (0, 0), (3, 3)):
            with pytest.raises(SystemExit) as left:
                start(lambda code=code: code)
            assert left.value.code == expected
