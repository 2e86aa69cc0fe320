"""The compiled heart of the pass: who is next in line, and whether there is anything to do for him.

Most groups stay blocked; they are passed over here, and only those that could start, that are owed nodes or may have
some held are handed back. Reads and writes the arrays of a `Board` alone; must not know jobs, nodes or policy.
"""

from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

from numba import njit

from argosy.contracts.compiled import compiled
from argosy.control.lanes import (
    CLOSED,
    CODE,
    HOLDS,
    LIMIT,
    LINED,
    NUMBER,
    PRIORITY,
    QUEUE,
    READY,
    SEEN,
    SHAPE,
    TIER,
    Array,
)
from argosy.control.nodes import FOREVER
from argosy.control.place import HORIZON_US
from argosy.control.room import RANK

DONE, START, HELP, LOOK = range(4)
"""What `advance` finds: nobody is left; a group may start; one may have nodes freed or held; one holds some already."""
OWN, HELD, MOST, CLAIM, KEPT = range(5)
"""Of a queue by kind: what it is entitled to, holds, may hold at most, claims of its parent, and does not lend."""
USED, CAPACITY = 1, 2
STRICT, DRAINING, LEVELS, LOWEST, SHARE, CLOSURES, LAST_LACK = range(7)
"""Of a queue. LOWEST: priority of what runs; SHARE: past and present use over weight; CLOSURES: how many pools are
closed to those behind its blocked jobs; LAST_LACK: where the chain of its lacks begins, -1 without."""
DEPTH, USABLE, FITS = range(3)
COUNT, FIRST = range(2)
FIRST_NEED, FIRST_PART = range(2)
HEAD, END, ROOM = range(3)
KIND, AMOUNT = range(2)
POOL, LEVEL, NODES = range(3)
LACK_QUEUE, LACK_DEPTH, LACK_POOL, LACK_LEVEL, LACK_NODES, LACK_PRIORITY, LACK_CODE, LACK_BEFORE, LACK_DUE = range(9)
EVERY_LEVEL = -1
_P = ParamSpec("_P")
_R = TypeVar("_R")
FAR = 2**40


def _inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function into those that call it: handing on a board costs more than what most of them do."""
    made: Callable[_P, _R] = njit(forceinline=True)(function)
    return made


class Board(NamedTuple):
    """All that the line of waiting groups is judged by.

    lanes: see `control.lanes`. line, ends: rows of lanes in order, a stretch for each queue, from HEAD to END with ROOM
    behind. quota: by OWN..KEPT, queue, kind; top: the sum of all by HELD, USED, CAPACITY, kind. paths: of each queue,
    itself and those above it. queues: by STRICT..LAST_LACK. shapes, rungs, needs, parts: as in `control.shapes`.
    largest: free nodes of the fullest domain by pool and level; withheld: see `Room`. lacked: (nodes, end, rank) for
    which a search by pool and level found nothing. holds, ready, wanted: by pool. closed, closing: pools that a strict
    queue's blocked jobs wait for, in which order. lacks: for whom nothing could be freed, a chain for each queue.
    judged: DEPTH, USABLE and FITS of the rungs of the group judged last. clock: now, whether more may be freed, how
    many may have nodes held in a pool.
    """

    lanes: Array
    line: Array
    ends: Array
    quota: Array
    top: Array
    paths: Array
    queues: Array
    shapes: Array
    rungs: Array
    needs: Array
    parts: Array
    largest: Array
    withheld: Array
    lacked: Array
    lacked_count: Array
    holds: Array
    ready: Array
    wanted: Array
    closed: Array
    closing: Array
    lacks: Array
    judged: Array
    clock: Array


@_inlined
def _depth(board: Board, queue: int, rung: int) -> int:
    """Say how far up a rung is entitled, as `QuotaTree.depth`."""
    levels, last = int(board.queues[queue, LEVELS]), board.top.shape[1] - 1
    for level in range(levels):
        place, fits = board.paths[queue, level], True
        for row in range(board.rungs[rung, FIRST_NEED], board.rungs[rung + 1, FIRST_NEED]):
            kind, own = board.needs[row, KIND], board.quota[OWN, place, board.needs[row, KIND]]
            over = board.quota[HELD, place, kind] + board.needs[row, AMOUNT] > own
            if over and (kind != last or own > 0):
                fits = False
        if fits:
            return level
    return levels


@_inlined
def _allowed(board: Board, queue: int, rung: int, depth: int) -> bool:
    """Say whether no limit below the level where a rung is entitled forbids it, as `QuotaTree.excess`."""
    nowhere = depth == board.queues[queue, LEVELS]
    for row in range(board.rungs[rung, FIRST_NEED], board.rungs[rung + 1, FIRST_NEED]):
        kind, step = board.needs[row, KIND], board.needs[row, AMOUNT]
        for level in range(depth):
            place = board.paths[queue, level]
            held = board.quota[HELD, place, kind] + step
            if held > board.quota[MOST, place, kind]:
                return False
            step = max(held, board.quota[KEPT, place, kind]) - board.quota[CLAIM, place, kind]
        kept = board.top[0, kind] > board.top[USED, kind]
        if nowhere and kept and board.top[0, kind] + step > board.top[CAPACITY, kind]:
            return False
    return True


@_inlined
def _is_closed(board: Board, queue: int, rung: int) -> bool:
    """Say whether a job ahead in a strict queue waits for a pool of a rung."""
    if board.queues[queue, CLOSURES] == 0:
        return False
    for part in range(board.rungs[rung, FIRST_PART], board.rungs[rung + 1, FIRST_PART]):
        if board.closed[queue, board.parts[part, POOL]]:
            return True
    return False


@_inlined
def _end(board: Board, lane: int) -> int:
    """Say when a group's first job would end if it started now, FOREVER without a time limit."""
    limit = board.lanes[lane, LIMIT]
    return int(limit if limit >= FOREVER else board.clock[0] + limit)


@_inlined
def _needed_until(board: Board, end_us: int) -> int:
    """Say until when no maintenance of its nodes may begin for a job that ends then, as `place.needed_until`."""
    return int(min(end_us, board.clock[0] + HORIZON_US) if end_us >= FOREVER else end_us)


@_inlined
def _may_borrow(board: Board, pool: int, rank: int, end_us: int) -> bool:
    """Say whether some node that is kept from others may be used by a job of this rank that ends then."""
    kept = board.withheld[pool]
    return bool(rank < kept[1] or end_us <= kept[2] or _needed_until(board, end_us) <= kept[3])


@_inlined
def _has_room(board: Board, rung: int, rank: int, end_us: int) -> bool:
    """Say whether a search for free nodes is worth it for a job that holds none and ends then."""
    for part in range(board.rungs[rung, FIRST_PART], board.rungs[rung + 1, FIRST_PART]):
        pool, level, nodes = board.parts[part, POOL], board.parts[part, LEVEL], board.parts[part, NODES]
        if level == 0 and nodes > 1:
            return False
        most = board.largest[pool, level]
        if nodes <= most:
            continue
        if nodes > most + board.withheld[pool, 0] or not _may_borrow(board, pool, rank, end_us):
            return False
        for index in range(board.lacked_count[pool, level]):
            lack = board.lacked[pool, level, index]
            longer = end_us >= lack[1] and _needed_until(board, end_us) >= _needed_until(board, lack[1])
            if nodes >= lack[0] and longer and rank >= lack[2]:
                return False
    return True


@_inlined
def _rate(board: Board, lane: int) -> int:
    """Say of all rungs of a group how far up they are entitled; give the least depth."""
    queue, shape = board.lanes[lane, QUEUE], board.lanes[lane, SHAPE]
    least = FAR
    for index in range(board.shapes[shape, COUNT]):
        rung = board.shapes[shape, FIRST] + index
        depth = _depth(board, queue, rung)
        board.judged[index, DEPTH] = depth
        least = min(least, depth)
    return least


@_inlined
def _allow(board: Board, lane: int) -> None:
    """Mark the rungs of a group that has been rated which quota and order allow."""
    queue, shape = board.lanes[lane, QUEUE], board.lanes[lane, SHAPE]
    for index in range(board.shapes[shape, COUNT]):
        rung, depth = board.shapes[shape, FIRST] + index, board.judged[index, DEPTH]
        board.judged[index, USABLE] = _allowed(board, queue, rung, depth) and not _is_closed(board, queue, rung)


@_inlined
def _fit(board: Board, lane: int) -> bool:
    """Judge the usable rungs by free nodes; say whether one that its tier allows may start."""
    shape, able, end_us, least = board.lanes[lane, SHAPE], False, _end(board, lane), FAR
    for index in range(board.shapes[shape, COUNT]):
        least = min(least, board.judged[index, DEPTH])
    rank = least * RANK + board.lanes[lane, PRIORITY]
    for index in range(board.shapes[shape, COUNT]):
        usable = board.judged[index, USABLE] > 0
        rung = board.shapes[shape, FIRST] + index
        fits = usable and (board.lanes[lane, HOLDS] > 0 or _has_room(board, rung, rank, end_us))
        board.judged[index, FITS] = fits
        able = able or (fits and board.judged[index, DEPTH] <= board.lanes[lane, TIER])
    return able


@_inlined
def _compare_shares(board: Board, one: int, other: int) -> int:
    """Compare the shares of two queues, outermost ancestors first; the shorter path is less."""
    levels_one, levels_other = board.queues[one, LEVELS], board.queues[other, LEVELS]
    for step in range(min(levels_one, levels_other)):
        mine = board.queues[board.paths[one, levels_one - 1 - step], SHARE]
        theirs = board.queues[board.paths[other, levels_other - 1 - step], SHARE]
        if mine != theirs:
            return -1 if mine < theirs else 1
    return int(levels_one - levels_other)


@_inlined
def _goes_before(board: Board, one: int, other: int) -> bool:
    """Say whether one queue's first group goes before another's."""
    mine, theirs = board.line[board.ends[one, HEAD]], board.line[board.ends[other, HEAD]]
    for column in (TIER, PRIORITY):
        if board.lanes[mine, column] != board.lanes[theirs, column]:
            return bool(board.lanes[mine, column] < board.lanes[theirs, column])
    shares = _compare_shares(board, one, other)
    return shares < 0 if shares != 0 else bool(board.lanes[mine, NUMBER] < board.lanes[theirs, NUMBER])


@_inlined
def _has_any(board: Board, queue: int) -> bool:
    """Say whether a line has a group left; those that died are passed over."""
    while board.ends[queue, HEAD] < board.ends[queue, END]:
        if board.lanes[board.line[board.ends[queue, HEAD]], QUEUE] >= 0:
            return True
        board.ends[queue, HEAD] += 1
    return False


@_inlined
def _first_two(board: Board) -> tuple[int, int]:
    """Find the queue whose first group goes before all others, and the one after it; -1 where there is none."""
    best, second = -1, -1
    for queue in range(len(board.ends)):
        if not _has_any(board, queue):
            continue
        if best < 0 or _goes_before(board, queue, best):
            best, second = queue, best
        elif second < 0 or _goes_before(board, queue, second):
            second = queue
    return best, second


@_inlined
def _stands_before(lanes: Array, one: int, other: int, strict: int) -> bool:
    """Say whether one group of a queue goes before another; a strict queue's tiers don't count within it."""
    for column in (TIER, PRIORITY):
        if lanes[one, column] != lanes[other, column] and not (strict and column == TIER):
            return bool(lanes[one, column] < lanes[other, column])
    return bool(lanes[one, NUMBER] < lanes[other, NUMBER])


@compiled
def line_up(lanes: Array, line: Array, ends: Array, queues: Array, lane: int) -> bool:
    """Put a group in its queue's line; False if the stretch has no room left."""
    queue = lanes[lane, QUEUE]
    head, end, strict = ends[queue, HEAD], ends[queue, END], queues[queue, STRICT]
    low, high = head, end
    while low < high:
        middle = (low + high) // 2
        if _stands_before(lanes, line[middle], lane, strict):
            low = middle + 1
        else:
            high = middle
    if head > (ends[queue - 1, ROOM] if queue > 0 else 0):
        for place in range(head, low):
            line[place - 1] = line[place]
        line[low - 1] = lane
        ends[queue, HEAD] = head - 1
    elif end < ends[queue, ROOM]:
        for place in range(end, low, -1):
            line[place] = line[place - 1]
        line[low] = lane
        ends[queue, END] = end + 1
    else:
        return False
    lanes[lane, LINED] = 1
    return True


@_inlined
def _lack_of(board: Board, queue: int, rung: int, depth: int, priority: int, needed_us: int) -> int:
    """Say what is known of freeing nodes for a rung of one part: -1 nothing, 0 that it can't be done, or a code why."""
    part = board.parts[board.rungs[rung, FIRST_PART]]
    place = board.queues[queue, LAST_LACK]
    while place >= 0:
        lack = board.lacks[place]
        near = lack[LACK_LEVEL] == part[LEVEL] or lack[LACK_LEVEL] == EVERY_LEVEL
        if lack[LACK_DEPTH] == depth and lack[LACK_POOL] == part[POOL] and near and needed_us > lack[LACK_DUE]:
            code = int(lack[LACK_CODE])
            more, rank = part[NODES] - lack[LACK_NODES], priority - lack[LACK_PRIORITY]
            if (code == 0 and more >= 0 and rank <= 0) or (code > 0 and more == 0 and rank == 0):
                return code
        place = lack[LACK_BEFORE]
    return -1


@_inlined
def _is_owed(board: Board, lane: int, rung: int, depth: int) -> bool:
    """Say whether nodes may be freed for a rung.

    It is entitled somewhere, or within its queue's own guarantee if somebody of lower priority there gave way.
    """
    queue = board.lanes[lane, QUEUE]
    if depth < board.queues[queue, LEVELS]:
        return True
    if board.queues[queue, LOWEST] >= -board.lanes[lane, PRIORITY]:
        return False
    last = board.top.shape[1] - 1
    for row in range(board.rungs[rung, FIRST_NEED], board.rungs[rung + 1, FIRST_NEED]):
        kind, need = board.needs[row, KIND], board.needs[row, AMOUNT]
        own = board.quota[OWN, queue, kind]
        if (kind < last or own > 0) and max(need, board.quota[HELD, queue, kind]) > own:
            return False
    return True


@_inlined
def _mark_owed(board: Board, lane: int) -> bool:
    """Mark in `fits` the usable rungs that nodes might be freed for; notes what is known of why not."""
    queue, shape, some = board.lanes[lane, QUEUE], board.lanes[lane, SHAPE], False
    for index in range(board.shapes[shape, COUNT]):
        rung, depth = board.shapes[shape, FIRST] + index, board.judged[index, DEPTH]
        board.judged[index, FITS] = 0
        if board.judged[index, USABLE] and _is_owed(board, lane, rung, depth):
            alone, known = board.rungs[rung + 1, FIRST_PART] - board.rungs[rung, FIRST_PART] == 1, -1
            if alone:
                needed_us = _needed_until(board, _end(board, lane))
                known = _lack_of(board, queue, rung, depth, -board.lanes[lane, PRIORITY], needed_us)
            if known < 0:
                board.judged[index, FITS], some = 1, True
            else:
                board.lanes[lane, CODE] = max(board.lanes[lane, CODE], known)
    return some


@_inlined
def _may_hold(board: Board, lane: int) -> bool:
    """Say whether a gang's best usable rung lies in pools where another may have nodes held."""
    shape = board.lanes[lane, SHAPE]
    for index in range(board.shapes[shape, COUNT]):
        if not board.judged[index, USABLE]:
            continue
        rung = board.shapes[shape, FIRST] + index
        begin, end = board.rungs[rung, FIRST_PART], board.rungs[rung + 1, FIRST_PART]
        if end - begin == 1 and board.parts[begin, NODES] == 1:
            return False
        full = 0
        for part in range(begin, end):
            full += board.holds[board.parts[part, POOL]] >= board.clock[2]
        return full == 0
    return False


@_inlined
def _want(board: Board, lane: int) -> None:
    """Note the pools that a blocked group could use, had they enough free nodes."""
    shape = board.lanes[lane, SHAPE]
    for index in range(board.shapes[shape, COUNT]):
        rung, possible = board.shapes[shape, FIRST] + index, board.judged[index, USABLE] > 0
        for part in range(board.rungs[rung, FIRST_PART], board.rungs[rung + 1, FIRST_PART]):
            possible = possible and board.parts[part, NODES] <= board.ready[board.parts[part, POOL]]
        if possible:
            for part in range(board.rungs[rung, FIRST_PART], board.rungs[rung + 1, FIRST_PART]):
                board.wanted[board.parts[part, POOL]] = 1


@_inlined
def _close(board: Board, lane: int) -> None:
    """Close the pools of a blocked group to those behind it in a strict queue."""
    queue, shape = board.lanes[lane, QUEUE], board.lanes[lane, SHAPE]
    begin, end = board.shapes[shape, FIRST], board.shapes[shape, FIRST] + board.shapes[shape, COUNT]
    for part in range(board.rungs[begin, FIRST_PART], board.rungs[end, FIRST_PART]):
        pool = board.parts[part, POOL]
        if not board.closed[queue, pool]:
            board.closed[queue, pool] = 1
            board.closing[queue, board.queues[queue, CLOSURES]] = pool
            board.queues[queue, CLOSURES] += 1


@_inlined
def _set_back(board: Board, lane: int) -> int:
    """Try a group that can't start with more borrowing later, else find it blocked: DONE, or HELP if it may need it."""
    queue, shape, deeper = board.lanes[lane, QUEUE], board.lanes[lane, SHAPE], FAR
    for index in range(board.shapes[shape, COUNT]):
        if board.judged[index, FITS] and board.judged[index, DEPTH] > board.lanes[lane, TIER]:
            deeper = min(deeper, board.judged[index, DEPTH])
    if deeper < FAR:
        board.lanes[lane, TIER] = deeper
        line_up(board.lanes, board.line, board.ends, board.queues, lane)
        return DONE
    _want(board, lane)
    board.lanes[lane, CODE], board.lanes[lane, CLOSED] = SEEN, board.queues[queue, CLOSURES]
    helped = board.lanes[lane, HOLDS] > 0 or _may_hold(board, lane)
    # Asked in any case while more may be freed, since it notes why nothing is.
    if board.clock[1] > 0 or helped:
        owed = _mark_owed(board, lane)
        helped = helped or (owed and board.clock[1] > 0)
    if board.queues[queue, STRICT]:
        _close(board, lane)
    return HELP if helped else DONE


@_inlined
def _judge(board: Board, lane: int) -> int:
    """Judge one group: START or HELP if there is something to do for it, else DONE."""
    least = _rate(board, lane)
    if least > board.lanes[lane, TIER]:
        board.lanes[lane, TIER] = least
        line_up(board.lanes, board.line, board.ends, board.queues, lane)
        return DONE
    _allow(board, lane)
    return START if _fit(board, lane) else _set_back(board, lane)


@_inlined
def _take_first(board: Board, queue: int) -> int:
    """Take the first group out of a line."""
    lane = board.line[board.ends[queue, HEAD]]
    board.ends[queue, HEAD] += 1
    board.lanes[lane, LINED] = 0
    return int(lane)


@compiled
def advance(board: Board, lane: int, failed: bool) -> tuple[int, int]:
    """Find the next group that something is to be done for: what, and its row.

    lane: one to go on with, -1 for the next in line; failed: it was to start and could not.
    """
    queue, second = -1, -1
    while True:
        if lane < 0:
            # While nothing moves, the same queue goes on until its first group comes after the second queue's.
            if queue < 0 or not _has_any(board, queue) or (second >= 0 and not _goes_before(board, queue, second)):
                queue, second = _first_two(board)
            if queue < 0:
                return DONE, -1
            lane = _take_first(board, queue)
            if board.lanes[lane, HOLDS] > 0:
                return LOOK, lane
            late = board.lanes[lane, READY] > board.clock[0]
            if late or board.lanes[lane, SHAPE] < 0 or board.queues[queue, DRAINING]:
                board.lanes[lane, CODE] = SEEN
                lane = -1
                continue
        if failed:
            _fit(board, lane)
            what = _set_back(board, lane)
        else:
            what = _judge(board, lane)
        if what != DONE:
            return what, lane
        lane, failed = -1, False


@compiled
def set_tiers(board: Board, rows: Array) -> None:
    """Work out at the start how far up each group must borrow."""
    for index in range(len(rows)):
        lane = rows[index]
        if board.lanes[lane, SHAPE] >= 0:
            board.lanes[lane, TIER] = _rate(board, lane)
