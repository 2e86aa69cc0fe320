"""Who runs how in the next round: the orders of queues that share their chips in turns, as rules over arrays.

Every order gives each way of running a job a worth; a small integer program then packs the ways of most worth into the
nodes there are (scipy's HiGHS, bounded in nodes searched, never in time). Must not know queues, nodes by name, or how
a choice is carried out.

`shortest_remaining`: the speed of a way over the square root of the time the job still needs at its best. Speed alone
would fill each chip kind with what it runs best, remaining time alone would finish the shortest first; the root stands
between them. `fair`: speed over the share of its best speed that a job had since it was handed in, so that the worst
served goes first. `makespan`: the round after which the rest can end soonest, were it cut into shares of any size; that
bound is the linear program of preemptive scheduling on unrelated machines (Lawler and Labetoulle, J. ACM 25(4), 1978).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import coo_array, csr_array, hstack, vstack

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

# HiGHS's presolve can print from within; a search bounded in nodes gives the same answer on any machine.
BOUNDED = {"node_limit": 200, "presolve": False}
"""How the search is bounded: after so many nodes of its tree the best found so far is taken."""
EXACT_JOBS_MAX = 250
"""With more jobs the order `makespan` packs by shares instead of looking one round ahead."""
CROWD = 2.0
"""Of all wishes only the worthiest that fill the nodes this many times are packed."""
TINY = 1e-6
SLACK = 1e-3
"""Added to limits of whole numbers, so that a solver's rounding breaks none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """All ways to run some jobs. Those up to `kept` have a row for each way, sorted by job; jobs are in order of age.

    job: its index. takes: of each resource. speed: of the job's best speed. pace: share of what the job has left that
    a second does. stays: the job runs so now; fixed: and has to go on so; kept: some way of the job has to be chosen.

    left_s: what each job needs at its best speed; had: the share of its best speed that it had so far. room: of each
    resource. start_s: what a start costs of a round of round_s seconds.
    """

    job: Numbers
    takes: Array
    speed: Array
    pace: Array
    stays: npt.NDArray[np.bool_]
    fixed: npt.NDArray[np.bool_]
    kept: npt.NDArray[np.bool_]
    left_s: Array
    had: Array
    room: Array
    round_s: float
    start_s: float = 0.0

    @property
    def useful(self) -> Array:
        """Give the share of a round in which each way does work; staying is a little better than moving."""
        return np.where(self.stays, 1.0 + TINY, max(TINY, 1.0 - self.start_s / self.round_s))

    @property
    def open(self) -> npt.NDArray[np.bool_]:
        """Mark the ways of jobs that are not fixed."""
        has_to = np.zeros(len(self.left_s), bool)
        has_to[self.job[self.fixed]] = True
        return ~has_to[self.job]

    @property
    def room_left(self) -> Array:
        """Give what is left of each resource beside jobs that are fixed."""
        left: Array = np.maximum(self.room - self.takes[self.fixed].sum(axis=0), 0.0)
        return left


def choose(order: str, ways: Ways) -> list[int]:
    """Choose at most one way a job, so that all fit; those that are fixed are among them."""
    if not (ways.open & (ways.takes <= ways.room_left).all(axis=1)).any():
        return np.flatnonzero(ways.fixed).tolist()
    if order == "fifo":
        return _first_come(ways)
    if order == "makespan":
        # Of ways that all fit at once, those that do most in the round bring every end nearest.
        every = _best_of_each(ways, np.flatnonzero(ways.open), np.minimum(ways.pace * ways.round_s * ways.useful, 1.0))
        return _soonest_end(ways) if every is None else every
    need = ways.left_s**0.5 if order == "shortest_remaining" else ways.had
    return pack(ways, ways.speed * ways.useful / np.maximum(need, TINY)[ways.job])


def pack(ways: Ways, worth: Array) -> list[int]:
    """Choose the ways that are worth most together, beside those that are fixed."""
    fixed: list[int] = np.flatnonzero(ways.fixed).tolist()
    kept = np.flatnonzero(_in_the_crowd(ways, worth))
    if not len(kept):
        return fixed
    every = _best_of_each(ways, kept, worth)
    if every is not None:
        return every
    one, room = _limits(ways, kept)
    must = np.maximum.reduceat(ways.kept[kept], np.flatnonzero(np.diff(ways.job[kept], prepend=-1)))
    found = milp(
        -worth[kept] / (float(worth[kept].max()) or 1.0),
        constraints=LinearConstraint(
            vstack([one, room]),
            np.concatenate([must - SLACK, np.zeros(room.shape[0])]),
            np.concatenate([np.ones(one.shape[0]), ways.room_left]) + SLACK,
        ),
        integrality=np.ones(len(kept)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 1e-4, **BOUNDED},
    )
    if found.x is None:
        return fixed + _greedy(ways, np.where(ways.kept & ways.stays, worth.max() + 1.0, worth))
    return [*fixed, *kept[found.x > 0.5].tolist()]


def _best_of_each(ways: Ways, rows: Numbers, worth: Array) -> list[int] | None:
    """Choose the worthiest of these ways for each job, beside those that are fixed; None where they don't all fit."""
    order = rows[np.lexsort((rows, -worth[rows], ways.job[rows]))]
    best = order[np.flatnonzero(np.diff(ways.job[order], prepend=-1))]
    if (ways.takes[best].sum(axis=0) > ways.room_left + SLACK).any():
        return None
    return [*np.flatnonzero(ways.fixed).tolist(), *best.tolist()]


def end_bound_s(ways: Ways) -> float:
    """Give the soonest time at which all jobs can have ended, were every second cut into shares of any size."""
    return _shares(ways)[1]


def _in_the_crowd(ways: Ways, worth: Array) -> npt.NDArray[np.bool_]:
    """Mark the ways that come first by worth for what they take, until each resource is filled several times over."""
    room = ways.room_left
    fits = (ways.takes <= room).all(axis=1) & (worth > 0) & ways.open
    kept = np.zeros(len(worth), bool)
    for resource in range(ways.takes.shape[1]):
        some = np.flatnonzero(fits & (ways.takes[:, resource] > 0))
        some = some[np.argsort(-worth[some] / ways.takes[some, resource], kind="stable")]
        filled = np.cumsum(ways.takes[some, resource]) - ways.takes[some, resource]
        kept[some[filled < CROWD * room[resource]]] = True
    return kept | (ways.kept & ways.open)


def _limits(ways: Ways, kept: Numbers) -> tuple[csr_array, csr_array]:
    """Make the rows: one way a job, and what each resource has."""
    _, job = np.unique(ways.job[kept], return_inverse=True)
    shape = (int(job.max()) + 1, len(kept))
    one = csr_array(coo_array((np.ones(len(kept)), (job, np.arange(len(kept)))), shape=shape))
    return one, csr_array(ways.takes[kept].T)


def _greedy(ways: Ways, worth: Array) -> list[int]:
    """Take the worthiest first of those that are not fixed, whatever still fits."""
    room, done, found = ways.room_left, set[int](), []
    for way in np.argsort(-worth, kind="stable").tolist():
        job = int(ways.job[way])
        if ways.open[way] and worth[way] > 0 and job not in done and (ways.takes[way] <= room).all():
            room -= ways.takes[way]
            done.add(job)
            found.append(way)
    return sorted(found)


def _first_come(ways: Ways) -> list[int]:
    """Give each job in order of age its fastest way that fits; one that finds none closes what it waits for."""
    room: Array = ways.room_left
    found: list[int] = np.flatnonzero(ways.fixed).tolist()
    for job in np.unique(ways.job[ways.open]).tolist():
        own = np.flatnonzero(ways.job == job)
        rows = own[(ways.takes[own] <= room).all(axis=1)]
        if len(rows):
            best = int(rows[np.argmax(ways.speed[rows] * ways.useful[rows])])
            room = room - ways.takes[best]
            found.append(best)
        else:
            room = np.where((ways.takes[own] > 0).any(axis=0), 0.0, room)
    return found


def _soonest_end(ways: Ways) -> list[int]:
    """Choose the round after which the bound on the end of all jobs is least."""
    if len(ways.left_s) > EXACT_JOBS_MAX:
        shares, _ = _shares(ways)
        return pack(ways, (shares + TINY * ways.speed) * ways.useful)
    count, jobs = len(ways.job), len(ways.left_s)
    per_hour = ways.pace * 3600.0
    now = np.minimum(ways.pace * ways.round_s * ways.useful, 1.0)
    one, room = _limits(ways, np.arange(count))
    later_one, later_room = _within_end(ways, one, room)
    work = csr_array(coo_array((now, (ways.job, np.arange(count))), shape=(jobs, count)))
    rest = csr_array(coo_array((per_hour, (ways.job, np.arange(count))), shape=(jobs, count)))
    nothing, end = csr_array((one.shape[0] + room.shape[0], count + 1)), csr_array((jobs, 1))
    rows = vstack(
        [
            hstack([vstack([one, room]), nothing]),
            hstack([csr_array((one.shape[0] + room.shape[0], count)), vstack([later_one, later_room])]),
            hstack([work, rest, end]),
        ]
    )
    jobs_here = one.shape[0]
    upper = np.concatenate(
        [np.ones(jobs_here) + SLACK, ways.room + SLACK, np.zeros(jobs_here + len(ways.room)), np.full(jobs, np.inf)]
    )
    must = np.maximum.reduceat(ways.kept, np.flatnonzero(np.diff(ways.job, prepend=-1))) - SLACK
    free = np.full(len(upper) - jobs - jobs_here, -np.inf)
    lower = np.concatenate([must, free, _feasible(ways)])
    found = milp(
        # Of rounds with the same end, the one that does most.
        np.concatenate([-1e-5 * now, np.zeros(count), [1.0]]),
        constraints=LinearConstraint(csr_array(rows), lower, upper),
        integrality=np.concatenate([np.ones(count), np.zeros(count + 1)]),
        bounds=Bounds(
            np.concatenate([ways.fixed, np.zeros(count + 1)]),
            np.concatenate([ways.fixed | ways.open, np.full(count + 1, np.inf)]),
        ),
        options={"mip_rel_gap": 1e-5, **BOUNDED},
    )
    if found.x is None:
        return np.flatnonzero(ways.fixed).tolist() + _greedy(ways, ways.pace * ways.useful)
    return np.flatnonzero(found.x[:count] > 0.5).tolist()


def _feasible(ways: Ways) -> Array:
    """Give 1 for each job that can run in the room there is: all of it has to be done; 0 for others, which wait."""
    done = np.zeros(len(ways.left_s))
    done[ways.job[(ways.takes <= ways.room + SLACK).all(axis=1)]] = 1.0
    return done


def _within_end(ways: Ways, one: csr_array, room: csr_array) -> tuple[csr_array, csr_array]:
    """Make the rows of shares: no job and no resource is used longer than until the end, the last column."""
    later_one = hstack([one, csr_array(np.full((one.shape[0], 1), -1.0))])
    later_room = hstack([room, csr_array(-ways.room.reshape(-1, 1))])
    return csr_array(later_one), csr_array(later_room)


def _shares(ways: Ways) -> tuple[Array, float]:
    """Solve the linear program: the share of the time until the end that each way has, and the end in seconds."""
    count, jobs = len(ways.job), len(ways.left_s)
    within = vstack(_within_end(ways, *_limits(ways, np.arange(count))))
    work = coo_array((ways.pace * 3600.0, (ways.job, np.arange(count))), shape=(jobs, count + 1))
    found = linprog(
        np.concatenate([np.zeros(count), [1.0]]),
        A_ub=within,
        b_ub=np.zeros(within.shape[0]),
        A_eq=csr_array(work),
        b_eq=_feasible(ways),
        bounds=(0, None),
        method="highs",
    )
    if found.x is None:
        return ways.pace / ways.pace.max(), float("inf")
    return found.x[:count] / max(found.x[-1], TINY), float(found.x[-1]) * 3600.0
