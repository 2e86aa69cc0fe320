"""What the benchmarks on emulated chips share: small jobs, small fleets, and one measured run of a plan.

Every time in what they print is of emulated chips: real arithmetic and real messages, paced to the times that the
planner gives chips and wires (docs/train.md). `virtual` is read off the ranks' virtual clocks, `wall` off the
machine's. On a machine that others use too, ranks wake late, and a wall clock that is off can't be told from a wrong
prediction; so each run says what others took just before it.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.cli.attempt import Wishes, run_attempt
from argosy.cli.choosing import Choice, choose
from argosy.cli.inputs import Inputs, gather
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.job import DataSpec, Job, TrainSpec
from argosy.contracts.messages import Upward
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.fleet_file import read_fleet
from argosy.train.data.prepare import TokenSetInfo

SEQUENCE_LENGTH = 64
STEPS = 8
WARM_STEPS = 2
"""Steps left out of the wall time: the first connects every pair of ranks."""
LOOK_S = 1.0
"""How long a look at what others do on the machine takes."""
QUIET = 0.1
"""Share of the machine's cores that others may take for its wall clock to mean anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chips:
    """So many emulated chips of one kind in one site, each in a node of its own.

    One chip a node keeps TP out: what DTensor costs on two cores is far more than what it would cost these chips.
    """

    chip: str
    count: int
    tflops: float
    memory_gb: float = 8.0
    site: str = "north"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. All times in ms a step: predicted by the planner, off the virtual clock, and off the wall (mean).

    busy_before: share of the machine's cores that others took in the second before it. load_average: of the minute
    before, in which a run before this one counts too.
    """

    chips: int
    ranks: int
    tokens: int
    predicted_ms: float
    virtual_ms: float
    wall_ms: float
    exchange_share: float
    exchange_hidden: float
    plan: str
    busy_before: float
    load_average: float

    @property
    def quiet(self) -> bool:
        """Whether the wall clock may be held against the prediction."""
        return self.busy_before <= QUIET

    @property
    def tokens_per_second(self) -> float:
        """Throughput by the virtual clock."""
        return self.tokens / self.virtual_ms * 1e3

    @property
    def virtual_error(self) -> float:
        """How far the virtual clock is from the prediction."""
        return abs(self.virtual_ms / self.predicted_ms - 1)

    @property
    def wall_error(self) -> float:
        """How far the wall clock is from the prediction."""
        return abs(self.wall_ms / self.predicted_ms - 1)


class _Quiet:
    """A listener that shows nothing."""

    def planned(self, inputs: Inputs, choice: Choice) -> None:
        """Show nothing."""

    def preparing(self, what: str, share: float) -> None:
        """Show nothing."""

    def prepared(self, info: TokenSetInfo) -> None:
        """Show nothing."""

    def heard(self, message: Upward) -> None:
        """Show nothing."""


def model(folder: Path, layers: int) -> Path:
    """Write the config.json of a model small enough that 16 ranks' arithmetic fits on two cores."""
    path = folder / f"layers-{layers}" / "config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 176,
        "vocab_size": 256,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    }
    path.write_text(json.dumps(config))
    return path


def inputs(
    folder: Path, parts: Sequence[Chips], *, layers: int, batch: int, gbps: float = 1.0, steps: int = STEPS
) -> Inputs:
    """Put a job of `batch` sequences a step beside a fleet of these parts; sites are 50 km apart."""
    sites = sorted({part.site for part in parts})
    lines = ["fleet: benchmark", "sites: {" + ", ".join(f"{site}: {{}}" for site in sites) + "}"]
    if len(sites) > 1:
        lines += ["long_links:", f"  - {{between: [{', '.join(sites)}], km: 50, gbps: {gbps}}}"]
    lines.append("nodes:")
    for part in parts:
        lines.append(
            f"  - {{site: {part.site}, chip: {part.chip}, chips_per_node: 1, count: {part.count}, "
            f"nics: 8x100G, emulate: {{tflops: {part.tflops}, memory_gb: {part.memory_gb}}}}}"
        )
    catalogue = load_catalogue()
    fleet = read_fleet("\n".join(lines) + "\n", "fleet.yaml", catalogue)
    train = TrainSpec(sequence_length=SEQUENCE_LENGTH, global_batch_size=batch, steps=steps, precision="fp32")
    job = Job(name="benchmark", model=str(model(folder, layers)), data=DataSpec(files=("stdlib:",)), train=train)
    return gather(job, "job.yaml", fleet, "fleet.yaml", catalogue)


def measure(given: Inputs, choice: Choice | None = None) -> Run:
    """Run a plan (the planner's best unless given) and read the clocks."""
    chosen = choice or choose(given)
    busy_before = busy_share(LOOK_S)
    load_average = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as directory:
        outcome = run_attempt(given, chosen, Wishes(directory=Path(directory)), _Quiet())
    if outcome.failure is not None or len(outcome.steps) != given.job.train.steps:
        raise InfrastructureError(f"the run failed: {outcome.failure}")
    plan = chosen.plan
    if plan.prediction is None or outcome.steps[-1].virtual_s is None:
        raise InfrastructureError("the run was not emulated, or its plan has no prediction")
    return Run(
        chips=plan.world_size,
        ranks=plan.world_size,
        tokens=outcome.steps[-1].tokens,
        predicted_ms=plan.prediction.step_ms,
        virtual_ms=outcome.steps[-1].virtual_s * 1e3,
        wall_ms=statistics.mean(step.wall_s for step in outcome.steps[WARM_STEPS:]) * 1e3,
        exchange_share=plan.prediction.exchange_share,
        exchange_hidden=plan.prediction.exchange_hidden,
        plan=describe(chosen),
        busy_before=busy_before,
        load_average=load_average,
    )


def busy_share(seconds: float) -> float:
    """Watch for so long which share of all cores is busy while we sleep (Linux; proc(5), /proc/stat)."""
    first = cpu_times()
    time.sleep(seconds)
    passed = [after - before for before, after in zip(first, cpu_times(), strict=True)]
    idle = passed[3] + passed[4]
    return 1 - idle / max(1, sum(passed))


def cpu_times() -> list[int]:
    """Read the time that all cores together spent: user, nice, system, idle, waiting for disks, interrupts, stolen."""
    first = Path("/proc/stat").read_text().splitlines()[0]
    return [int(value) for value in first.split()[1:9]]


def wall_summary(runs: Sequence[Run]) -> dict[str, object]:
    """Sum up how far the wall clock was off, and whether that means anything."""
    quiet = [run.wall_error for run in runs if run.quiet]
    return {
        "wall_error_max": max((run.wall_error for run in runs), default=None),
        "wall_error_max_when_quiet": max(quiet, default=None),
        "runs_on_a_busy_machine": len(runs) - len(quiet),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "note": "on a busy machine a late wall clock can't be told from a wrong prediction; virtual time can",
    }


def wall_text(run: Run) -> str:
    """Say how far the wall clock was off, and whether others kept the machine busy."""
    busy = "" if run.quiet else f" (others took {run.busy_before:.0%} of the cores just before)"
    return f"wall {run.wall_ms / run.predicted_ms - 1:+.2%}{busy}"


def describe(choice: Choice) -> str:
    """Say a plan in a line: `4 x (5+6+5 layers, TP 1) x 6 micro-batches; ...`."""
    alike: dict[str, int] = {}
    for replica in choice.plan.replicas:
        layers = "+".join(str(stage.end_layer - stage.first_layer) for stage in replica.stages)
        kinds = "+".join(dict.fromkeys(stage.chip_class for stage in replica.stages))
        text = f"({kinds}: {layers} layers, TP {replica.stages[0].tp}) x {replica.microbatches} micro-batches"
        alike[text] = alike.get(text, 0) + 1
    return f"{choice.plan.schedule}, ZeRO {choice.plan.zero_stage}: " + "; ".join(
        f"{count} x {text}" for text, count in alike.items()
    )
