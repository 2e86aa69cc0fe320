"""Free nodes counted by topology: pool, spine, rack; the smallest domain that fits, and which nodes to take of it.

Only counts and picks; must not know jobs, quotas or why a node is free.
"""

from collections.abc import Iterable, Iterator

LEVELS = ("node", "rack", "spine", "site", "any")
NODE, RACK, SPINE, SITE, ANY = range(len(LEVELS))


Peers = list[set[int]]
"""For each count of free nodes, the numbers of a level's domains that have so many, up to the fullest."""


class Domain:
    """Nodes that are near one another. free: how many can be taken now; owned: how many there are.

    above: of a rack, the domain it lies in for each level.
    """

    __slots__ = ("above", "children", "free", "level", "name", "nodes", "number", "owned", "parent", "peers")

    def __init__(self, name: str, level: int, number: int, parent: "Domain | None", peers: Peers) -> None:
        self.name, self.level, self.number, self.parent, self.peers = name, level, number, parent, peers
        self.children: list[Domain] = []
        self.nodes: set[int] = set()
        self.free = self.owned = 0
        peers[0].add(number)
        self.above: tuple[Domain, ...] = ()
        if parent is not None:
            parent.children.append(self)
            top = parent.parent or parent
            self.above = (self, self, parent, top, top)


class PoolTree:
    """The domains of one pool. A node whose rack or spine is unknown shares a domain with all such nodes."""

    def __init__(self, name: str) -> None:
        self._peers: dict[int, Peers] = {level: [set()] for level in (RACK, SPINE, SITE)}
        self.top = Domain(name, SITE, 0, None, self._peers[SITE])
        self.levels: dict[int, list[Domain]] = {RACK: [], SPINE: [], SITE: [self.top]}
        self._known: dict[tuple[int | None, ...], Domain] = {}

    def leaf(self, spine: int | None, rack: int | None) -> Domain:
        """Find or make the rack domain of a node."""
        upper = self._domain((spine,), SPINE, self.top, f"spine {spine}" if spine is not None else "no spine")
        return self._domain((spine, rack), RACK, upper, f"rack {rack}" if rack is not None else upper.name)

    def _domain(self, key: tuple[int | None, ...], level: int, parent: Domain, name: str) -> Domain:
        if key not in self._known:
            self._known[key] = Domain(name, level, len(self.levels[level]), parent, self._peers[level])
            self.levels[level].append(self._known[key])
        return self._known[key]

    def at(self, level: int) -> list[Domain]:
        """List the domains that nodes of one part may share at a level; a single node lies in any rack."""
        return self.levels[min(max(level, RACK), SITE)]

    def find(self, count: int, level: int) -> Domain | None:
        """Find the smallest domain, and of those the fullest, that has so many free nodes."""
        if self.top.free < count or (level == NODE and count > 1):
            return None
        for step in range(RACK, min(max(level, RACK), SITE - 1) + 1):
            peers = self._peers[step]
            for free in range(count, len(peers)):
                if peers[free]:
                    return self.levels[step][min(peers[free])]
        return self.top if level >= SITE else None

    def largest(self, level: int) -> Domain:
        """Give the domain of a level with most free nodes, the first of equals."""
        if level < SITE:
            step = max(level, RACK)
            fullest = self._peers[step][-1]
            if fullest:
                return self.levels[step][min(fullest)]
        return self.top

    def most_free(self) -> tuple[int, int, int, int, int]:
        """Count the free nodes of the fullest domain of each level."""
        rack, spine, all_free = len(self._peers[RACK]) - 1, len(self._peers[SPINE]) - 1, self.top.free
        return rack, rack, spine, all_free, all_free

    def widest(self, level: int) -> int:
        """Count the nodes that the largest domain of a level owns, free or not."""
        return max((domain.owned for domain in self.at(level)), default=0)


def add(leaf: Domain, node: int) -> None:
    """Make a node free in its rack and in all that is above it."""
    leaf.nodes.add(node)
    _count({leaf: 1})


def remove(leaf: Domain, node: int) -> None:
    """Take a node out of its rack and of all that is above it."""
    leaf.nodes.remove(node)
    _count({leaf: -1})


def add_all(leaf: list[Domain], numbers: Iterable[int]) -> None:
    """Make nodes free. leaf: of every node."""
    changes: dict[Domain, int] = {}
    for number in numbers:
        rack = leaf[number]
        rack.nodes.add(number)
        changes[rack] = changes.get(rack, 0) + 1
    _count(changes)


def remove_all(leaf: list[Domain], numbers: Iterable[int]) -> None:
    """Take free nodes out. leaf: of every node."""
    changes: dict[Domain, int] = {}
    for number in numbers:
        rack = leaf[number]
        rack.nodes.remove(number)
        changes[rack] = changes.get(rack, 0) - 1
    _count(changes)


def _count(changes: dict[Domain, int]) -> None:
    """Count so many more free nodes in each of some racks, and in all that is above them."""
    while changes:
        above: dict[Domain, int] = {}
        for place, change in changes.items():
            before, after, peers, parent = place.free, place.free + change, place.peers, place.parent
            while after >= len(peers):
                peers.append(set())
            peers[before].remove(place.number)
            peers[after].add(place.number)
            while not peers[-1]:
                peers.pop()
            place.free = after
            if parent is not None:
                above[parent] = above.get(parent, 0) + change
        changes = above


def own(leaf: Domain, change: int) -> None:
    """Count a node that came (1) or went for good (-1)."""
    place: Domain | None = leaf
    while place is not None:
        place.owned += change
        place = place.parent


def domain_at(leaf: Domain, level: int) -> Domain:
    """Give the domain of a level that a rack lies in."""
    return leaf.above[level]


def together(leaf: list[Domain], numbers: Iterable[int], level: int) -> bool:
    """Say whether nodes share a domain of a level. leaf: of every node."""
    return len({leaf[number].above[level] for number in numbers}) <= 1


def pick(domain: Domain, count: int) -> list[int]:
    """Choose free nodes of a domain: whole racks first, the rest from the rack that it leaves fullest."""
    return list(_picked(domain, count))


def _picked(domain: Domain, count: int) -> Iterator[int]:
    if domain.nodes or not domain.children:
        yield from sorted(domain.nodes)[:count]
        return
    rest: list[Domain] = []
    for child in sorted(domain.children, key=lambda item: (-item.free, item.number)):
        if 0 < child.free <= count:
            yield from _picked(child, child.free)
            count -= child.free
        elif child.free:
            rest.append(child)
    if count:
        yield from _picked(min(rest, key=lambda item: (item.free, item.number)), count)
