"""The fork server: one process that has torch loaded and forks ranks in milliseconds.

`python -m argosy.train.forkserver SOCKET` listens on a Unix socket, loads the modules that ranks need, and then gives
every connection a child of its own (`train.nodeserver`), which forks that node's ranks. It says ServerListening and
ServerReady (or ServerFailed) on standard output and ends, with all its children, when its standard input does:
whoever started it is gone. One that lingers keeps serving then as long as it has children.

It must never start a thread, open a device or seed anything before it forks.
"""

import argparse
import contextlib
import gc
import importlib
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError
from argosy.contracts.launching import (
    DEFAULT_ENTRY,
    DEFAULT_PRELOAD,
    ServerFailed,
    ServerListening,
    ServerReady,
    write_line,
)
from argosy.train.nodeserver import serve
from argosy.train.rankprocess import Entry, SignalPipe, die_with_parent, silence

BACKLOG = 4096
CHILD_END_S = 2.0
LINGER_TICK_S = 0.5

_OURS = "argosy"


def load_entry(entry: str, preload: Sequence[str]) -> Entry:
    """Import the modules that ranks need and find the function that a rank runs.

    entry: `module:function`. Raises InfrastructureError when an extra isn't installed, BadInputError when the entry
    doesn't exist.
    """
    module_name, _, function_name = entry.partition(":")
    try:
        for name in preload:
            importlib.import_module(name)
        function = getattr(importlib.import_module(module_name), function_name, None)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in (_OURS, module_name.partition(".")[0]):
            raise BadInputError(
                f"entry {entry!r}: {error}; expected module:function, importable by {sys.executable}"
            ) from error
        raise InfrastructureError(
            f"argosy train needs {missing}, which isn't installed: pip install 'argosy[train]'"
        ) from error
    if not callable(function):
        raise BadInputError(
            f"entry {entry!r}: module {module_name} has no function {function_name!r}; expected module:function"
        )
    return function  # type: ignore[no-any-return]


class ForkServer:
    """Accepts connections and keeps count of the children that serve them."""

    def __init__(self, path: Path, entry: Callable[[], Entry], *, linger: bool = False) -> None:
        self._path = path
        self._linger, self._orphaned = linger, False
        self._load = entry
        self._signals = SignalPipe((signal.SIGCHLD, signal.SIGTERM, signal.SIGINT))
        self._children: set[int] = set()
        self._listener = _listen(path)

    def run(self) -> int:
        """Load, then serve until standard input ends or a signal asks to stop; returns the exit code."""
        _say(ServerListening(pid=os.getpid()))
        try:
            entry = self._load()
            gc.collect()
            gc.freeze()  # keeps the collector from touching, and so copying, the pages that ranks share
            _say(ServerReady(pid=os.getpid()))
            silence(sys.stdout.fileno(), to=sys.stderr.fileno())
            while self._serve_once(entry):
                pass
        except ArgosyError as error:
            _say(ServerFailed(text=str(error)))
            return error.exit_code
        finally:
            self._end_children()
            self._listener.close()
            self._path.unlink(missing_ok=True)
        return 0

    def _serve_once(self, entry: Entry) -> bool:
        """Wait for one thing to happen; False when it is the end."""
        lifeline = sys.stdin.fileno()
        waiting = [self._listener, self._signals.fileno(), *([] if self._orphaned else [lifeline])]
        readable, _, _ = select.select(waiting, [], [], LINGER_TICK_S if self._orphaned else None)
        if self._orphaned:  # somebody else may have taken hold of the other end meanwhile
            self._orphaned = bool(select.select([lifeline], [], [], 0)[0])
        elif lifeline in readable and not os.read(lifeline, 4096):
            self._orphaned = True
        if self._orphaned and not (self._linger and self._children):
            return False
        if self._signals.fileno() in readable and self._signals.read() - {signal.SIGCHLD}:
            return False
        self._reap()
        if self._listener in readable:
            connection, _ = self._listener.accept()
            self._fork(connection, entry)
        return True

    def _fork(self, connection: socket.socket, entry: Entry) -> None:
        parent = os.getpid()
        try:
            with self._signals.held():
                pid = os.fork()
                if pid == 0:
                    self._become_node_server(parent, connection, entry)
        except OSError as error:
            text = f"can't fork a server for a node: {error.strerror}; see free memory and `ulimit -u`"
            with contextlib.suppress(OSError):
                connection.sendall(write_line(ServerFailed(text=text)))
        else:
            self._children.add(pid)
        connection.close()

    def _become_node_server(self, parent: int, connection: socket.socket, entry: Entry) -> None:
        code = 70
        try:
            die_with_parent(parent, "argosy-node")
            self._listener.close()
            self._signals.close()
            silence(sys.stdin.fileno())
            code = serve(connection, entry)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        for pid in tuple(self._children):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._children.discard(pid)

    def _end_children(self) -> None:
        """Ask each child to end, wait a bounded time, then kill: a child ends its own ranks first."""
        for pid in self._children:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + CHILD_END_S
        while self._children and time.monotonic() < deadline:
            select.select([self._signals.fileno()], [], [], 0.05)
            self._signals.read()
            self._reap()
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fork server from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m argosy.train.forkserver", description="Forks ranks with torch loaded."
    )
    parser.add_argument("socket", type=Path, help="path of the Unix socket to listen on")
    parser.add_argument("--entry", default=DEFAULT_ENTRY, help="what a rank runs, module:function")
    parser.add_argument("--preload", default=",".join(DEFAULT_PRELOAD), help="modules to load before the first fork")
    parser.add_argument("--linger", action="store_true", help="end after standard input only when no rank is left")
    parser.add_argument("--owns-directory", action="store_true", help="remove the socket's folder at the end")
    options = parser.parse_args(arguments)
    preload = tuple(filter(None, options.preload.split(",")))
    try:
        code = ForkServer(options.socket, lambda: load_entry(options.entry, preload), linger=options.linger).run()
    except ArgosyError as error:
        _say(ServerFailed(text=str(error)))
        return error.exit_code
    if options.owns_directory and code == 0:  # after a failure the engine is there to do it
        shutil.rmtree(options.socket.parent, ignore_errors=True)
    return code


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InfrastructureError(f"fork server: can't listen on {path}: {error.strerror or error}") from error
    return listener


def _say(message: ServerListening | ServerReady | ServerFailed) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more: standard input says so too
        os.write(sys.stdout.fileno(), write_line(message))


if __name__ == "__main__":
    sys.exit(main())
