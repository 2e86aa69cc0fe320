"""What the fleet is while the service runs: what `fleet.yaml` says, and the hosts that joined beside it.

Chips come from the catalogue that it is given. It gives a joining host its node: the one it wishes, else one of the
fleet that fits, else a new one. Must not know state, nor how agents talk.
"""

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Chip, ChipClass, LongLink, Node
from argosy.contracts.request import Pool
from argosy.contracts.talk import HostFacts

HERE = "here"
"""The site of a host that names none, in a fleet without sites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A fleet as planner, scheduler and launches need it.

    nodes: by name. chips: every kind that the catalogue knows, by name. gone: names of nodes that left for good, which
    no other may have.
    """

    fleet: str
    classes: tuple[ChipClass, ...]
    nodes: Mapping[str, Node]
    long_links: tuple[LongLink, ...]
    chips: Mapping[str, Chip]
    gone: frozenset[str] = frozenset()

    def pools(self) -> tuple[Pool, ...]:
        """Give the classes as the scheduler knows them."""
        return tuple(
            Pool(name=each.name, kind=each.chip.name, site=each.site, chips_per_node=each.chips_per_node)
            for each in self.classes
        )

    def devices(self, classes: Collection[str]) -> dict[str, str]:
        """Give the torch device type of real chips by class."""
        found = (each for each in self.classes if each.name in classes and not each.emulated)
        return {each.name: each.chip.torch_device for each in found}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where a joining host belongs. ground: with it in; new: it was not in before."""

    node: Node
    ground: Ground
    new: bool


def seat(ground: Ground, facts: HostFacts, wish: str, taken: Collection[str]) -> Seat:
    """Give a host its node. taken: nodes whose agents are others.

    Raises BadInputError where the wished node is another's, was retired or is of other chips, or nothing says what the
    host has.
    """
    if wish in ground.gone:
        text = f"node {wish} was retired for good; its host may come back as another node"
        raise BadInputError(f"{text}: give its agent another --state folder, and no --node or another")
    if wish:
        known = ground.nodes.get(wish)
        if known is not None:
            return Seat(node=_checked(ground, known, facts, taken), ground=ground, new=False)
        return _made(ground, facts, wish)
    free = (node for node in ground.nodes.values() if node.name not in taken)
    near = (node for node in free if not facts.site or node.site == facts.site)
    found = next((node for node in near if not _problem(ground, node, facts)), None)
    if found is not None:
        return Seat(node=found, ground=ground, new=False)
    return _made(ground, facts, "")


def _checked(ground: Ground, node: Node, facts: HostFacts, taken: Collection[str]) -> Node:
    if node.name in taken:
        text = f"node {node.name} has another agent; `argosy nodes` lists them, or leave --node out"
        raise BadInputError(f"{text}. Where that one is lost, this one may be {node.name} once its lease has run out")
    problem = _problem(ground, node, facts)
    if problem:
        raise BadInputError(f"node {node.name}: {problem}")
    return node


def _problem(ground: Ground, node: Node, facts: HostFacts) -> str:
    """Say why a host can't be a node of the fleet, empty when it can: emulated chips run anywhere."""
    chip_class = next(each for each in ground.classes if each.name == node.chip_class)
    if chip_class.emulated:
        return ""
    found = {each.chip: each.count for each in facts.chips}
    have = found.get(chip_class.chip.name, 0)
    if have >= chip_class.chips_per_node:
        return ""
    shown = ", ".join(f"{count} {chip}" for chip, count in found.items()) or "no chips"
    return f"the fleet says {chip_class.chips_per_node} {chip_class.chip.name}, {facts.hostname} has {shown}"


def _made(ground: Ground, facts: HostFacts, wish: str) -> Seat:
    """Make a node for a host that the fleet does not name."""
    kinds = [each for each in facts.chips if each.count > 0]
    if not kinds:
        raise BadInputError(f"{facts.hostname} reports no chips; `argosy fleet detect` there says what it finds")
    # A host of several kinds is a node of the most valuable, which its files name first.
    most = max(kinds, key=lambda each: (each.chip != "cpu", each.count))
    chip = ground.chips.get(most.chip)
    if chip is None:
        near = difflib.get_close_matches(most.chip, ground.chips, n=1)
        hint = f"; nearest: {near[0]}" if near else ""
        raise BadInputError(
            f"{facts.hostname}: no chip {most.chip} in the server's catalogue{hint}; `argosy chips` lists"
        )
    site = facts.site or (ground.classes[0].site if ground.classes else HERE)
    gbps = facts.nics.total_gbps if facts.nics else 0.0
    chip_class = _class_of(ground, site, chip, most.count, gbps)
    node = Node(name=_name(ground, facts, wish), site=site, chip_class=chip_class.name, chips=most.count)
    others = tuple(each for each in ground.classes if each.name != chip_class.name)
    grown = replace(chip_class, nodes=chip_class.nodes + 1)
    grounded = replace(ground, classes=(*others, grown), nodes={**ground.nodes, node.name: node})
    return Seat(node=node, ground=grounded, new=True)


def _class_of(ground: Ground, site: str, chip: Chip, count: int, gbps: float) -> ChipClass:
    """Find the class of like nodes, or begin one."""
    like = [each for each in ground.classes if each.site == site and each.chip.name == chip.name and not each.emulated]
    for each in like:
        if each.chips_per_node == count:
            return each
    # A name that another class has, such as one of emulated chips, would put this one in its place.
    names = {each.name for each in ground.classes}
    base = f"{site}/{chip.name}"
    tried = itertools.chain((base, f"{base}/{count}x"), (f"{base}/{count}x-{number}" for number in itertools.count(2)))
    name = next(one for one in tried if one not in names)
    return ChipClass(name=name, site=site, chip=chip, chips_per_node=count, nodes=0, nic_gbps=gbps)


def _name(ground: Ground, facts: HostFacts, wish: str) -> str:
    """Name a new node: as wished, else after its host, else with a number."""
    names = {*ground.nodes, *ground.gone}
    base = wish or re.sub(r"[^A-Za-z0-9._-]+", "-", facts.hostname)[:60].strip("-.") or "node"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", base):
        raise BadInputError(f"node {wish!r}: write 1 to 63 letters, digits, dots, dashes or underscores")
    if base not in names:
        return base
    return next(name for number in range(2, len(names) + 3) if (name := f"{base}-{number}") not in names)


def joined(ground: Ground, rows: Sequence[tuple[str, HostFacts]]) -> Ground:
    """Put the hosts that joined before the server's last end back in. rows: node and facts."""
    for name, facts in rows:
        if ground.nodes.get(name) is None:
            ground = _made(ground, facts, name).ground
    return ground


def without(ground: Ground, gone: Collection[str]) -> Ground:
    """Leave out nodes that were retired, so that nothing is planned for them."""
    kept = {name: node for name, node in ground.nodes.items() if name not in gone}
    left = Counter(node.chip_class for node in kept.values())
    classes = tuple(replace(each, nodes=left[each.name]) for each in ground.classes if left[each.name])
    return replace(ground, nodes=kept, classes=classes, gone=ground.gone | frozenset(gone))
