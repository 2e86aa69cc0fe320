"""What the service is given: a fleet, which is this machine unless a file says otherwise.

Reads and checks; it starts nothing.
"""

from pathlib import Path

from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.classes import chip_classes, fleet_nodes
from argosy.fleet.detect import survey
from argosy.fleet.fleet_file import load_fleet
from argosy.server.ground import Ground


def fleet_ground(fleet: Path | None, catalogue: Path | None) -> tuple[Ground, tuple[str, ...]]:
    """Read a fleet; gives it and the nodes that are on this machine: its own, or those of emulated chips.

    Raises BadInputError with the place of every mistake.
    """
    known = load_catalogue(catalogue)
    read = survey(known).fleet if fleet is None else load_fleet(fleet, known)
    classes = chip_classes(read, known)
    ground = Ground(
        fleet=read.name,
        classes=classes,
        nodes={node.name: node for node in fleet_nodes(read)},
        long_links=read.long_links,
        chips=dict(known.chips),
    )
    played = {each.name for each in classes if each.emulated}
    here = tuple(node.name for node in ground.nodes.values() if fleet is None or node.chip_class in played)
    return ground, here
