"""What the benchmarks' command lines share: counts that mean something, mistakes told in a line, clean JSON.

Must not know what any of them measures.
"""

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from argosy.cli.collector import collect_seldom
from argosy.cli.streams import keep_output
from argosy.contracts.errors import ArgosyError

COUNT_MAX = 10_000_000


def whole_number(text: str) -> int:
    """Read an argument that counts something: a whole number from 1 on."""
    if not text.isdecimal() or not 1 <= int(text) <= COUNT_MAX:
        raise argparse.ArgumentTypeError(f"write a whole number from 1 to {COUNT_MAX:,}, got {text!r}")
    return int(text)


def start(main: Callable[[], int | None]) -> NoReturn:
    """Run a benchmark's main and leave with its exit code; what libraries print in C goes to standard error."""
    keep_output()
    collect_seldom()
    try:
        code = main() or 0
        sys.stdout.flush()
    except ArgosyError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    sys.exit(code)
