"""Where the `argosy` script begins: loads the command line so that Ctrl-C while it loads ends without a traceback.

Loads nothing itself but what Python has loaded already. It must not know any command.
"""

import sys
from importlib import import_module

# What `contracts.errors.InterruptedByUserError` leaves with, which is not loaded yet.
INTERRUPTED_CODE = 130


def main() -> int:
    """Run the command line and give its exit code."""
    try:
        return int(import_module("argosy.cli.main").main())
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED_CODE
