"""Clues in a person's words: who printed them, and what they say where the line itself is long or needs a table.

Must not know which clue is the cause.
"""

from collections.abc import Sequence

from argosy.health.clues import Clue
from argosy.health.words import rank_words

OPERATIONS = {"ALLREDUCE": "all-reduce", "ALLGATHER": "all-gather", "ALLTOALL": "all-to-all"}
RUNS_MAX = 4


def sources_of(clues: Sequence[Clue]) -> str:
    """Say who printed clues: `rank 3`, `ranks 0-7`, `node-17 kernel`, `node-17 and 3 others`, or nothing."""
    ranks = {clue.line.rank for clue in clues if clue.line.rank is not None}
    if ranks:
        return rank_words(ranks, runs_max=RUNS_MAX)
    names = list(dict.fromkeys(name for name in map(_host_of, clues) if name))
    return " and ".join([*names[:1], *([f"{len(names) - 1:,} others"] if len(names) > 1 else [])])


def words_of(clue: Clue) -> str:
    """Say what a clue says: codes by their meaning, time-outs in short, all else as it was printed."""
    if clue.code and clue.layer in ("kernel", "driver"):
        return clue.meaning.replace(": ", f" on {clue.chip}: ", 1) if clue.chip else clue.meaning
    if clue.signature == "timeout.watchdog":
        operation = clue.field("operation").strip("_").removesuffix("_BASE")
        name = OPERATIONS.get(operation, operation.lower().replace("_", "-"))
        sequence, elapsed_ms = clue.number("sequence"), clue.number("elapsed")
        number = "" if sequence is None else f" {sequence:,}"
        seconds = "" if elapsed_ms is None else f" after {elapsed_ms / 1_000:,.0f} s"
        return f"{name}{number} timed out{seconds}"
    return clue.line.text.strip()


def _host_of(clue: Clue) -> str:
    program = clue.line.program or (clue.layer if clue.layer in ("kernel", "driver") else "")
    return " ".join(part for part in (clue.host, program) if part)
