"""What a rank writes into its own log: its seat, that it is at work, steps now and then, checkpoints, how it left.

Hears everything that the trainer reports, writes it down, and passes it on. It must not know how anything is computed,
nor where the log lies: it is the process's standard output.
"""

import contextlib
import os
import time
from collections.abc import Callable

from argosy.comm.groups import Seat
from argosy.contracts.messages import Finished, Launch, Note, Ready, Saved, StepDone, Upward
from argosy.contracts.plan import Plan, Stage

STEP_LINE_S = 5.0
"""How far apart lines about steps are at least; the first and the last step have theirs in any case."""
STANDARD_OUTPUT = 1


def append(line: str) -> None:
    """Write a line to standard output; a full disk takes the line, not the training."""
    with contextlib.suppress(OSError):
        os.write(STANDARD_OUTPUT, f"{line}\n".encode())


class Diary:
    """One rank's log, and its way to whoever is told. report: takes what is passed on.

    Of what all ranks say alike, steps and checkpoints, only rank 0's is passed on.
    """

    def __init__(
        self,
        launch: Launch,
        seat: Seat,
        report: Callable[[Upward], None],
        *,
        write: Callable[[str], None] = append,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._launch, self._rank, self._report = launch, seat.rank, report
        self._write, self._now_s = write, now_s
        self._steps = launch.job.train.steps
        self._begun_s = now_s()
        self._line_s: float | None = None
        self._gathered: list[StepDone] = []
        meeting = f"{launch.store_host}:{launch.store_port}"
        write(f"rank {seat.rank} of {launch.plan.world_size}: {launch.attempt}, generation {launch.generation}")
        write(f"{seat_text(launch.plan, seat)}; the ranks meet at {meeting}")

    def __call__(self, message: Upward) -> None:
        """Write down what is reported, and pass it on."""
        line = self._line(message)
        if line:
            self._write(line)
        if self._rank == 0 or not isinstance(message, StepDone | Saved):
            self._report(message)

    def _line(self, message: Upward) -> str:
        match message:
            case Ready(step=step):
                return f"at work after {self._now_s() - self._begun_s:.1f} s; step {step + 1:,} is next"
            case StepDone():
                return self._step_line(message)
            case Saved(step=step, path=path, wall_s=wall_s):
                return f"checkpoint after step {step:,}, written in {wall_s:.2f} s: {path}"
            case Finished(step=step, memory_gb=memory_gb):
                return f"done after step {step:,}; peak memory {memory_gb:.3f} GB"
            case Note(text=text):
                return text
        return ""

    def _step_line(self, done: StepDone) -> str:
        """Tell of the newest step, with the mean time of those since the last line; empty while it is too early."""
        self._gathered.append(done)
        now_s = self._now_s()
        early = self._line_s is not None and now_s - self._line_s < STEP_LINE_S
        if early and done.step != self._steps:
            return ""
        gathered, self._gathered, self._line_s = self._gathered, [], now_s
        mark = "" if done.virtual_s is None else "~"
        spent_s = sum(one.wall_s if one.virtual_s is None else one.virtual_s for one in gathered)
        rate = sum(one.tokens for one in gathered) / spent_s if spent_s > 0 else 0.0
        return (
            f"step {done.step:,} of {self._steps:,}   loss {done.loss:.4f}   gradient norm {done.norm:.3f}   "
            f"learning rate {done.learning_rate:.3g}   {mark}{spent_s / len(gathered) * 1000:,.1f} ms a step   "
            f"{mark}{rate:,.0f} tokens/s"
        )


def seat_text(plan: Plan, seat: Seat) -> str:
    """Say in words where a rank sits: its node and chip, its replica, stage and layers."""
    replica = plan.replicas[seat.replica]
    stages = plan.stages_at(replica, seat.stage)
    places = len(plan.places(replica))
    layers = ", ".join(_layers_text(stage) for stage in stages)
    where = next((f"{place.node}, chip {place.chip}" for place in plan.placement if place.rank == seat.rank), "no node")
    split = f", TP {seat.tp_index + 1} of {stages[0].tp}" if stages[0].tp > 1 else ""
    kind = f"{stages[0].chip_class}{' (emulated)' if plan.emulated else ''}"
    return (
        f"on {where}, {kind}: replica {seat.replica + 1} of {len(plan.replicas)}, stage {seat.stage + 1} of {places}"
        f"{split}, {layers}"
    )


def _layers_text(stage: Stage) -> str:
    first, last = stage.first_layer, stage.end_layer - 1
    if last <= first:
        return f"layer {first}" if last == first else "no layer"
    return f"layers {first} to {last}"
