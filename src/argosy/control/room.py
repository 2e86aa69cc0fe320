"""What is known of free nodes during one pass, as numbers by pool and level, so that most blocked jobs cost no search.

Until `forget` free nodes only grow fewer, so whoever needs as much, for as long, with no better rank than one who found
nothing, finds nothing either. Must not know quotas.
"""

from collections.abc import Iterable

import numpy as np

from argosy.control.domains import LEVELS
from argosy.control.lanes import Array
from argosy.control.state import State

RANK = 2**40
"""What a level of borrowing counts in a rank, beside priority."""
LACKED_MAX = 16
"""How many searches that found nothing are remembered by pool and level."""


class Room:
    """The arrays. largest: free nodes of the fullest domain; lacked: see `Board`.

    withheld: of each pool how many free nodes are kept from some; from which rank on nobody may take what is held for
    others; when the last of what is held is needed; when the last maintenance begins.
    """

    def __init__(self, state: State) -> None:
        pools = len(state.nodes.pools)
        self.state = state
        self.largest: Array = np.zeros((pools, len(LEVELS)), np.int64)
        self.withheld: Array = np.zeros((pools, 4), np.int64)
        self.lacked: Array = np.empty((pools, len(LEVELS), LACKED_MAX, 3), np.int64)
        self.lacked_count: Array = np.zeros((pools, len(LEVELS)), np.int64)
        self._turns = [-1] * pools
        self.changed(range(pools))

    def changed(self, pools: Iterable[int]) -> None:
        """Note that free nodes of these pools became fewer."""
        nodes = self.state.nodes
        for pool in pools:
            self.largest[pool] = nodes.trees[pool].most_free()
            if self._turns[pool] != nodes.withheld_turns[pool]:
                self._turns[pool] = nodes.withheld_turns[pool]
                self.withheld[pool] = self._kept(pool) if nodes.withheld[pool] else 0

    def forget(self, pools: Iterable[int] | None = None) -> None:
        """Note that nodes became free, or are no longer held for somebody: in these pools, or in any."""
        some = range(len(self.withheld)) if pools is None else list(pools)
        self.lacked_count[some] = 0
        self.changed(some)

    def lacks(self, parts: tuple[tuple[int, int, int], ...], end_us: int, rank: int) -> None:
        """Remember that a search for an ordinary job found nothing; only a single part says where."""
        if len(parts) > 1:
            return
        pool, level, nodes = parts[0]
        count = self.lacked_count[pool, level]
        if count < LACKED_MAX:
            self.lacked[pool, level, count] = nodes, end_us, rank
            self.lacked_count[pool, level] = count + 1

    def _kept(self, pool: int) -> tuple[int, int, int, int]:
        """Sum up the free nodes of a pool that are kept from some."""
        state, nodes = self.state, self.state.nodes
        rank, held_us, window_us = -RANK, -1, -1
        for (name, until_us), numbers in nodes.held_for(pool).items():
            if not name:
                window_us = max(nodes.until_us[number] for number in numbers)
                continue
            held_us = max(held_us, until_us)
            if not state.reservations[name].pinned:
                job = state.jobs[name]
                # Its own rank only grows worse, as far as its queue has levels.
                levels = len(state.quota.rows[state.queue_of(job)].path)
                rank = max(rank, levels * RANK - job.claim.priority)
        return len(nodes.withheld[pool]), rank, held_us, window_us
