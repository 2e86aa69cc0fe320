"""Which clues were lived through: the job printed steps long after them, so they didn't end it.

A job that stopped for a fault does not step on, and one that was started anew since then died of something else. Must
not know how progress is found in logs, nor which of the clues left is the cause.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from argosy.health.clues import Clue

PROGRESS = "run.progress"
"""The signature of the line after which a log shows some steps more (steps.py)."""

# A host's log and a rank's may be some seconds apart, and steps that were begun may still end.
AFTER_US = 60_000_000
# What only slows a job down, or is told ahead, is not disproved by steps.
SLOW_FAMILIES = frozenset({"numeric", "scheduler"})
SLOW_CLASSES = frozenset(
    {"gpu.thermal", "node.thermal", "node.power", "node.clock", "network.slow", "network.packet_loss"}
    | {"network.congestion", "process.slow_rank", "storage.throttled"}
)
# No collective waits longer, so what a kernel says so long before the first process fails is not why.
STALE_US = 7_200_000_000
MACHINE_LAYERS = frozenset({"kernel", "driver", "fabric"})
ENDS = ("elastic.", "deepspeed.exit", "mpi.signal", "slurm.task", "launcher.closing")


def part(clues: Sequence[Clue]) -> tuple[list[Clue], list[Clue]]:
    """Part clues into those that may tell what ended the job, and causes that the job outlived."""
    steps = [clue for clue in clues if clue.signature == PROGRESS]
    failed_us = _first_failure_us(clues, steps)
    left: list[Clue] = []
    outlived: list[Clue] = []
    for clue in clues:
        past = any(_before(clue, step) for step in steps) or _stale(clue, failed_us)
        past = past and clue.role in ("cause", "symptom") and not _slow(clue)
        if not past:
            left.append(clue)
        elif clue.role == "cause":
            outlived.append(clue)
    return left, outlived


def still_worth_telling(outlived: Iterable[Clue], clues: Iterable[Clue]) -> list[Clue]:
    """Where nothing else broke: outlived causes that cost the job a start, or that hardware still has; weakly."""
    ended = any(clue.signature.startswith(ENDS) for clue in clues)
    kept = [clue for clue in outlived if ended or (clue.remedy == "cordon_replace" and clue.depth < 2)]
    return [replace(clue, strength=max(1, clue.strength - 1)) for clue in kept]


def _first_failure_us(clues: Iterable[Clue], steps: Sequence[Clue]) -> int | None:
    """Tell when the first process failed that did not live on."""
    times = [
        clue.at_us
        for clue in clues
        if clue.at_us is not None
        and clue.layer not in MACHINE_LAYERS
        and (clue.role == "cause" or (clue.role == "symptom" and clue.strength > 1))
        and not any(_before(clue, step) for step in steps)
    ]
    return min(times, default=None)


def _stale(clue: Clue, failed_us: int | None) -> bool:
    """Tell whether a machine's word is too old to be why processes failed."""
    old = clue.at_us is not None and failed_us is not None and clue.at_us + STALE_US < failed_us
    return old and clue.layer in MACHINE_LAYERS


def _slow(clue: Clue) -> bool:
    return clue.family in SLOW_FAMILIES or clue.fault_class in SLOW_CLASSES


def _before(clue: Clue, step: Clue) -> bool:
    """Tell whether steps followed a clue: by their lines in one log, by their times in two."""
    if clue.line.source == step.line.source:
        return clue.line.number < step.line.number
    return clue.at_us is not None and step.at_us is not None and clue.at_us + AFTER_US < step.at_us
