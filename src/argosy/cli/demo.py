"""`argosy demo`: train a small model on four emulated nodes in two sites, with what it shows at the end.

The job and the fleet are files beside this one. Everything else is `argosy train`.
"""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.attempt import Wishes
from argosy.cli.choosing import Choice, plan_inputs
from argosy.cli.ended import Ended
from argosy.cli.inputs import Inputs, gather
from argosy.cli.running import More, run
from argosy.cli.summary import PARTS_SUM, Line, Measured, change, percent
from argosy.cli.train import TrainScreen, with_json
from argosy.contracts.job_file import read_job
from argosy.contracts.plan import Plan, Replica
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.fleet_file import read_fleet
from argosy.plan.explain import time_text
from argosy.train.data.prepare import TokenSetInfo

ACROSS_SITES = "of the same chips in one site"


def command(
    steps: Annotated[int, typer.Option(min=1, max=1_000_000, help="Optimizer steps.")] = 60,
    directory: Annotated[Path, typer.Option(help="Where the run's files go.")] = Path("runs/demo"),
    trace: Annotated[Path | None, typer.Option(help="Where the Perfetto trace goes; by default DIRECTORY/trace.json.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON lines, one an event; `result` comes last.")] = False,
) -> None:
    """Train a small Llama on two kinds of emulated chips in two sites 50 km apart, on this machine's CPU.

    The text is the Python standard library's source code. Times of emulated chips are marked ~.
    """
    inputs = demo_inputs(steps)
    where = trace or directory / "trace.json"
    wishes = Wishes(directory=directory, trace=True)
    if as_json:
        with_json(lambda watcher: run(inputs, None, wishes, where, watcher, across_sites(inputs)))
        return
    with DemoScreen() as screen:
        run(inputs, None, wishes, where, screen, across_sites(inputs))


def demo_inputs(steps: int) -> Inputs:
    """Read the demo's job and fleet."""
    texts = {name: (files("argosy.cli") / "demo_files" / name).read_text("utf-8") for name in ("job.yaml", "fleet.yaml")}
    catalogue = load_catalogue()
    job = read_job(texts["job.yaml"], "the demo's job.yaml", ())
    train = replace(job.train, steps=steps, warmup_steps=min(job.train.warmup_steps, steps))
    fleet = read_fleet(texts["fleet.yaml"], "the demo's fleet.yaml", catalogue)
    return gather(replace(job, train=train), "the demo's job.yaml", fleet, "the demo's fleet.yaml", catalogue)


def across_sites(inputs: Inputs) -> More:
    """Make the figure that holds two sites against one: the best plan for the same chips in one site."""
    site = inputs.fleet.sites[0].name
    together = replace(
        inputs,
        classes=tuple(replace(chip_class, site=site) for chip_class in inputs.classes),
        fleet=replace(inputs.fleet, long_links=()),
    )

    def more(choice: Choice, measured: Measured) -> tuple[Line, ...]:
        best = plan_inputs(together, choice.shape)[0].prediction
        told = choice.plan.prediction
        if best is None or told is None:
            return ()
        shares = (best.step_ms / told.step_ms, best.step_ms / measured.step_ms)
        return (Line(what=ACROSS_SITES, predicted=f"~{percent(shares[0])}", measured=f"~{percent(shares[1])}"),)

    return more


class DemoScreen(TrainScreen):
    """The screen of `argosy demo`: a line for each thing, figures at the end."""

    def planned(self, inputs: Inputs, choice: Choice) -> None:
        """Say what the demo is; the plan is shown once the data is."""
        self.expect(choice.plan, inputs.job.train.steps)
        kinds = len({chip_class.chip.name for chip_class in inputs.classes})
        km = inputs.fleet.long_links[0].km
        self.console.print(
            f"argosy demo: {len(inputs.nodes)} emulated nodes in {len(inputs.fleet.sites)} sites {km:g} km apart, "
            f"{kinds} chip kinds, on this machine's CPU. Times marked ~ are emulated.",
            soft_wrap=True,
        )
        self._plan_text = plan_text(choice.plan)

    def prepared(self, info: TokenSetInfo) -> None:
        """Show the data, then the plan."""
        super().prepared(info)
        self.say("plan", self._plan_text)

    def ended(self, ended: Ended) -> None:
        """Show the figures, and the ones that matter in a line."""
        super().ended(ended)
        if ended.measured and ended.error is None:
            self.say("done", done_text(ended))


def plan_text(plan: Plan) -> str:
    """Write a small plan in one line."""
    replicas = "; ".join(replica_text(replica) for replica in plan.replicas)
    told = plan.prediction
    return f"{len(plan.replicas)} replicas: {replicas}" + (f"   predicted ~{time_text(told.step_ms)} a step" if told else "")


def replica_text(replica: Replica) -> str:
    """Write one replica: sites, stages, layers, micro-batches."""
    sites = "+".join(dict.fromkeys(stage.chip_class.split("/")[0] for stage in replica.stages))
    layers = "+".join(str(stage.end_layer - stage.first_layer) for stage in replica.stages)
    stages = f"{len(replica.stages)} stage{'s' if len(replica.stages) > 1 else ''}"
    tp = f" TP {replica.stages[0].tp}," if replica.stages[0].tp > 1 else ""
    return f"{sites}{tp} {stages} {layers} layers x {replica.microbatches} micro-batches"


def done_text(ended: Ended) -> str:
    """Write what was reached in one line."""
    measured, told = ended.measured, ended.choice.plan.prediction
    if measured is None or told is None:
        return ""
    step = f"measured ~{time_text(measured.step_ms)} a step (predicted ~{time_text(told.step_ms)}"
    parts = [f"{step}, {change(told.step_ms, measured.step_ms)})", f"loss {measured.loss_first:.2f} to {measured.loss_last:.2f}"]
    figures = {line.what: line.measured for line in ended.lines}
    for label, what in (("mixed efficiency", PARTS_SUM), ("across sites", ACROSS_SITES)):
        parts += [f"{label} {figures[what]}"] if what in figures else []
    return "   ".join(parts)
