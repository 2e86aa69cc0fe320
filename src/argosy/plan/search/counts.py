"""Which numbers of chips to try where fewer may do better: a ladder from all down to a node.

Must not know what they are wanted for.
"""

from collections.abc import Sequence

from argosy.contracts.fleet import ChipClass

# Fewer nodes than this are tried one by one; above, twice to a power of two and half-way between.
EVERY_COUNT_MAX = 8


def ladder_counts(nodes: int) -> list[int]:
    """List counts of nodes below so many, largest first.

    >>> ladder_counts(9), ladder_counts(40)
    ([8, 7, 6, 5, 4, 3, 2, 1], [32, 24, 16, 12, 8, 7, 6, 5, 4, 3, 2, 1])
    """
    powers = [1 << bit for bit in range(nodes.bit_length())]
    wide = [count for power in powers for count in (power, power * 3 // 2) if count > EVERY_COUNT_MAX]
    return sorted({count for count in (*range(1, EVERY_COUNT_MAX + 1), *wide) if count < nodes}, reverse=True)


def fewer_chips(counts: dict[str, int], classes: Sequence[ChipClass]) -> list[dict[str, int]]:
    """List smaller numbers of chips by class, in whole nodes: of one class a ladder, of several all halved together."""
    if len(classes) == 1:
        name, size = classes[0].name, classes[0].chips_per_node
        return [{name: nodes * size} for nodes in ladder_counts(-(-counts[name] // size))]
    found = [counts]
    while True:
        halved = {c.name: max(c.chips_per_node, found[-1][c.name] // 2) for c in classes}
        halved = {c.name: halved[c.name] - halved[c.name] % c.chips_per_node for c in classes}
        if sum(halved.values()) >= sum(found[-1].values()):
            return found[1:]
        found.append(halved)
