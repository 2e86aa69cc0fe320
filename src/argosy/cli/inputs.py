"""What a training command is given: a job beside a fleet, which is this machine unless a file says otherwise.

Reads and checks; it plans nothing and starts nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.cli.jobs import load_job
from argosy.contracts.fleet import ChipClass, Fleet, Node
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.fleet.catalogue import Catalogue, load_catalogue
from argosy.fleet.classes import chip_classes, fleet_nodes
from argosy.fleet.detect import survey
from argosy.fleet.fleet_file import load_fleet

THIS_MACHINE = "this machine"
ELSEWHERE = (
    "this version starts ranks on this machine alone, others join in a later one. Leave out --fleet to use this "
    "machine, or give its nodes `emulate: {tflops: 0.05, memory_gb: 1}` to play them here"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """A job and the fleet it is for. job_source, fleet_source: what errors call them."""

    job: Job
    job_source: str
    fleet: Fleet
    fleet_source: str
    catalogue: Catalogue
    classes: tuple[ChipClass, ...]
    nodes: tuple[Node, ...]


def read_inputs(job: Path, overrides: Sequence[str], fleet: Path | None, catalogue: Path | None = None) -> Inputs:
    """Read a job and a fleet. Raises BadInputError with the place of every mistake."""
    known = load_catalogue(catalogue)
    asked = load_job(job, overrides)
    if fleet is None:
        return gather(asked, str(job), survey(known).fleet, THIS_MACHINE, known)
    return gather(asked, str(job), load_fleet(fleet, known), str(fleet), known)


def gather(job: Job, job_source: str, fleet: Fleet, fleet_source: str, catalogue: Catalogue) -> Inputs:
    """Put a job beside a fleet."""
    return Inputs(
        job=job,
        job_source=job_source,
        fleet=fleet,
        fleet_source=fleet_source,
        catalogue=catalogue,
        classes=chip_classes(fleet, catalogue),
        nodes=fleet_nodes(fleet),
    )


def used_classes(classes: Sequence[str], inputs: Inputs) -> list[ChipClass]:
    """Look up classes by name, each once, in the fleet's order; names that it does not have are left out."""
    return [chip_class for chip_class in inputs.classes if chip_class.name in classes]


def plan_classes(plan: Plan, inputs: Inputs) -> list[ChipClass]:
    """List the chip classes that a plan uses, in the fleet's order."""
    names = {stage.chip_class for replica in plan.replicas for stage in replica.stages}
    return used_classes(sorted(names), inputs)
