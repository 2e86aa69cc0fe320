"""Which clues were lived through: the job printed steps long after them, so they didn't end it.

A job that stopped for a fault does not step on, and one that was started anew since then died of something else. Must
not know how progress is found in logs, nor which of the clues left is the cause.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from argosy.health.clues import Clue
from argosy.health.lived import lived_through

LIVED, TRACEBACK, THREAD = "run.lived_through", "python.traceback", "python.thread_ended"
"""The signatures of lines that may call a fault past, that open a Python error, and that say it ended a thread."""

TRACEBACK_LINES, NEXT_LINES, NO_LINE = 80, 3, -1_000
COMPLETED, UNKNOWN_ERROR = "run.completed", "python.error"
"""The signatures of a line by which a program says it came to its end, and of an error that nobody knows."""
PROGRESS = "run.progress"
"""The signature of the line after which a log shows some steps more (steps.py)."""

# A host's log and a rank's may be some seconds apart, and steps that were begun may still end.
AFTER_US = 60_000_000
# What only slows a job down, or is told ahead, is not disproved by steps.
SLOW_FAMILIES = frozenset({"numeric"})
SLOW_CLASSES = frozenset(
    {"gpu.thermal", "node.thermal", "node.power", "node.clock", "network.slow", "network.packet_loss"}
    | {"network.congestion", "process.slow_rank", "storage.throttled"}
    | {"scheduler.preempted", "scheduler.time_limit", "scheduler.cancelled", "scheduler.unschedulable"}
)
# No collective waits longer, so what a kernel says so long before the first process fails is not why.
STALE_US = 7_200_000_000
# A connection gives up retrying within less; a port that is up again and nobody failed by then did no harm.
UP_AGAIN_US, AFTER_UP_US = 60_000_000, 120_000_000
GRANTED = {"scheduler.unschedulable": "kubernetes.scheduled", "container.image": "kubernetes.pulled"}
ASKER = re.compile(r"\b(?:pods?/|[Jj]ob(?:Id=| ))([\w.-]*\w)")
MACHINE_LAYERS = frozenset({"kernel", "driver", "fabric"})
ENDS = ("elastic.", "deepspeed.exit", "mpi.signal", "slurm.task", "launcher.closing")


def part(clues: Sequence[Clue]) -> tuple[list[Clue], list[Clue]]:
    """Part clues into those that may tell what ended the job, and causes that the job outlived, as told or as seen."""
    steps = _Steps(clues)
    threads = set(_of_threads(clues))
    failed_us = _first_failure_us(clues, steps)
    said = set(_said(clues))
    completed = {clue.line.source: clue.line.number for clue in clues if clue.signature == COMPLETED}
    left: list[Clue] = []
    outlived: list[Clue] = []
    for clue in clues:
        past = (steps.passed(clue) and clue.order not in threads) or _stale(clue, failed_us) or _came_up(clue, clues)
        past = (past and not _slow(clue)) or clue.order in said or _granted(clue, clues)
        past = past or (clue.signature == UNKNOWN_ERROR and clue.line.number < completed.get(clue.line.source, 0))
        past = clue.role in ("cause", "symptom") and past
        if not past:
            left.append(clue)
        elif clue.role == "cause":
            outlived.append(clue)
    return left, outlived


def still_worth_telling(outlived: Iterable[Clue], clues: Sequence[Clue], *, failed: bool) -> list[Clue]:
    """Choose outlived causes to tell, weakly, where nothing else explains an end.

    failed: something ended the job. Then what was but said to be lived through may be it; else those that cost the job
    a start, or that hardware still has.
    """
    steps = _Steps(clues)
    ended = any(clue.signature.startswith(ENDS) for clue in clues)
    if failed:
        kept = [clue for clue in outlived if not steps.passed(clue)]
    else:
        kept = [
            clue for clue in outlived if ended or (clue.remedy == "cordon_replace" and clue.layer in MACHINE_LAYERS)
        ]
    return [replace(clue, strength=max(1, clue.strength - 1)) for clue in kept]


class _Steps:
    """The last steps that each log shows, asked for by as many clues as there are logs."""

    def __init__(self, clues: Iterable[Clue]) -> None:
        self._lines: dict[str, int] = {}
        times: dict[str, int] = {}
        for clue in clues:
            if clue.signature == PROGRESS:
                source = clue.line.source
                self._lines[source] = max(clue.line.number, self._lines.get(source, 0))
                if clue.at_us is not None:
                    times[source] = max(clue.at_us, times.get(source, clue.at_us))
        # Two logs' do, for any log has another among them.
        self._latest = sorted(times.items(), key=lambda item: -item[1])[:2]

    def passed(self, clue: Clue) -> bool:
        """Tell whether steps followed a clue: by their lines in one log, by their times in two."""
        source, at_us = clue.line.source, clue.at_us
        if clue.line.number < self._lines.get(source, 0):
            return True
        return at_us is not None and any(
            other != source and at_us + AFTER_US < step_us for other, step_us in self._latest
        )


def _said(clues: Sequence[Clue]) -> Iterator[int]:
    """Give the places of causes and symptoms that their own line, or one of the same program close by, calls past."""
    calm: dict[tuple[str, int | None], list[int]] = {}
    traces: dict[tuple[str, int | None], list[int]] = {}
    for clue in clues:
        if clue.signature in (LIVED, TRACEBACK) and (clue.signature == TRACEBACK or lived_through(clue.line.text)):
            (calm if clue.signature == LIVED else traces).setdefault(_who(clue), []).append(clue.line.number)
    for lines in (*calm.values(), *traces.values()):
        lines.sort()
    for clue in clues:
        # Where skipping is the fault, the word is no comfort.
        if clue.role not in ("cause", "symptom") or clue.fault_class == "user.uneven_data":
            continue
        at, lines = clue.line.number, calm.get(_who(clue), [])
        opened = _last_below(traces.get(_who(clue), []), at)
        announced = opened > at - TRACEBACK_LINES and _last_below(lines, opened) >= opened - NEXT_LINES
        if lived_through(clue.line.text) or announced or _last_below(lines, at + NEXT_LINES + 1) > at:
            yield clue.order


def _of_threads(clues: Sequence[Clue]) -> Iterator[int]:
    """Give the places of errors that ended a thread of a rank which others wait for in the end.

    Such a rank steps on with what the thread had prepared, so that steps after the error disprove nothing.
    """
    waiting = {clue.rank for clue in clues if clue.signature.startswith("timeout.")}
    ended: dict[tuple[str, int | None], int] = {}
    for clue in clues:
        if clue.signature == THREAD:
            ended[_who(clue)] = clue.line.number
        alone = clue.role == "cause" and clue.rank is not None and bool(waiting) and clue.rank not in waiting
        if alone and 0 < clue.line.number - ended.get(_who(clue), NO_LINE) <= TRACEBACK_LINES:
            yield clue.order


def _last_below(lines: Sequence[int], limit: int) -> int:
    """Find the last of sorted numbers below a limit; one below all lines where there is none."""
    place = bisect_left(lines, limit)
    return lines[place - 1] if place else NO_LINE


def _who(clue: Clue) -> tuple[str, int | None]:
    return clue.line.source, clue.line.rank


def _first_failure_us(clues: Iterable[Clue], steps: _Steps) -> int | None:
    """Tell when the first process failed that did not live on."""
    times = [
        clue.at_us
        for clue in clues
        if clue.at_us is not None
        and clue.layer not in MACHINE_LAYERS
        and (clue.role == "cause" or (clue.role == "symptom" and clue.strength > 1))
        and not steps.passed(clue)
    ]
    return min(times, default=None)


def _stale(clue: Clue, failed_us: int | None) -> bool:
    """Tell whether a machine's word is too old to be why processes failed."""
    old = clue.at_us is not None and failed_us is not None and clue.at_us + STALE_US < failed_us
    return old and clue.layer in MACHINE_LAYERS


def _came_up(clue: Clue, clues: Sequence[Clue]) -> bool:
    """Tell whether a port that went down came up again soon, and nothing failed until long after."""
    if clue.fault_class != "network.link_flap" or clue.at_us is None:
        return False
    down_us = clue.at_us
    ups = [
        up.at_us
        for up in clues
        if up.signature == "kernel.port_up" and up.at_us is not None and 0 <= up.at_us - down_us <= UP_AGAIN_US
        if up.host == clue.host and (not clue.link or re.search(rf"\b{re.escape(clue.link)}\b", up.line.text))
    ]
    failed = [
        other.began_us
        for other in clues
        if other.at_us is not None and other.layer not in MACHINE_LAYERS and other.role in ("cause", "symptom")
    ]
    return bool(ups) and bool(failed) and not any(down_us <= at <= min(ups) + AFTER_UP_US for at in failed)


def _granted(clue: Clue, clues: Sequence[Clue]) -> bool:
    """Tell whether what a pod or job waited for came later; what names nobody speaks of whoever got it."""
    granted = GRANTED.get(clue.fault_class)
    asker = ASKER.findall(clue.line.text)[:1]
    return granted is not None and any(
        later.signature == granted and later.order > clue.order and ASKER.findall(later.line.text)[:1] in ([], asker)
        for later in clues
    )


def _slow(clue: Clue) -> bool:
    return clue.family in SLOW_FAMILIES or clue.fault_class in SLOW_CLASSES
