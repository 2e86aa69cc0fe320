"""Runs the agent of one node: `python -m argosy.agent --node NAME --connect ADDRESS --forkserver PATH`."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from argosy.agent.agent import Agent
from argosy.agent.ranks import RankServer
from argosy.agent.wire import dial
from argosy.contracts.blame import INFRASTRUCTURE
from argosy.contracts.errors import ArgosyError
from argosy.contracts.launching import write_line
from argosy.contracts.messages import Failed

CONNECT_S = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Connect to engine and fork server and work until one of them is gone; returns the exit code."""
    started_s = time.monotonic()
    parser = argparse.ArgumentParser(
        prog="python -m argosy.agent", description="Starts and stops the ranks of one node."
    )
    parser.add_argument("--node", required=True, help="name of this node in the fleet")
    parser.add_argument("--connect", required=True, metavar="ADDRESS", help="the engine: unix:PATH or HOST:PORT")
    parser.add_argument(
        "--forkserver", required=True, type=Path, metavar="PATH", help="Unix socket of this host's fork server"
    )
    options = parser.parse_args(arguments)
    try:
        engine = dial(options.connect, CONNECT_S)
        try:
            server = RankServer(options.forkserver, CONNECT_S)
        except ArgosyError as error:
            engine.sendall(
                write_line(Failed(node=options.node, blame=INFRASTRUCTURE, text=f"node {options.node}: {error}"))
            )
            raise
        return Agent(options.node, engine, server, started_s).run()
    except ArgosyError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
