"""Choosing who runs how in a round: what fits, what each order prefers, and how near the best the choice is."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.control.choose import Ways, choose, end_bound_s, pack


def ways(rates, sizes, room, left=None, had=None, stays=(), fixed=(), kept=(), start_s=0.0):
    """Ways from a table of rates by job and pool (0: none), the size of each job, and the nodes of each pool."""
    cells = [(job, pool) for job, row in enumerate(rates) for pool, rate in enumerate(row) if rate]
    owner = np.array([job for job, _ in cells], np.int64)
    rate = np.array([float(rates[job][pool]) for job, pool in cells])
    best = np.array([float(max(row)) for row in rates])
    takes = np.zeros((len(cells), len(room)))
    for row, (job, pool) in enumerate(cells):
        takes[row, pool] = sizes[job]
    work = np.array([1000.0] * len(rates) if left is None else left, float)
    return Ways(
        job=owner,
        takes=takes,
        speed=rate / best[owner],
        pace=rate / work[owner],
        stays=np.array([cell in stays for cell in cells]),
        fixed=np.array([cell in fixed for cell in cells]),
        kept=np.array([job in kept for job, _ in cells]),
        left_s=work / best,
        had=np.ones(len(rates)) if had is None else np.array(had, float),
        room=np.array(room, float),
        round_s=360.0,
        start_s=start_s,
    )


def named(problem, chosen):
    """Give the chosen ways as job -> pool."""
    return {int(problem.job[way]): int(np.argmax(problem.takes[way])) for way in chosen}


tables = st.integers(1, 5).flatmap(
    lambda jobs: st.tuples(
        st.lists(st.tuples(*[st.integers(0, 9)] * 2).filter(any), min_size=jobs, max_size=jobs),
        st.lists(st.sampled_from((1, 1, 2, 4)), min_size=jobs, max_size=jobs),
        st.tuples(st.integers(0, 6), st.integers(0, 6)),
    )
)


class TestOrders:
    def test_a_blocked_job_blocks_no_other_chips(self):
        """A job that only the full pool can run does not keep those behind it from the other pool."""
        problem = ways([(9, 0), (9, 0), (9, 1)], [1, 1, 1], [1, 1])
        assert named(problem, choose("fifo", problem)) == {0: 0, 2: 1}

    def test_first_come_takes_the_fastest_that_fits_and_stops_at_the_first_that_finds_none(self):
        """The oldest gets the fast pool, the next the slow one, and a gang that fits nowhere ends the line."""
        problem = ways([(9, 1), (9, 1), (9, 1), (9, 1)], [1, 1, 4, 1], [1, 3])
        assert named(problem, choose("fifo", problem)) == {0: 0, 1: 1}

    def test_the_shortest_goes_first(self):
        """Of two equal jobs the one with less to do runs."""
        problem = ways([(1,), (1,)], [1, 1], [1], left=[900, 100])
        assert named(problem, choose("shortest_remaining", problem)) == {1: 0}

    def test_each_job_runs_where_it_gains_most(self):
        """A job that is as fast on old chips leaves the new ones to one that is not, though it is shorter."""
        problem = ways([(10, 9), (10, 1)], [1, 1], [1, 1], left=[90, 100])
        assert named(problem, choose("shortest_remaining", problem)) == {0: 1, 1: 0}

    def test_the_worst_served_goes_first(self):
        """Under `fair` who had the lowest share of its best speed runs, whatever it has left."""
        problem = ways([(1,), (1,)], [1, 1], [1], left=[100, 900], had=[0.8, 0.2])
        assert named(problem, choose("fair", problem)) == {1: 0}

    def test_the_longest_may_not_wait_for_the_end(self):
        """Under `makespan` the job that would end last runs now, and the short ones fill in later."""
        problem = ways([(1,), (1,), (1,)], [1, 1, 1], [2], left=[3600, 1800, 1800])
        assert 0 in named(problem, choose("makespan", problem))

    def test_a_job_without_room_holds_up_no_other(self):
        """While others hold a whole pool, jobs that run nowhere else wait, and of the rest the longest runs.

        Such a job made the program of `makespan` infeasible, so that whoever was quickest went first.
        """
        problem = ways([(0, 5), (9, 0), (3, 0), (2, 0)], [1, 1, 1, 1], [2, 0], left=[1000, 100, 6000, 5000])
        assert 3 in named(problem, choose("makespan", problem))

    @pytest.mark.parametrize("order", ["shortest_remaining", "fair", "makespan"])
    def test_what_fits_at_once_all_runs_at_its_best(self, order):
        """Where the best ways of all jobs fit together, each gets its own."""
        problem = ways([(9, 1), (1, 9), (9, 2)], [1, 1, 1], [2, 1])
        assert named(problem, choose(order, problem)) == {0: 0, 1: 1, 2: 0}

    def test_a_start_that_costs_keeps_what_runs(self):
        """A slightly shorter job does not displace one that runs if a start costs much of a round."""
        problem = ways([(1,), (1,)], [1, 1], [1], left=[100, 95], stays=[(0, 0)], start_s=60.0)
        assert named(problem, choose("shortest_remaining", problem)) == {0: 0}

    @pytest.mark.parametrize("order", ["fifo", "shortest_remaining", "fair", "makespan"])
    def test_who_has_to_go_on_goes_on(self, order):
        """A fixed job keeps its place under every order."""
        problem = ways([(1, 9), (9, 9)], [1, 1], [1, 1], left=[1e6, 10], stays=[(0, 0)], fixed=[(0, 0)])
        assert named(problem, choose(order, problem)) == {0: 0, 1: 1}

    @pytest.mark.parametrize("order", ["shortest_remaining", "fair", "makespan"])
    def test_who_gave_way_too_often_runs_somewhere(self, order):
        """A kept job has one of its ways though a shorter one wants its place."""
        problem = ways([(1,), (1,)], [1, 1], [1], left=[9000, 10], had=[1, 0.1], stays=[(0, 0)], kept=[0])
        assert named(problem, choose(order, problem)) == {0: 0}

    @pytest.mark.parametrize("order", ["fifo", "shortest_remaining", "fair", "makespan"])
    def test_a_job_of_no_speed_breaks_nothing(self, order):
        """A job kept on chips whose rate is unknown, so 0, is worth nothing; it was divided by."""
        problem = replace(ways([(1,)], [1], [1], stays=[(0, 0)], kept=[0]), speed=np.zeros(1), pace=np.zeros(1))
        assert choose(order, problem) in ([0], [])


class TestLaws:
    @settings(derandomize=True, max_examples=60, deadline=None)
    @given(tables, st.sampled_from(("fifo", "shortest_remaining", "fair", "makespan")))
    def test_all_fits_and_no_job_runs_twice(self, table, order):
        """Whatever the order, no pool is overfilled and no job has two ways."""
        problem = ways(*table)
        chosen = choose(order, problem)
        assert (problem.takes[chosen].sum(axis=0) <= problem.room).all()
        assert len(set(problem.job[chosen].tolist())) == len(chosen)

    @settings(derandomize=True, max_examples=60, deadline=None)
    @given(tables)
    def test_the_packing_is_the_best_there_is(self, table):
        """No choice of one way or none for each job is worth more; all are tried."""
        problem = ways(*table)
        worth = problem.speed / problem.left_s[problem.job] ** 0.5
        choices = [[None, *np.flatnonzero(problem.job == job).tolist()] for job in range(len(table[0]))]
        best = 0.0
        for combination in product(*choices):
            picked = [way for way in combination if way is not None]
            if (problem.takes[picked].sum(axis=0) <= problem.room).all():
                best = max(best, float(worth[picked].sum()))
        assert float(worth[pack(problem, worth)].sum()) == pytest.approx(best, rel=1e-3)

    def test_the_bound_on_the_end_is_that_of_the_linear_program(self):
        """Two jobs of an hour on one chip need two hours; on two chips one; a gang of two on one of each none."""
        assert end_bound_s(ways([(1,), (1,)], [1, 1], [1], left=[3600, 3600])) == pytest.approx(7200)
        assert end_bound_s(ways([(1,), (1,)], [1, 1], [2], left=[3600, 3600])) == pytest.approx(3600)
        assert end_bound_s(ways([(2, 1)], [1], [1, 1], left=[3600])) == pytest.approx(1800)

    def test_shares_of_two_pools_are_used_for_one_end(self):
        """Three jobs on a pool twice as fast as the other: the bound cuts them so that both pools end together."""
        assert end_bound_s(ways([(2, 1)] * 3, [1] * 3, [1, 1], left=[3600] * 3)) == pytest.approx(3600)
