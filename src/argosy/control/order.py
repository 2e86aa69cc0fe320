"""The one order of the pass: entitled before borrowing, then priority, then who is furthest below its share, then age.

Every queue is a line of groups of like jobs, sorted by how much they must borrow, priority and age; a strict queue's
line is sorted by priority and age alone. Lays out the arrays that `control.board` judges by, and keeps them true while
the pass moves the state. Must not know how nodes are found.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from argosy.contracts.policy import TIMED_ORDERS
from argosy.control.board import (
    CLAIM,
    COUNT,
    END,
    HEAD,
    HELD,
    LAST_LACK,
    ROOM,
    SHARE,
    STRICT,
    Board,
    advance,
    line_up,
    set_tiers,
)
from argosy.control.decay import average, faded
from argosy.control.lanes import (
    CLOSED,
    CODE,
    LINED,
    NUMBER,
    PRIORITY,
    QUEUE,
    SEEN,
    SHAPE,
    TIER,
    UNSEEN,
    Array,
    GroupKey,
)
from argosy.control.nodes import FOREVER
from argosy.control.quota import Amounts
from argosy.control.room import RANK, Room
from argosy.control.state import BLOCKED, Blocked, QueueUse, State

LACKS_MAX = 1024
"""How many wishes that nothing could be freed for are remembered in a pass; those beyond are asked again."""
SLACK = 8
"""Room behind each line for groups that come while the pass runs; one that finds none has all lines laid out anew."""


class Order:
    """Gives group after group that something is to be done for. noted: what the pass found for some, by code.

    room: what is known of free nodes.
    """

    def __init__(self, state: State) -> None:
        self.state, self.room = state, Room(state)
        self.noted: list[Blocked] = [BLOCKED, BLOCKED]
        self._past = [_past(state, row.name) for row in state.quota.rows]
        self._lacks = 0
        rows = state.lanes.begin_pass()
        state.arrived.clear()
        state.shapes.count()
        self._board = _lay_out(state, self.room)
        self.refill()
        set_tiers(self.board, rows)
        self._line_all(rows)

    @property
    def board(self) -> Board:
        """The arrays; the table of groups is a larger one after more came than it had rows for."""
        if self._board.lanes is not self.state.lanes.table:
            self._board = self._board._replace(lanes=self.state.lanes.table)
        return self._board

    def next(self) -> tuple[int, int]:
        """Find the next group in line that something is to be done for: what, and its row."""
        self._take_in()
        return advance(self.board, -1, False)

    def judge(self, lane: int, failed: bool = False) -> tuple[int, int]:
        """Go on with a group that holds nodes, or with one that was to start and could not; then as `next`."""
        return advance(self.board, lane, failed)

    def again(self, lane: int) -> None:
        """Put a group back in line after its first job started, if it has more."""
        if self.board.lanes[lane, QUEUE] >= 0:
            self._line_up(lane)

    def rank(self, lane: int) -> int:
        """Give what the group judged last goes by where nodes are held for others: borrowing, then priority."""
        return min(depth for depth, _, _ in self._judged(lane)) * RANK + int(self.board.lanes[lane, PRIORITY])

    def startable(self, lane: int) -> list[int]:
        """List the rungs of the group judged last that may start now, best first."""
        tier = int(self.board.lanes[lane, TIER])
        return [index for index, (depth, _, fits) in enumerate(self._judged(lane)) if fits and depth <= tier]

    def usable(self, lane: int) -> list[tuple[int, int]]:
        """List the rungs of the group judged last that quotas and order allow, best first, each with its depth."""
        return [(index, depth) for index, (depth, usable, _) in enumerate(self._judged(lane)) if usable]

    def owed(self, lane: int) -> list[tuple[int, int]]:
        """List those usable rungs, with depth, that the queue owns and that something might be freed for."""
        return [(index, depth) for index, (depth, usable, fits) in enumerate(self._judged(lane)) if usable and fits]

    def note(self, lane: int, found: Blocked) -> None:
        """Say what was found for a blocked group."""
        if found != BLOCKED:
            self.noted.append(found)
        self.board.lanes[lane, CODE] = SEEN if found == BLOCKED else len(self.noted) - 1

    def lacks(self, lane: int, depth: int, part: tuple[int, int, int], due_us: int, found: Blocked = BLOCKED) -> None:
        """Note that nothing can be freed for a rung of one part (pool, level, nodes), nor for any that asks for more.

        due_us: start of the last maintenance that was too soon; it is for those who run as long. found: noted for equal
        wishes alone, where it could be done but may not.
        """
        if self._lacks < LACKS_MAX:
            queue, priority = self.board.lanes[lane, QUEUE], -self.board.lanes[lane, PRIORITY]
            code = 0
            if found != BLOCKED:
                self.noted.append(found)
                code = len(self.noted) - 1
            before = self.board.queues[queue, LAST_LACK]
            self.board.lacks[self._lacks] = queue, depth, *part, priority, code, before, due_us
            self.board.queues[queue, LAST_LACK] = self._lacks
            self._lacks += 1

    def used(self, queue: int, amounts: Amounts) -> None:
        """Note that a queue's use changed by amounts of these kinds."""
        board, quota = self.board, self.state.quota
        for kind, _ in amounts:
            for place in quota.rows[queue].path:
                row = quota.rows[place]
                board.quota[HELD, place, kind], board.quota[CLAIM, place, kind] = row.held[kind], row.claim[kind]
            board.top[0, kind], board.top[1, kind] = quota.top_held[kind], quota.used[kind]
        for place in quota.rows[queue].path:
            board.queues[place, SHARE] = self._share(place)

    def refill(self) -> None:
        """Count all use anew, after some was stopped or shrunk."""
        board, quota = self.board, self.state.quota
        if quota.rows:
            board.quota[HELD] = [row.held for row in quota.rows]
            board.quota[CLAIM] = [row.claim for row in quota.rows]
            board.queues[:, SHARE] = [self._share(place) for place in range(len(quota.rows))]
        board.top[:] = quota.top_held, quota.used, quota.capacity

    def stop_freeing(self) -> None:
        """Note that nobody has nodes freed for it any more in this pass."""
        self.board.clock[1] = 0

    def wanted(self) -> set[int]:
        """List the pools that blocked groups could use, had they enough free nodes."""
        return set(np.flatnonzero(self.board.wanted).tolist())

    def reasons(self, cut: bool) -> "Reasons":
        """Tell what was noted of each group.

        cut: the pass ended early; what is said of the rest is judged when asked.
        """
        return Reasons(self, cut)

    def _judged(self, lane: int) -> list[list[int]]:
        """Give DEPTH, USABLE and FITS of each rung of the group judged last."""
        rungs: list[list[int]] = self.board.judged[: self.board.shapes[self.board.lanes[lane, SHAPE], COUNT]].tolist()
        return rungs

    def _share(self, place: int) -> int:
        """Give past and present use / weight of a queue."""
        row = self.state.quota.rows[place]
        return (self._past[place] + row.held[-1]) * 1000 // row.weight_milli

    def _take_in(self) -> None:
        """Take in groups of jobs that came back meanwhile, or gave up nodes held for them."""
        state = self.state
        if not state.arrived:
            return
        came = {state.lanes.row[key] for key in state.arrived if key in state.lanes.row}
        state.arrived.clear()
        table = state.lanes.table
        fresh = [row for row in sorted(came) if not table[row, LINED] and table[row, CODE] == UNSEEN]
        set_tiers(self.board, np.array(fresh, np.int64))
        if sum(self._line_up(row) for row in fresh) < len(fresh):
            table[fresh, LINED] = 1
            self._line_all(np.flatnonzero((table[:, QUEUE] >= 0) & (table[:, LINED] > 0)))

    def _line_up(self, lane: int) -> bool:
        board = self.board
        return line_up(board.lanes, board.line, board.ends, board.queues, lane)

    def _line_all(self, rows: Array) -> None:
        """Lay out all lines, sorted, each with some room behind."""
        board, table = self.board, self.board.lanes
        queues = table[rows, QUEUE]
        tiers = np.where(board.queues[queues, STRICT] > 0, 0, table[rows, TIER])
        rows = rows[np.lexsort((table[rows, NUMBER], table[rows, PRIORITY], tiers, queues))]
        sizes = np.bincount(queues, minlength=len(board.ends))
        ends = np.cumsum(sizes + SLACK)
        line = np.zeros(int(ends[-1]) if len(ends) else 0, np.int64)
        line[np.arange(len(rows)) + np.repeat(SLACK * np.arange(len(sizes)), sizes)] = rows
        board.ends[:, HEAD], board.ends[:, ROOM] = ends - sizes - SLACK, ends
        board.ends[:, END] = ends - SLACK
        table[rows, LINED] = 1
        self._board = board._replace(line=line)


class Reasons(Mapping[GroupKey, Blocked]):
    """What a pass noted of each group, put together when somebody asks for the first time."""

    def __init__(self, order: Order, cut: bool) -> None:
        self._keys = list(order.state.lanes.keys)
        self._table = order.state.lanes.table[: len(self._keys)].copy()
        self._cut, self._noted, self._closing = cut, order.noted, order.board.closing
        self._found: dict[GroupKey, Blocked] | None = None

    def __getitem__(self, key: GroupKey) -> Blocked:
        return self._all()[key]

    def __iter__(self) -> Iterator[GroupKey]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[GroupKey, Blocked]:
        if self._found is None:
            table, keys = self._table, self._keys
            alive = (table[:, CODE] != UNSEEN) | (self._cut & (table[:, QUEUE] >= 0))
            rows = np.flatnonzero(alive)
            known: dict[tuple[int, int, int], Blocked] = {}
            self._found = {}
            for row, found in zip(rows.tolist(), table[rows][:, [QUEUE, CODE, CLOSED]].tolist(), strict=True):
                queue, code, closed = found if found[1] > SEEN or found[2] else (0, SEEN, 0)
                reason = known.get((queue, code, closed))
                if reason is None:
                    noted, pools = self._noted[code], frozenset(self._closing[queue, :closed].tolist())
                    reason = known[queue, code, closed] = Blocked(noted.code, noted.detail, pools)
                self._found[keys[row]] = reason
        return self._found


def _lay_out(state: State, room: Room) -> Board:
    """Make the arrays of a pass that begins."""
    quota, shapes, policy = state.quota, state.shapes, state.policy
    queues, pools, kinds = len(quota.rows), len(state.nodes.pools), len(quota.kinds)
    lowest = _lowest(state)
    lists = [
        (queue.order == "strict", queue.state == "draining" or queue.order in TIMED_ORDERS, levels, least, 0, 0, -1)
        for queue, levels, least in zip(policy.queues, quota.levels.tolist(), lowest, strict=True)
    ]
    return Board(
        lanes=state.lanes.table,
        line=np.zeros(0, np.int64),
        ends=np.zeros((queues, 3), np.int64),
        quota=quota.table,
        top=np.zeros((3, kinds), np.int64),
        paths=quota.paths,
        queues=np.array(lists, np.int64),
        shapes=shapes.sizes,
        rungs=shapes.starts,
        needs=shapes.needs,
        parts=shapes.parts,
        largest=room.largest,
        withheld=room.withheld,
        lacked=room.lacked,
        lacked_count=room.lacked_count,
        holds=_holds(state),
        ready=np.array(state.nodes.ready_count, np.int64),
        wanted=np.zeros(pools, np.int64),
        closed=np.zeros((queues, pools), np.int64),
        closing=np.zeros((queues, pools), np.int64),
        lacks=np.empty((LACKS_MAX, 9), np.int64),
        judged=np.zeros((max(1, shapes.longest), 3), np.int64),
        clock=np.array([state.now_us, policy.reclaim.at_most > 0, policy.reservations], np.int64),
    )


def _holds(state: State) -> Array:
    """Count the gangs that nodes of each pool are held for."""
    found: Array = np.zeros(len(state.nodes.pools), np.int64)
    for held in state.reservations.values():
        if not held.pinned:
            found[[pool for pool, _ in held.rung.chips]] += 1
    return found


def _lowest(state: State) -> list[int]:
    """Give the lowest priority of what each queue runs."""
    lowest, number = [FOREVER] * len(state.quota.rows), state.quota.number
    for attempt in state.attempts.values():
        claim = state.jobs[attempt.job].claim
        queue = number[claim.queue]
        if claim.priority < lowest[queue]:
            lowest[queue] = claim.priority
    return lowest


def _past(state: State, queue: str) -> int:
    """Give the mean use that a queue's past stands for now, in normalised thousandths of chips."""
    use = state.use.get(queue, QueueUse(0, state.now_us))
    rate = state.quota.rows[state.quota.number[queue]].held[-1]
    half_life_us = state.half_life_us()
    return average(faded(use.use, rate, state.now_us - use.at_us, half_life_us), half_life_us)
