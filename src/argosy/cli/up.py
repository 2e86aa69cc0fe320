"""`argosy up`: begin the service on this machine, with an agent for each node that is here."""

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, BinaryIO

import psutil
import typer

from argosy.cli.waiting import Waiting
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.server.place import LOG_NAME, Card, default_folder, is_used, make_folder, read_card

PORT = 7070
LISTEN = f"127.0.0.1:{PORT}"
READY_S = 300.0
"""Compiling takes most of it, after an install, on a slow or busy machine."""
END_S = 5.0
TURN_NAME = "up-lock"
POLL_S = 0.02
LOADED = "loaded; the scheduler is made ready"
"""What the server says in its log between its two long steps."""
LOADING_TEXT = "the service is starting, 1 of 2: its programs are loaded"
READYING_TEXT = (
    "the service is starting, 2 of 2: its scheduler is made ready; the first time after an install or an update it is "
    "compiled, which takes up to a minute"
)
FleetOption = Annotated[Path | None, typer.Option(help="A fleet.yaml; by default this machine.")]
QueuesOption = Annotated[Path | None, typer.Option(help="A queues.yaml; by default the policy stays as it is.")]
StateOption = Annotated[Path | None, typer.Option(help="The service's folder; by default $ARGOSY_STATE.")]
ListenOption = Annotated[
    str, typer.Option(metavar="[HOST:]PORT", help="Where to listen; other hosts reach it only if this says so.")
]
CatalogueOption = Annotated[Path | None, typer.Option(help="A file that adds chips or replaces figures.")]
AgentsOption = Annotated[
    bool, typer.Option("--agents/--no-agents", help="Run an agent here for each node of this machine.")
]

RetireOption = Annotated[bool, typer.Option(help="Strike nodes out for good that the fleet file no longer has.")]
RestoredOption = Annotated[
    bool, typer.Option("--restored", help="The store was put back from an older copy: agents join anew, jobs restart.")
]


def command(
    fleet: FleetOption = None,
    queues: QueuesOption = None,
    state: StateOption = None,
    listen: ListenOption = LISTEN,
    catalogue: CatalogueOption = None,
    agents: AgentsOption = True,
    retire_missing: RetireOption = False,
    restored: RestoredOption = False,
) -> None:
    """Begin the service: one process that takes jobs, and agents that run them. Needs no other server."""
    read_address(listen)
    folder = folder_of(state)
    arguments = ["--state", str(folder), "--listen", listen, "--agents" if agents else "--no-agents"]
    for name, path in (("--fleet", fleet), ("--queues", queues), ("--catalogue", catalogue)):
        arguments += [] if path is None else [name, str(path.absolute())]
    arguments += ["--retire-missing"] if retire_missing else []
    begin(folder, [*arguments, *(["--restored"] if restored else [])])


def begin(folder: Path, arguments: list[str]) -> None:
    """Run `argosy serve` in the background and wait until it is ready. Raises what it ended with."""
    make_folder(folder)
    if (card := read_card(folder)) is not None and is_used(folder):
        raise InfrastructureError(f"a server runs at {card.url} already (pid {card.pid}); `argosy status` shows it")
    with take_turn(folder):
        _begin(folder, arguments)


def take_turn(folder: Path) -> BinaryIO:
    """Be the only `up` of a folder, as long as the file is open: their servers' words would mix in one log."""
    try:
        turn = (folder / TURN_NAME).open("ab")
    except OSError as error:
        raise InfrastructureError(f"can't write in {folder}: {error.strerror}; --state names another folder") from error
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        turn.close()
        text = f"another `argosy up` begins a service in {folder} at this moment"
        raise InfrastructureError(f"{text}; `argosy status` shows it once it is ready") from error
    return turn


def _begin(folder: Path, arguments: list[str]) -> None:
    """Begin a server, while no other `up` does."""
    started_s = time.monotonic()
    log = folder / LOG_NAME
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise InfrastructureError(f"{log}: can't be written: {error.strerror}; --state names another folder") from error
    with os.fdopen(descriptor, "ab") as output:
        begins = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "argosy.cli.main", "serve", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    with Waiting(LOADING_TEXT) as waiting:
        try:
            card = await_ready(process, folder, begins, waiting)
        except BaseException:
            # One that comes up after all would be there against what was said.
            end(process)
            raise
    typer.echo(f"ready at {card.url} after {time.monotonic() - started_s:.1f} s   pid {card.pid}   files {folder}")


def await_ready(process: "subprocess.Popen[bytes]", folder: Path, begins: int, waiting: Waiting) -> Card:
    """Wait until a server that was begun is ready, and say what it does. begins: where its words begin in the log.

    Raises what it ended with, and InfrastructureError where it takes too long.
    """
    log = folder / LOG_NAME
    started_s = time.monotonic()
    while (card := read_card(folder)) is None or card.pid != process.pid:
        said = words_of(log, begins)
        code = process.poll()
        if code is not None:
            kind = BadInputError if code == BadInputError.exit_code else InfrastructureError
            rows = [row for row in words_of(log, begins).splitlines() if LOADED not in row]
            raise kind("\n".join(rows).strip() or f"it ended with {code}; see {log}")
        if time.monotonic() - started_s > READY_S:
            raise InfrastructureError(f"the service is not ready after {READY_S:g} s and was ended; see {log}")
        stage = READYING_TEXT if LOADED in said else LOADING_TEXT
        waiting.what = f"{stage} ({time.monotonic() - started_s:.0f} s)"
        time.sleep(POLL_S)
    return card


def words_of(log: Path, begins: int) -> str:
    """Read what a log says from a byte on."""
    with log.open("rb") as file:
        file.seek(begins)
        return file.read().decode(errors="replace")


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a server that was begun, if it has not ended yet."""
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def folder_of(state: Path | None) -> Path:
    """Give the service's folder: what was named, else the default one."""
    return (state or default_folder()).absolute()


def read_address(text: str) -> tuple[str, int]:
    """Read `HOST:PORT` or `PORT`. Raises BadInputError."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise BadInputError(f"--listen {text}: write a port from 0 to 65535, or HOST:PORT such as 0.0.0.0:{PORT}")
    return host.strip("[]") or "127.0.0.1", int(port)


def alive(pid: int) -> bool:
    """Say whether a process runs; one that ended and was not waited for does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
