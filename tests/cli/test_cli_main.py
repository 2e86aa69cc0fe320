"""The table of commands, and the exit code and text that every kind of error leaves with."""

import json
import os
import subprocess
import sys
from importlib import import_module

import pytest

from argosy import __version__
from argosy.cli import main as cli
from argosy.contracts.errors import (
    ArgosyError,
    BadInputError,
    InfrastructureError,
    InterruptedByUserError,
    NeverFitsError,
    UserCodeError,
)


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    """Let the command line end in an error; give its exit code."""

    def run(arguments: object) -> int:
        raise error

    monkeypatch.setattr(cli, "_run", run)
    return cli.main(["x"])


class TestCommands:
    @pytest.mark.parametrize("name", sorted(cli.COMMANDS))
    def test_every_command_loads(self, name: str) -> None:
        """Each entry of the table names something that is there."""
        entry = cli.COMMANDS[name]
        assert hasattr(import_module(entry.module), entry.attribute)
        assert cli.load(name).name == name

    def test_help_shows_the_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        """`--help` lists every command and succeeds."""
        assert cli.main(["--help"]) == 0
        text = capsys.readouterr().out
        assert all(name in text for name in cli.COMMANDS)

    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        """`--version` says the version and nothing else."""
        assert cli.main(["--version"]) == 0
        assert capsys.readouterr().out == f"argosy {__version__}\n"

    def test_a_command_runs(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A command is found by name and gets its arguments."""
        assert cli.main(["chips", "h800-sxm"]) == 0
        assert "H800" in capsys.readouterr().out


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["chps"], "Did you mean"),
            (["chips", "--vendr", "x"], "--vendor"),
            (["train"], "argosy train --help"),
            (["train", "job.yaml", "--port", "70000"], "65535"),
        ],
    )
    def test_wrong_usage_is_2(self, arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
        """A wrong command, option or value is exit code 2, with what is allowed on standard error."""
        assert cli.main(arguments) == 2
        assert text in capsys.readouterr().err

    def test_json_has_a_result_for_wrong_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSON lines end with their `result` also when an option is unknown."""
        assert cli.main(["train", "--json", "--bogus"]) == 2
        result = json.loads(capsys.readouterr().out)
        assert (result["type"], result["state"], result["exit_code"]) == ("result", "refused", 2)

    def test_no_command_shows_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Without a command the help is shown, once."""
        assert cli.main([]) == 2
        said = capsys.readouterr()
        assert "Commands" in said.out
        assert said.err == ""


class TestExitCodes:
    @pytest.mark.parametrize(
        ("kind", "code"),
        [
            (ArgosyError, 1),
            (BadInputError, 2),
            (NeverFitsError, 3),
            (UserCodeError, 4),
            (InfrastructureError, 5),
            (InterruptedByUserError, 130),
        ],
    )
    def test_an_error_is_its_text(
        self, kind: type[ArgosyError], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Our errors are printed as they are, and their class is the exit code."""
        assert fail_with(monkeypatch, kind("what and where")) == code
        assert capsys.readouterr().err == "what and where\n"

    def test_interrupt_is_130(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        """Ctrl-C leaves with 130 and without a traceback."""
        assert fail_with(monkeypatch, KeyboardInterrupt()) == 130
        assert capsys.readouterr().err == "interrupted\n"

    def test_a_bug_is_1_with_a_file(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        """Any other exception is our bug: one screen that names the file with the traceback."""
        assert fail_with(monkeypatch, ZeroDivisionError("oh")) == 1
        text = capsys.readouterr().err
        assert "this is a bug in Argosy" in text
        assert "ZeroDivisionError: oh" in text
        path = cli.Path(text.split("The traceback is in ")[1].split(";")[0])
        assert "ZeroDivisionError" in path.read_text()
        path.unlink()

    def test_a_bug_without_a_place_to_write(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where no file can be written, the traceback itself is shown."""

        def refuse(**_: object) -> None:
            raise OSError("full")

        monkeypatch.setattr(cli.tempfile, "mkstemp", refuse)
        assert "Traceback" in cli.bug_text(ValueError("x")) or "ValueError: x" in cli.bug_text(ValueError("x"))

    @pytest.mark.slow
    @pytest.mark.parametrize("arguments", [("chips",), ("chips", "--json"), ("model", "list")])
    def test_a_broken_pipe_is_quiet(self, arguments: tuple[str, ...]) -> None:
        """When the reader goes away the command ends without a word, with the code of SIGPIPE."""
        reading, writing = os.pipe()
        os.close(reading)
        command = [sys.executable, "-c", "import sys; from argosy.cli.main import main; sys.exit(main())", *arguments]
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        os.close(writing)
        assert (done.returncode, done.stderr) == (141, "")

    @pytest.mark.slow
    def test_closed_output_is_no_bug(self) -> None:
        """A process that was started without standard output does its work and says nothing."""
        program = f"{sys.executable} -c 'import sys; from argosy.cli.main import main; sys.exit(main())' chips >&-"
        done = subprocess.run(["bash", "-c", program], stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.slow
    def test_libraries_can_not_break_the_output(self) -> None:
        """What a library prints in C, flushed or not, goes to standard error; ours alone is on standard output."""
        program = (
            "import ctypes; from argosy.cli.main import keep_output; keep_output(); "
            "ctypes.CDLL(None).puts(b'stray'); print('{}')"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "{}\n", "stray\n")

    def test_escapes_what_a_terminal_would_obey(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Control characters in an error are shown, not obeyed."""
        fail_with(monkeypatch, BadInputError("a\x1b[2J"))
        assert capsys.readouterr().err == "a\\x1b[2J\n"

    def test_the_handler_of_sigterm_is_put_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """After the command line has run, SIGTERM means what it meant before."""
        before = cli.signal.getsignal(cli.signal.SIGTERM)
        fail_with(monkeypatch, BadInputError("x"))
        assert cli.signal.getsignal(cli.signal.SIGTERM) is before
