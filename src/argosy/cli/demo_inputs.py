"""The demo's job and fleet, and the figure that holds its two sites against one.

Reads the files in `demo_files`; starts nothing.
"""

from dataclasses import replace
from importlib.resources import files

from argosy.cli.choosing import Choice
from argosy.cli.inputs import Inputs, gather
from argosy.cli.planning import plan_inputs
from argosy.cli.running import More
from argosy.cli.summary import Line, Measured, percent
from argosy.contracts.job_file import read_job
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.fleet_file import read_fleet

ACROSS_SITES = "across sites: of the same chips in one site"


def demo_inputs(steps: int) -> Inputs:
    """Read the demo's job and fleet."""
    folder = files("argosy.cli") / "demo_files"
    texts = {name: (folder / name).read_text("utf-8") for name in ("job.yaml", "fleet.yaml")}
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
        best = plan_inputs(together, choice.shape, runnable=True)[0].prediction
        told = choice.plan.prediction
        if best is None or told is None:
            return ()
        shares = (best.step_ms / told.step_ms, best.step_ms / measured.step_ms)
        return (Line(what=ACROSS_SITES, predicted=f"~{percent(shares[0])}", measured=f"~{percent(shares[1])}"),)

    return more
