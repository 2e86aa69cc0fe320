"""All nodes as columns, and which of them can be taken now.

A node is observed x intent x trust; it is *ready* when up, open and ok, *free* when ready and held by nobody, and
*placeable* when free without being a spare, held for a job or due for maintenance. Only placeable nodes are counted in
the domain trees. Must not know queues or policy.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from argosy.contracts.fleet import Node
from argosy.contracts.request import Pool
from argosy.control.domains import Domain, PoolTree, add, add_all, own, remove, remove_all

FOREVER = 2**62
"""A time in microseconds that never comes."""


class NodeTable:
    """Columns of nodes, indexed by a number that a node keeps for ever.

    holder: attempt on the node, also while it leaves. leaving: the attempt no longer counts on it since the generation
    left_generation, and has to be gone by leave_by_us. empty_by_us: when a draining node's jobs have to go. lease_us:
    when a node that does not answer has parked its ranks for certain. until_us: start of the next maintenance window, 0
    while in one. lock, lock_until: the job a free node is held for, and the time before which others may use it.
    faults: times it was quarantined. withheld, idle_spares: of each pool the free nodes that not everybody may use, and
    those kept for replacements. withheld_turns: how often what is known of withheld changed.
    """

    def __init__(self) -> None:
        self.pools: list[Pool] = []
        self.trees: list[PoolTree] = []
        self.pool_number: dict[str, int] = {}
        self.number: dict[str, int] = {}
        self.name: list[str] = []
        self.pool: list[int] = []
        self.rack: list[int | None] = []
        self.spine: list[int | None] = []
        self.leaf: list[Domain] = []
        self.observed: list[str] = []
        self.intent: list[str] = []
        self.empty_by_us: list[int] = []
        self.trust: list[str] = []
        self.holder: list[str] = []
        self.leaving: list[bool] = []
        self.left_generation: list[int] = []
        self.leave_by_us: list[int] = []
        self.lease_us: list[int] = []
        self.until_us: list[int] = []
        self.spare: list[bool] = []
        self.retired: list[bool] = []
        self.faults: list[int] = []
        self.lock: list[str] = []
        self.lock_until: list[int] = []
        self.placeable: list[bool] = []
        self.ready: list[bool] = []
        self.ready_count: list[int] = []
        self.withheld: list[set[int]] = []
        self.withheld_turns: list[int] = []
        self._held_for: dict[int, tuple[int, dict[tuple[str, int], list[int]]]] = {}
        self.idle_spares: list[set[int]] = []
        self.members: list[list[int]] = []
        self._domains: dict[tuple[int, int], list[int]] = {}

    def __len__(self) -> int:
        return len(self.name)

    def add_pool(self, pool: Pool) -> None:
        """Add a pool, or change nothing if it is known."""
        if pool.name not in self.pool_number:
            self.pool_number[pool.name] = len(self.pools)
            self.pools.append(pool)
            self.trees.append(PoolTree(pool.name))
            self.ready_count.append(0)
            self.withheld.append(set())
            self.withheld_turns.append(0)
            self.idle_spares.append(set())
            self.members.append([])

    def add_node(self, node: Node) -> None:
        """Add a node in state unknown, open, ok."""
        pool = self.pool_number[node.chip_class]
        self.number[node.name] = len(self.name)
        leaf = self.trees[pool].leaf(node.spine, node.rack)
        own(leaf, 1)
        self.members[pool].append(len(self.name))
        row = {"name": node.name, "pool": pool, "rack": node.rack, "spine": node.spine, "leaf": leaf}
        row |= {"observed": "unknown", "intent": "open", "trust": "ok", "holder": "", "leaving": False}
        row |= {
            "left_generation": 0,
            "leave_by_us": 0,
            "lease_us": 0,
            "empty_by_us": FOREVER,
            "until_us": FOREVER,
            "spare": False,
            "retired": False,
            "faults": 0,
        }
        row |= {"lock": "", "lock_until": 0, "placeable": False, "ready": False}
        for column, value in row.items():
            getattr(self, column).append(value)

    def retire(self, number: int) -> None:
        """Strike a node out for good; its number stays."""
        self.retired[number] = True
        own(self.leaf[number], -1)
        self.refresh(number)

    def refresh(self, number: int) -> None:
        """Work out anew whether a node is ready and placeable, after one of its columns changed."""
        pool = self.pool[number]
        ready = (
            self.observed[number] == "up"
            and self.intent[number] == "open"
            and self.trust[number] == "ok"
            and not self.retired[number]
        )
        if ready != self.ready[number]:
            self.ready[number] = ready
            self.ready_count[pool] += 1 if ready else -1
        free = ready and not self.holder[number]
        spare = self.spare[number]
        kept = bool(self.lock[number]) or self.until_us[number] != FOREVER
        (self.idle_spares[pool].add if free and spare else self.idle_spares[pool].discard)(number)
        withheld, keep = self.withheld[pool], free and kept and not spare
        if keep or number in withheld:
            (withheld.add if keep else withheld.discard)(number)
            self.withheld_turns[pool] += 1
        if (free and not kept and not spare) != self.placeable[number]:
            self.placeable[number] = not self.placeable[number]
            (add if self.placeable[number] else remove)(self.leaf[number], number)

    def is_free(self, number: int) -> bool:
        """Say whether a node is ready and held by nobody."""
        return self.ready[number] and not self.holder[number]

    def hold(self, numbers: Iterable[int], attempt: str) -> None:
        """Give free nodes to an attempt."""
        taken = []
        for number in numbers:
            self.holder[number] = attempt
            if self.placeable[number]:
                self.placeable[number] = False
                taken.append(number)
            else:
                self.refresh(number)
        remove_all(self.leaf, taken)

    def let_go(self, numbers: Iterable[int]) -> None:
        """Take nodes back from whoever held them."""
        for number in numbers:
            self.holder[number], self.leaving[number] = "", False
            self.refresh(number)

    def set_lock(self, numbers: Iterable[int], job: str, until_us: int) -> None:
        """Hold nodes for a job; the empty job frees them."""
        for number in numbers:
            self.lock[number], self.lock_until[number] = job, until_us
            self.refresh(number)

    def held_for(self, pool: int) -> dict[tuple[str, int], list[int]]:
        """List the withheld nodes of a pool by the job they are held for, and until when; the empty job is nobody."""
        turn, found = self._held_for.get(pool, (-1, {}))
        if turn != self.withheld_turns[pool]:
            found = {}
            for number in self.withheld[pool]:
                found.setdefault((self.lock[number], self.lock_until[number]), []).append(number)
            self._held_for[pool] = self.withheld_turns[pool], found
        return found

    @contextmanager
    def lent(self, extra: Iterable[int], without: Iterable[int] = ()) -> Iterator[None]:
        """Count withheld nodes as placeable, and others as not, while the block runs; the block must take none."""
        extra, without = list(extra), [number for number in without if number in self.leaf[number].nodes]
        if not extra and not without:
            yield
            return
        add_all(self.leaf, extra)
        remove_all(self.leaf, without)
        try:
            yield
        finally:
            remove_all(self.leaf, extra)
            add_all(self.leaf, without)

    def names(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """Name nodes."""
        return tuple(self.name[number] for number in numbers)

    def of_pool(self, pool: int) -> list[int]:
        """List the nodes of a pool that are not retired."""
        return [number for number in self.members[pool] if not self.retired[number]]

    def domains(self, pool: int, level: int) -> list[int]:
        """Give the number of the domain of a level that each member of a pool lies in; it never moves."""
        known, leaf = self._domains.setdefault((pool, level), []), self.leaf
        known += [leaf[number].above[level].number for number in self.members[pool][len(known) :]]
        return known

    def shown(self, numbers: Iterable[int], at_most: int = 4) -> str:
        """Name a few nodes for a text people read."""
        numbers = list(numbers)
        rest = len(numbers) - at_most
        return ", ".join(self.names(islice(numbers, at_most))) + (f" and {rest} more" if rest > 0 else "")
