"""What a training command is given: a job beside a fleet, which is this machine unless a file says otherwise.

Reads and checks; it plans nothing and starts nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from argosy.cli.fleets import fleet_of
from argosy.cli.jobs import load_job
from argosy.cli.profiles import read_profiles
from argosy.contracts.fleet import ChipClass, Fleet, Node
from argosy.contracts.job import Job
from argosy.fleet.catalogue import Catalogue, load_catalogue
from argosy.fleet.classes import chip_classes, fleet_nodes
from argosy.plan.costs.measured import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """A job and the fleet it is for. job_source, fleet_source: what errors call them. measured: profiles given."""

    job: Job
    job_source: str
    fleet: Fleet
    fleet_source: str
    catalogue: Catalogue
    classes: tuple[ChipClass, ...]
    nodes: tuple[Node, ...]
    measured: Measured | None = None


def read_inputs(
    job: Path,
    overrides: Sequence[str],
    fleet: Path | None,
    catalogue: Path | None = None,
    profiles: Sequence[Path] = (),
) -> Inputs:
    """Read a job and a fleet, and profiles. Raises BadInputError with the place of every mistake."""
    known = load_catalogue(catalogue)
    asked = load_job(job, overrides)
    found = gather(asked, str(job), *fleet_of(fleet, known), known)
    return replace(found, measured=read_profiles(profiles, known))


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
