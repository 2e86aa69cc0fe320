"""`argosy`: the table of commands, and what becomes of an error that reaches the top.

A command's module is loaded when it is called, so `argosy --help` loads none of them. It must not know what any
command does. Exit codes are those of docs/cli.md.
"""

import contextlib
import errno
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from argosy import __version__
from argosy.cli.collector import collect_seldom
from argosy.cli.streams import discard_output, keep_output, open_streams
from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError, InterruptedByUserError
from argosy.contracts.plain import plain_text

BUG_CODE = 1
# As a shell reports a process that SIGPIPE ended.
BROKEN_PIPE_CODE = 141
# What commands of the service load, and the extra `server` installs.
SERVICE_NEEDS = ("fastapi", "httptools", "httpx", "starlette", "uvicorn", "uvloop")
UNWRITABLE = (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EDQUOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One command: where its function or Typer app lives, and its line of help.

    searches: whether it makes millions of small objects that stay until it ends.
    """

    module: str
    attribute: str
    help: str
    searches: bool = False


COMMANDS: dict[str, Entry] = {
    "train": Entry(module="argosy.cli.train", attribute="command", help="Train one model on a fleet."),
    "demo": Entry(
        module="argosy.cli.demo", attribute="command", help="Train a small model on two emulated sites, here and now."
    ),
    "plan": Entry(
        module="argosy.cli.plan",
        attribute="command",
        help="Say how a job would split over a fleet, and how fast.",
        searches=True,
    ),
    "diagnose": Entry(
        module="argosy.cli.diagnose", attribute="command", help="Say from logs and dumps what broke a job, and who."
    ),
    "fleet": Entry(module="argosy.cli.fleet", attribute="app", help="Check, show or detect a fleet."),
    "chips": Entry(module="argosy.cli.chips", attribute="command", help="List the chips that the catalogue knows."),
    "profile": Entry(
        module="argosy.cli.profile", attribute="command", help="Measure how long a job's layers take on this machine."
    ),
    "model": Entry(
        module="argosy.cli.model", attribute="app", help="Show what a model costs: parameters, FLOPs, bytes."
    ),
    "export": Entry(
        module="argosy.cli.export", attribute="command", help="Write a checkpoint as Hugging Face safetensors."
    ),
    "up": Entry(module="argosy.cli.up", attribute="command", help="Begin the service on this machine."),
    "serve": Entry(module="argosy.cli.serve", attribute="command", help="Run the service in the foreground."),
    "down": Entry(module="argosy.cli.down", attribute="command", help="End the service of this machine; jobs go on."),
    "status": Entry(module="argosy.cli.status", attribute="command", help="Say how the service is."),
    "submit": Entry(module="argosy.cli.submit", attribute="command", help="Hand a job in, or try one out."),
    "jobs": Entry(module="argosy.cli.job_list", attribute="command", help="List jobs; --watch shows them live."),
    "show": Entry(module="argosy.cli.job_show", attribute="command", help="Show a job, predicted beside measured."),
    "logs": Entry(module="argosy.cli.job_logs", attribute="command", help="Show what a job's ranks wrote."),
    "cancel": Entry(module="argosy.cli.job_cancel", attribute="command", help="End jobs."),
    "explain": Entry(module="argosy.cli.job_explain", attribute="command", help="Say why a job waits, and its story."),
    "nodes": Entry(module="argosy.cli.nodes", attribute="command", help="List nodes."),
    "cordon": Entry(module="argosy.cli.cordon", attribute="command", help="Let nothing new start on nodes."),
    "drain": Entry(module="argosy.cli.drain", attribute="command", help="Empty nodes, by a deadline if one is given."),
    "uncordon": Entry(module="argosy.cli.uncordon", attribute="command", help="Let jobs start on nodes again."),
    "retire": Entry(module="argosy.cli.retire", attribute="command", help="Strike nodes out for good."),
    "queues": Entry(module="argosy.cli.queues", attribute="command", help="List queues, or set the policy."),
    "events": Entry(module="argosy.cli.event_stream", attribute="command", help="Stream what happens."),
    "report": Entry(module="argosy.cli.report_hours", attribute="command", help="Count chip-hours by queue and user."),
    "token": Entry(module="argosy.cli.tokens", attribute="app", help="Make, list and revoke tokens; see who did what."),
    "agent": Entry(module="argosy.cli.agent", attribute="command", help="Run this host's agent of a service."),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code; arguments: those of the process unless given."""
    open_streams()
    if arguments is None:
        keep_output()
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(arguments)
    except BrokenPipeError:
        return _broken_pipe()
    except SystemExit as end:
        # Rich and Typer turn a broken pipe into an exit with 1, which is our code for a bug.
        if isinstance(end.__context__, BrokenPipeError):
            return _broken_pipe()
        raise
    except ArgosyError as error:
        _say(str(error))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted")
        return InterruptedByUserError.exit_code
    except Exception as error:
        if _is_usage_error(error):
            # A group without a command has shown its help already, and this error has no text.
            text = _usage_text(error) if str(error) else ""
            _say(text)
            _tell_json(text, sys.argv[1:] if arguments is None else arguments)
            return BadInputError.exit_code
        if isinstance(error, OSError) and error.errno in UNWRITABLE and not error.filename:
            _say(f"standard output can't be written: {error.strerror}")
            discard_output()
            return InfrastructureError.exit_code
        _say(bug_text(error))
        return BUG_CODE
    finally:
        signal.signal(signal.SIGTERM, before)


def _broken_pipe() -> int:
    """Keep the interpreter from complaining once more when it flushes at its end, for nobody reads any more."""
    discard_output()
    return BROKEN_PIPE_CODE


def _tell_json(text: str, arguments: Sequence[str]) -> None:
    """End JSON lines with their `result` also when the command was never called."""
    if list(arguments[:1]) in (["train"], ["demo"]) and "--json" in arguments:
        result = {"type": "result", "state": "refused", "exit_code": BadInputError.exit_code, "error": text}
        sys.stdout.write(json.dumps(result) + "\n")


def load(name: str) -> Any:
    """Load a command by its name in the table."""
    entry = COMMANDS[name]
    try:
        found = getattr(import_module(entry.module), entry.attribute)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in SERVICE_NEEDS:
            raise
        text = f"argosy {name} needs {missing}, which isn't installed: pip install 'argosy[server]'"
        raise InfrastructureError(text) from error
    if entry.searches:
        collect_seldom()
    app = typer.Typer(add_completion=False)
    app.callback()(_unloaded)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)
    group: Any = get_command(app)
    return group.commands[name]


class LazyGroup(TyperGroup):
    """A group whose commands are loaded when they are called; help shows them from the table."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that was named and load it."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(str(name)), rest

    def invoke(self, ctx: Any) -> Any:
        """Call the command; an interrupt is told as one, for Typer would leave with its code and no word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Abort from error


def _run(arguments: Sequence[str] | None) -> int:
    app = typer.Typer(cls=LazyGroup, add_completion=False, no_args_is_help=True)
    app.callback()(_root)
    for name, entry in COMMANDS.items():
        app.command(name, help=entry.help)(_unloaded)
    group = get_command(app)
    code = group.main(list(arguments) if arguments is not None else None, prog_name="argosy", standalone_mode=False)
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"argosy {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, help="Say which version this is.", is_eager=True)
    ] = False,
) -> None:
    """Train one model on every chip you own: any vendor, any building, through any fault."""


def _unloaded() -> None:
    """Stand in the table for a command that is not loaded yet."""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _is_usage_error(error: Exception) -> bool:
    """Tell a wrong option or argument; the class is found by name, since Typer keeps its own copy of it."""
    return any(kind.__name__ == "ClickException" for kind in type(error).__mro__)


def _usage_text(error: Any) -> str:
    context = getattr(error, "ctx", None)
    text = str(error.format_message())
    return f"{text}\n{context.get_usage()}\n`{context.command_path} --help` explains it." if context else text


def bug_text(error: Exception) -> str:
    """Say that Argosy itself failed, and write the traceback to a file that can be sent."""
    trace = "".join(traceback.format_exception(error))
    line = f"this is a bug in Argosy {__version__}: {type(error).__name__}: {error}"
    try:
        descriptor, path = tempfile.mkstemp(prefix="argosy-bug-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"argosy {__version__}, Python {sys.version}\n{' '.join(sys.argv)}\n\n{trace}")
    except OSError:
        return f"{line}\n{trace}"
    return f"{line}\nThe traceback is in {Path(path)}; please report it with what you ran."


def _say(text: str) -> None:
    """Write to standard error, whatever it can encode."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    if text:
        sys.stderr.write(plain_text(text.rstrip("\n")) + "\n")


if __name__ == "__main__":
    sys.exit(main())
