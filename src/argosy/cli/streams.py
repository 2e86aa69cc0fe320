"""The process's standard streams: there whatever it was started with, and free of what libraries print in C.

Must not know commands.
"""

import os
import sys
from typing import TextIO


def open_streams() -> None:
    """Give a process that was started with closed standard streams (`>&-`) ones that swallow everything."""
    if sys.stdout is not None and sys.stderr is not None:
        return
    while os.open(os.devnull, os.O_RDWR) <= 2:  # else the next file that is opened would become standard output
        pass
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def keep_output() -> None:
    """Keep standard output to this process's own words; what libraries write to it in C goes to standard error.

    HiGHS, the planner's solver, prints a line now and then whatever it is told, in the middle of `--json`.
    """
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    encoding, errors, lines = sys.stdout.encoding, sys.stdout.errors, sys.stdout.isatty()
    sys.stdout = os.fdopen(own, "w", 1 if lines else -1, encoding=encoding, errors=errors)


def discard_output() -> None:
    """Let standard output swallow everything from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
