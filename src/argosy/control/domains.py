"""Free nodes counted by topology: pool, spine, rack; the smallest domain that fits, and which nodes to take of it.

Only counts and picks; must not know jobs, quotas or why a node is free.
"""

from collections.abc import Iterator

LEVELS = ("node", "rack", "spine", "site", "any")
NODE, RACK, SPINE, SITE, ANY = range(len(LEVELS))


class Domain:
    """Nodes that are near one another. free: how many can be taken now; owned: how many there are."""

    __slots__ = ("children", "free", "level", "name", "nodes", "number", "owned", "parent")

    def __init__(self, name: str, level: int, number: int, parent: "Domain | None") -> None:
        self.name, self.level, self.number, self.parent = name, level, number, parent
        self.children: list[Domain] = []
        self.nodes: set[int] = set()
        self.free = self.owned = 0
        if parent is not None:
            parent.children.append(self)


class PoolTree:
    """The domains of one pool. A node whose rack or spine is unknown shares a domain with all such nodes."""

    def __init__(self, name: str) -> None:
        self.top = Domain(name, SITE, 0, None)
        self.levels: dict[int, list[Domain]] = {RACK: [], SPINE: [], SITE: [self.top]}
        self._known: dict[tuple[int | None, ...], Domain] = {}

    def leaf(self, spine: int | None, rack: int | None) -> Domain:
        """Find or make the rack domain of a node."""
        upper = self._domain((spine,), SPINE, self.top, f"spine {spine}" if spine is not None else "no spine")
        return self._domain((spine, rack), RACK, upper, f"rack {rack}" if rack is not None else upper.name)

    def _domain(self, key: tuple[int | None, ...], level: int, parent: Domain, name: str) -> Domain:
        if key not in self._known:
            self._known[key] = Domain(name, level, len(self.levels[level]), parent)
            self.levels[level].append(self._known[key])
        return self._known[key]

    def at(self, level: int) -> list[Domain]:
        """List the domains that nodes of one part may share at a level; a single node lies in any rack."""
        return self.levels[min(max(level, RACK), SITE)]

    def find(self, count: int, level: int) -> Domain | None:
        """Find the smallest domain, and of those the fullest, that has so many free nodes."""
        if self.top.free < count or (level == NODE and count > 1):
            return None
        for step in range(RACK, min(max(level, RACK), SITE) + 1):
            best = None
            for domain in self.levels[step]:
                if domain.free >= count and (best is None or domain.free < best.free):
                    best = domain
            if best is not None:
                return best
        return None

    def largest(self, level: int) -> Domain:
        """Give the domain of a level with most free nodes, the first of equals."""
        return max(self.at(level), key=lambda domain: domain.free)

    def widest(self, level: int) -> int:
        """Count the nodes that the largest domain of a level owns, free or not."""
        return max((domain.owned for domain in self.at(level)), default=0)


def add(leaf: Domain, node: int) -> None:
    """Make a node free in its rack and in all that is above it."""
    leaf.nodes.add(node)
    place: Domain | None = leaf
    while place is not None:
        place.free += 1
        place = place.parent


def remove(leaf: Domain, node: int) -> None:
    """Take a node out of its rack and of all that is above it."""
    leaf.nodes.remove(node)
    place: Domain | None = leaf
    while place is not None:
        place.free -= 1
        place = place.parent


def own(leaf: Domain, change: int) -> None:
    """Count a node that came (1) or went for good (-1)."""
    place: Domain | None = leaf
    while place is not None:
        place.owned += change
        place = place.parent


def domain_at(leaf: Domain, level: int) -> Domain:
    """Give the domain of a level that a rack lies in."""
    place, wanted = leaf, min(max(level, RACK), SITE)
    while place.level < wanted and place.parent is not None:
        place = place.parent
    return place


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
