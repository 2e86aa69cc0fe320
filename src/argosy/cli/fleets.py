"""The fleet that a command is for: what a file describes, else this machine. Reads; it must not plan."""

from pathlib import Path

from argosy.contracts.fleet import Fleet
from argosy.fleet.catalogue import Catalogue
from argosy.fleet.detect import survey
from argosy.fleet.fleet_file import load_fleet

THIS_MACHINE = "this machine"


def fleet_of(path: Path | None, catalogue: Catalogue) -> tuple[Fleet, str]:
    """Give a fleet and what errors call it. Raises BadInputError with the place of every mistake in the file."""
    if path is None:
        return survey(catalogue).fleet, THIS_MACHINE
    return load_fleet(path, catalogue), str(path)
