"""Builders for tests of the command line: a workspace with job, fleet and text, the command line, a finished run."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from argosy.cli.attempt import Outcome
from argosy.cli.choosing import Choice, choose
from argosy.cli.ended import Ended
from argosy.cli.inputs import Inputs, read_inputs
from argosy.cli.summary import compare, measure
from argosy.contracts.messages import Finished, StepDone
from argosy.contracts.plan import Plan
from argosy.contracts.rank_trace import RankOp, RankTrace
from argosy.plan.timing.timeline import simulate

JOB = """\
name: tiny
model: tiny
data: {files: corpus.txt}
train: {sequence_length: 32, global_batch_size: 8, steps: 4, learning_rate: 3e-3, precision: fp32}
"""
FLEET = """\
fleet: pair
sites: {north: {}, south: {}}
long_links:
  - {between: [north, south], km: 50, gbps: 10}
nodes:
  - {site: north, chip: h800-sxm, chips_per_node: 1, count: 1, emulate: {tflops: 0.004, memory_gb: 1}}
  - {site: south, chip: ascend-910b3, chips_per_node: 1, count: 1, emulate: {tflops: 0.002, memory_gb: 1}}
"""
TEXT = "The argosy sails at dawn, every ship of another build.\n"


@dataclass(frozen=True)
class Workspace:
    """A folder with job.yaml, fleet.yaml and corpus.txt, which is the current folder too."""

    folder: Path

    def write(self, name: str, text: str) -> Path:
        """Write a file."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def inputs(self, *settings: str, fleet: str = "fleet.yaml") -> Inputs:
        """Read the inputs as the commands do."""
        return read_inputs(Path("job.yaml"), settings, Path(fleet))


def make_workspace(folder: Path) -> Workspace:
    """Fill a folder."""
    workspace = Workspace(folder)
    workspace.write("job.yaml", JOB)
    workspace.write("fleet.yaml", FLEET)
    workspace.write("corpus.txt", TEXT * 60)
    return workspace


def argosy(*arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process in the current folder."""
    program = "import sys; from argosy.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, env=dict(os.environ))


def step(number: int, loss: float = 2.0, *, wall_s: float = 0.2, virtual_s: float | None = 0.1) -> StepDone:
    """Make one step of 1,000 tokens."""
    return StepDone(
        step=number, loss=loss, norm=1.0, learning_rate=1e-3, tokens=1000, wall_s=wall_s, virtual_s=virtual_s
    )


def ended_run(inputs: Inputs, choice: Choice | None = None, steps: Sequence[StepDone] = (), **changes: object) -> Ended:
    """Make a run that is over, with figures from its steps."""
    choice = choice or choose(inputs)
    steps = tuple(steps) or tuple(step(number, 3.0 - number / 10) for number in range(1, 9))
    finished = (Finished(step=len(steps), memory_gb=0.5, rank=0),)
    outcome = Outcome(steps=steps, new_steps=len(steps), finished=finished)
    measured = measure(inputs, choice, steps, len(steps), finished)
    lines = tuple(compare(choice.plan, measured)) if measured else ()
    made = Ended(
        inputs=inputs, choice=choice, outcome=outcome, measured=measured, lines=lines, directory=Path("runs/tiny")
    )
    return replace(made, **changes)


def timed_ranks(plan: Plan, steps: int = 4) -> list[RankTrace]:
    """Make the traces that ranks of a plan would write if all went as the timeline says."""
    timeline = simulate(plan)
    found: dict[int, list[RankOp]] = {}
    for number in range(1, steps + 1):
        zero_ms = (number - 1) * timeline.step_ms
        for op in timeline.ops:
            late = op.kind == "U"  # a step's update comes after its barrier
            start_ms = zero_ms + op.start_ms + (timeline.step_ms if late else 0.0)
            end_ms = start_ms + op.end_ms - op.start_ms
            rank = plan.replicas[op.replica].stages[op.stage].ranks[0]
            found.setdefault(rank, []).append(
                RankOp(
                    kind=op.kind,
                    step=number,
                    start_ms=start_ms,
                    end_ms=end_ms,
                    microbatch=None if late else op.microbatch,
                    virtual_start_ms=start_ms,
                    virtual_end_ms=end_ms,
                )
            )
    places = {place.rank: place for place in plan.placement}
    return [
        RankTrace(
            rank=r,
            replica=places[r].replica,
            stage=places[r].stage,
            tp_index=0,
            clock="emulated" if plan.emulated else "host",
            ops=tuple(ops),
        )
        for r, ops in sorted(found.items())
    ]
