"""Processes that an engine starts: their logs, how they ended, and a bounded way to end them.

Each runs in a session of its own, so that Ctrl-C at a terminal reaches the engine alone, which then ends them in order.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from argosy.contracts.errors import InfrastructureError

TAIL_BYTES = 4096
TAIL_LINES = 8


class Child:
    """One Python module run as a process; standard error goes to `log`, pipes: the other two are pipes.

    variables: of its environment, besides this process's.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        log: Path,
        *,
        pipes: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        # -P: a file in the current folder never hides a module of ours
        command = [sys.executable, "-P", "-m", module, *arguments]
        environment = {
            "OPENBLAS_NUM_THREADS": "1",
            **os.environ,
            **(variables or {}),
        }  # numpy starts threads when loaded; forking wants none
        try:
            with log.open("wb") as output:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if pipes else output,
                    stderr=output,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise InfrastructureError(f"can't start {name}: {error}") from error

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self.process.pid

    def kill(self) -> None:
        """Kill the process at once, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    def ending(self, patience_s: float) -> str:
        """Say how the process ended and what its log says last; wait for it up to patience_s."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience_s)
        words = self.tail()
        return f"{self.name} {describe_code(self.process.poll())}" + (
            f"; the end of {self.log}:\n{words}" if words else ""
        )

    def tail(self) -> str:
        """Return the last lines of the log, empty when there is none."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(f"  {line}" for line in text.splitlines()[-TAIL_LINES:])

    def end(self, patience_s: float) -> None:
        """Close its standard input, wait until it ends by itself, and kill it after patience_s."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()


def end_all(children: Sequence[Child], patience_s: float) -> None:
    """End several processes within one common patience."""
    deadline = time.monotonic() + patience_s
    for child in children:
        child.end(max(0.0, deadline - time.monotonic()))


def describe_code(code: int | None) -> str:
    """Say in words how a process ended. None: it still runs."""
    if code is None:
        return "still runs"
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
