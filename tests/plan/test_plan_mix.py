"""Mixes of pipelines: rules that every answer keeps, and laws between answers."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.plan.mix.anneal import HEAD, REPLICAS, SIZE, STAGES, anneal, deal
from argosy.plan.mix.anneal import step_s as step_s_of
from argosy.plan.mix.anneal import sums as sums_of
from argosy.plan.mix.arrays import SECONDS, arrays_of
from argosy.plan.mix.bound import bound_s
from argosy.plan.mix.mix import improved, plan_alike, plan_mix, rows_of
from argosy.plan.mix.price import Pricer
from argosy.plan.mix.store import column_of
from argosy.plan.mix.sync import sync_s
from argosy.plan.mix.tables import Carrier, MixProblem, MixTable, Pipeline, Schedule

LAYERS = 6
MORE_CHIPS_SLOWER = 1.0 + 1e-9
# Jobs here are small: few changes find the best.
TRIED = 8_000


def sums(rows, numbers):
    """Give the seconds of both ways of summing."""
    tables, pool, rings, factors = numbers
    return sums_of(rows, tables.sums[SECONDS], pool, rings, factors)


def table(size=1, speeds=(1.0, 2.0), degrees=(1, 2), memory=(20.0, 20.0)):
    """Build a table: class c takes speeds[c] seconds a layer and sample, a little more than half that on two chips."""
    carriers = [Carrier(chip_class=c, tp=tp) for c in range(len(speeds)) for tp in degrees]
    count = len(carriers)
    layer_s = np.array([[size * speeds[c.chip_class] * (1.0 if c.tp == 1 else 0.6)] * LAYERS for c in carriers])
    return MixTable(
        microbatch_size=size,
        carriers=tuple(carriers),
        layer_s=layer_s,
        update_s=np.full((count, LAYERS), 0.1),
        state_bytes=np.array([[4.0 / c.tp] * LAYERS for c in carriers]),
        stored_bytes=np.array([[0.5 * size / c.tp] * LAYERS for c in carriers]),
        fixed_bytes=np.zeros(count),
        limit_bytes=np.array([memory[c.chip_class] for c in carriers]),
        forward_s=np.full((LAYERS + 1, count, count), 0.05 * size),
        backward_s=np.full((LAYERS + 1, count, count), 0.05 * size),
    )


def problem(counts=(4, 4), batch=32, sizes=(1, 2), **changes):
    """Build a job on two classes of chips."""
    return MixProblem(
        counts=counts,
        batch=batch,
        weight_bytes=np.full(LAYERS, 4.0),
        tables=tuple(table(size, **changes) for size in sizes),
        reduce_s=lambda size, members, a, b: 2 * (members - 1) / members * np.asarray(size) * 0.05,
        first_factor=lambda stages: 1.0,
        last_factor=1.0,
        stages_max=4,
    )


def step_s(job):
    """Give the step of the fastest mix with one ring."""
    return plan_mix(job, tried=TRIED).step_s("one_ring")


def broken_rules(job, mix):
    """List what a mix breaks: chips, batch, layers in order, memory."""
    used = sum(part.replicas * job.chips(part.pipeline) for part in mix.parts)
    samples = sum(part.replicas * part.microbatches * part.pipeline.microbatch_size for part in mix.parts)
    found = ["chips"] * bool((used > np.array(job.counts)).any()) + ["batch"] * (samples < job.batch)
    for part in mix.parts:
        ends, rows = part.pipeline.ends, job.table(part.pipeline.microbatch_size)
        found += ["layers"] * (list(ends) != sorted(set(ends)) or ends[-1] != LAYERS)
        stages = zip(part.pipeline.starts, ends, part.pipeline.carriers, strict=True)
        for stage, (first, end, carrier) in enumerate(stages):
            row = rows.carriers.index(carrier)
            held = rows.state_bytes[row, first:end].sum()
            held += (len(ends) - stage) * rows.stored_bytes[row, first:end].sum()
            found += ["memory"] * bool(held > rows.limit_bytes[row])
    return found


def pipelines(job):
    """List every replica there can be on one table of one class at degree 1, whatever its memory."""
    carrier = Carrier(chip_class=0, tp=1)
    for stages in range(1, job.stages_max + 1):
        for cuts in itertools.combinations(range(1, LAYERS), stages - 1):
            yield Pipeline(microbatch_size=1, carriers=(carrier,) * stages, ends=(*cuts, LAYERS))


def least_step_s(job):
    """Try every plan of replicas that are all alike, on one class at degree 1 and micro-batches of one sample."""
    steps = []
    for pipeline in pipelines(job):
        column = column_of(job, pipeline)
        for replicas in range(1, int(job.counts[0] // len(pipeline.ends)) + 1):
            step_s = column.pace.step_s(-(-job.batch // replicas))
            steps.append(step_s + sync_s(job, [(pipeline, replicas)], "one_ring")[0])
    return min(steps)


class TestPlanMix:
    @pytest.mark.slow
    @settings(max_examples=15)
    @given(
        counts=st.tuples(st.integers(0, 9), st.integers(0, 9)),
        batch=st.integers(1, 64),
        memory=st.floats(9.0, 40.0),
        slower=st.floats(1.0, 5.0),
    )
    def test_every_mix_keeps_the_rules(self, counts, batch, memory, slower):
        """Chips, memory, layers and batch are respected."""
        job = problem(counts=counts, batch=batch, memory=(memory, memory), speeds=(1.0, slower))
        try:
            mix = plan_mix(job, tried=TRIED)
        except (NeverFitsError, BadInputError):
            return
        assert broken_rules(job, mix) == []

    def test_parts_add_up_to_the_step(self):
        """The step is its slowest part's time and the sums."""
        job = problem()
        mix = plan_mix(job, tried=TRIED)
        columns = [column_of(job, part.pipeline) for part in mix.parts]
        slowest = max(c.pace.step_s(p.microbatches) for c, p in zip(columns, mix.parts, strict=True))
        assert mix.compute_s == pytest.approx(slowest)
        parts = [(p.pipeline, p.replicas) for p in mix.parts]
        assert mix.one_ring_s == pytest.approx(sum(sync_s(job, parts, "one_ring")))
        assert mix.three_phases_s == pytest.approx(sum(sync_s(job, parts, "three_phases")))
        assert mix.step_s("one_ring") == pytest.approx(mix.compute_s + mix.one_ring_s)

    def test_two_classes_beat_the_faster_alone(self):
        """Slower chips beside the faster ones shorten the step."""
        assert step_s(problem(counts=(4, 4))) < step_s(problem(counts=(4, 0)))

    def test_swapped_classes_change_nothing(self):
        """Naming the classes the other way round gives the same step."""
        there = step_s(problem(counts=(3, 5), speeds=(1.0, 2.0)))
        back = step_s(problem(counts=(5, 3), speeds=(2.0, 1.0)))
        assert there == pytest.approx(back, rel=1e-3)

    def test_model_too_large_is_refused(self):
        """A layer that fits nowhere is an error that says so."""
        with pytest.raises(NeverFitsError, match="no replica fits"):
            plan_mix(problem(memory=(1.0, 1.0)))

    def test_empty_pool_is_refused(self):
        """No chips at all is bad input."""
        with pytest.raises(BadInputError, match="a mix needs chips"):
            plan_mix(problem(counts=(0, 0)))


class TestRules:
    def test_each_rule_has_its_best_mix(self):
        """The mix for a rule is the fastest by it, but for what three phases give up for the sake of one ring."""
        job = problem(counts=(6, 5))
        one, three = plan_mix(job, "one_ring", tried=TRIED), plan_mix(job, "three_phases", tried=TRIED)
        assert one.step_s("one_ring") <= three.step_s("one_ring")
        assert three.step_s("three_phases") <= 1.05 * one.step_s("three_phases")

    def test_replicas_that_are_all_alike_are_found(self):
        """The plan of one kind of replica keeps the rules and has one part."""
        job = problem(counts=(4, 8))
        mix = plan_alike(job)
        assert len(mix.parts) == 1
        assert broken_rules(job, mix) == []

    def test_a_replica_may_need_both_classes(self):
        """Where no class holds the model, it is laid over two."""
        mix = plan_mix(problem(counts=(1, 1), memory=(16.0, 16.0), sizes=(1,), degrees=(1,)))
        assert [part.replicas for part in mix.parts] == [1]

    def test_a_search_repeats(self):
        """Twice the same question, twice the same answer."""
        job = problem()
        assert plan_mix(job, tried=TRIED) == plan_mix(job, tried=TRIED)

    @pytest.mark.slow
    @settings(max_examples=10, derandomize=True)
    @given(count=st.integers(2, 8), batch=st.integers(1, 24))
    def test_the_best_of_small_jobs_is_found(self, count, batch):
        """On one class at degree 1 no plan of equal replicas, tried one by one, is faster."""
        job = problem(counts=(count, 0), batch=batch, sizes=(1,), degrees=(1,), memory=(99.0, 99.0))
        assert step_s(job) <= least_step_s(job) * (1 + 1e-9)


class TestBound:
    @pytest.mark.slow
    @settings(max_examples=10, derandomize=True, deadline=None)
    @given(count=st.integers(2, 8), batch=st.integers(1, 24), memory=st.floats(9.0, 40.0))
    def test_no_plan_is_below_the_bound(self, count, batch, memory):
        """What is proven holds for every plan tried one by one, and for every mix by its rule."""
        job = problem(counts=(count, 0), batch=batch, sizes=(1,), degrees=(1,), memory=(99.0, 99.0))
        bound = bound_s(job, "one_ring")
        assert 0 < bound <= least_step_s(job)
        mixed = problem(counts=(count, 3), batch=batch, memory=(memory, memory))
        for rule in ("one_ring", "three_phases"):
            try:
                assert bound_s(mixed, rule) <= plan_mix(mixed, rule, tried=TRIED).step_s(rule)
            except NeverFitsError:
                continue


class TestImproved:
    job = replace(problem(counts=(4, 4), degrees=(1, 2)), schedule=Schedule(ratio=1))

    def alone(self, tp=1):
        """Give two replicas of two stages on the first class."""
        carrier = Carrier(chip_class=0, tp=tp)
        return [(Pipeline(microbatch_size=1, carriers=(carrier, carrier), ends=(3, LAYERS)), 2)]

    def test_a_walk_from_one_class_finds_the_other(self):
        """From pipelines on one class alone a walk comes to use the chips of the other."""
        found = improved(self.job, self.alone(), TRIED)
        assert {carrier.chip_class for pipeline, _ in found for carrier in pipeline.carriers} == {0, 1}

    def test_pipelines_stay_orderly_where_asked(self):
        """With a ratio of one every pipeline has one degree, and the stages on a class stand in a row."""
        for pipeline, _ in improved(self.job, self.alone(), TRIED):
            assert len({carrier.tp for carrier in pipeline.carriers}) == 1
            runs = [each for each, _ in itertools.groupby(carrier.chip_class for carrier in pipeline.carriers)]
            assert len(runs) == len(set(runs))

    def test_classes_without_a_link_share_no_pipeline(self):
        """Where messages between classes never arrive no pipeline is on both, and the walk ends."""
        whole = table()
        on = [carrier.chip_class for carrier in whole.carriers]
        endless = np.where(np.not_equal.outer(on, on), np.inf, whole.forward_s)
        apart = replace(whole, forward_s=endless, backward_s=endless)
        job = replace(self.job, tables=(apart,), schedule=Schedule(hidden=0.5, filled=True))
        found = improved(job, self.alone(), TRIED)
        assert found
        assert all(len({carrier.chip_class for carrier in pipeline.carriers}) == 1 for pipeline, _ in found)

    def test_nothing_where_it_does_not_fit(self):
        """A walk from what doesn't fit in memory, however cut, gives nothing."""
        assert improved(replace(self.job, tables=(table(memory=(1.0, 1.0)),)), self.alone(), 100) == []

    def test_a_ring_is_as_slow_as_its_slowest_holder(self):
        """Where chips' own paces are given, a stage's ring takes its slowest holder's time for its part."""
        job = replace(self.job, chip_s=(0.1, 0.4), node_chips=(2, 2))
        two = Pipeline(microbatch_size=1, carriers=(Carrier(chip_class=1, tp=2),), ends=(LAYERS,))
        one = Pipeline(microbatch_size=1, carriers=(Carrier(chip_class=0, tp=1),), ends=(LAYERS,))
        arrays = arrays_of(job, (0, 1))
        # 24 of weight among three: the first class sends all of it at half its node's network, the second a half.
        slowest_s = max(24 * 0.1 / 2, 24 * 0.4 / 2)
        rows = rows_of(job, arrays, [(one, 2), (two, 1)])
        assert sums(rows, arrays.numbers)[0] == pytest.approx(2 * 2 / 3 * slowest_s)

    def test_what_lacks_memory_is_recomputed(self):
        """A stage that is too full takes longer by as much recomputing as makes it fit."""
        full = table(degrees=(1,), memory=(25.0, 20.0))
        lean = replace(full, lean_bytes=np.zeros_like(full.stored_bytes), again_s=0.5 * full.layer_s)
        pipeline = Pipeline(microbatch_size=1, carriers=(Carrier(chip_class=0, tp=1),), ends=(LAYERS,))
        found = []
        for each in (full, lean):
            job = replace(self.job, tables=(each,))
            arrays = arrays_of(job, (0, 1))
            rows = rows_of(job, arrays, [(pipeline, 1)])
            found.append(deal(rows, arrays.numbers[0], arrays.numbers[3], 1)[0])
        # 24 of state and 3 stored in 25: two thirds of what is stored are recomputed, for half as long as the layers.
        assert found == [np.inf, pytest.approx(0.1 + 6.0 * (1 + 2 / 3 * 0.5))]


class TestMoreChips:
    @pytest.mark.slow
    @settings(max_examples=10, derandomize=True, deadline=None)
    @given(counts=st.tuples(st.integers(1, 9), st.integers(1, 9)), batch=st.integers(1, 48))
    def test_a_second_class_never_hurts(self, counts, batch):
        """A pool is at least as fast as either of its classes alone: each is tried by itself too."""
        both = step_s(problem(counts=counts, batch=batch))
        for alone in ((counts[0], 0), (0, counts[1])):
            try:
                assert both <= step_s(problem(counts=alone, batch=batch)) * MORE_CHIPS_SLOWER
            except NeverFitsError:
                continue


class TestPrices:
    def test_priced_replicas_are_cheapest_of_all(self):
        """At given prices no replica of one class, tried one by one, is cheaper than the one that is priced."""
        job = problem(counts=(8, 0), sizes=(1,), degrees=(1,), memory=(99.0, 99.0))
        prices, limit_s = np.array([0.7, 1.0]), 3.2
        costs, _ = Pricer(job, job.tables[0]).cheapest(
            prices, np.array([np.inf, -1.0]), (np.array([1.0]), np.array([limit_s])), LAYERS
        )
        tried = []
        for pipeline in pipelines(job):
            column = column_of(job, pipeline)
            if column.pace.slowest_s <= limit_s:
                tried.append(column.pace.fill_s - 0.1 + float(prices @ column.chips))
        assert costs[0] == pytest.approx(min(tried))


class TestSync:
    def test_one_class_has_nothing_to_sum_across(self):
        """Rings of one class cost nothing across classes, by either rule."""
        one = Pipeline(microbatch_size=1, carriers=(Carrier(chip_class=0, tp=1),), ends=(LAYERS,))
        for rule in ("one_ring", "three_phases"):
            assert sync_s(problem(), [(one, 4)], rule) == (pytest.approx(2 * 3 / 4 * 24 * 0.05), 0.0)

    def test_two_classes_sum_pieces_across(self):
        """In three phases only the pieces that ring members hold are summed across classes."""
        parts = [
            (Pipeline(microbatch_size=1, carriers=(Carrier(chip_class=c, tp=1),), ends=(LAYERS,)), 4) for c in (0, 1)
        ]
        assert sync_s(problem(), parts, "three_phases")[1] == pytest.approx(24 / 4 * 0.05)

    def test_one_ring_works_on_the_share_of_its_smallest_degree(self):
        """A holder that doesn't split a layer makes the whole ring sum all of it."""
        parts = [
            (Pipeline(microbatch_size=1, carriers=(Carrier(chip_class=0, tp=tp),), ends=(LAYERS,)), 2) for tp in (1, 2)
        ]
        assert sync_s(problem(), parts, "one_ring") == (pytest.approx(2 * 3 / 4 * 24 * 0.05), 0.0)


@st.composite
def mixes(draw, job):
    """Draw a mix's rows: the number of a size, stages, replicas, carriers and ends, as the walk has them."""
    rows = np.zeros((draw(st.integers(1, 3)), HEAD + 2 * job.stages_max), dtype=np.int64)
    for row in rows:
        ends = [*sorted(draw(st.sets(st.integers(1, LAYERS - 1), max_size=job.stages_max - 1))), LAYERS]
        picks = draw(st.lists(st.integers(0, 3), min_size=len(ends), max_size=len(ends)))
        row[[SIZE, STAGES, REPLICAS]] = draw(st.integers(0, 1)), len(ends), draw(st.integers(1, 3))
        row[HEAD : HEAD + len(ends)], row[HEAD + job.stages_max :][: len(ends)] = picks, ends
    return rows


class TestCompiled:
    job = problem(counts=(40, 40), memory=(999.0, 999.0))

    def parts(self, rows):
        """Read rows as (pipeline, replicas)."""
        carriers, parts = arrays_of(self.job, (0, 1)).carriers, []
        for row in rows:
            stages, after = row[STAGES], HEAD + self.job.stages_max
            picks = tuple(carriers[pick] for pick in row[HEAD : HEAD + stages])
            size, ends = int(self.job.tables[row[SIZE]].microbatch_size), tuple(row[after : after + stages].tolist())
            parts.append((Pipeline(microbatch_size=size, carriers=picks, ends=ends), int(row[REPLICAS])))
        return parts

    @settings(max_examples=60, derandomize=True, deadline=None)
    @given(data=st.data())
    def test_sums_are_looked_up_as_they_are_priced(self, data):
        """The compiled sums equal those priced part by part, by both rules."""
        rows = data.draw(mixes(self.job))
        numbers, parts = arrays_of(self.job, (0, 1)).numbers, self.parts(rows)
        assert sums(rows, numbers) == pytest.approx(
            [sum(sync_s(self.job, parts, rule)) for rule in ("one_ring", "three_phases")]
        )

    @settings(max_examples=60, derandomize=True, deadline=None)
    @given(data=st.data())
    def test_microbatches_are_dealt_exactly(self, data):
        """The batch is trained, and in no shorter time could each replica do enough whole micro-batches."""
        rows = data.draw(mixes(self.job))
        tables, _, _, factors = arrays_of(self.job, (0, 1)).numbers
        seconds, counts = deal(rows, tables, factors, self.job.batch)
        columns = [(column_of(self.job, pipeline), replicas) for pipeline, replicas in self.parts(rows)]
        paces = [column.pace for column, _ in columns]
        sizes = [column.pipeline.microbatch_size * replicas for column, replicas in columns]
        assert seconds == pytest.approx(max(p.step_s(n) for p, n in zip(paces, counts, strict=True)))
        assert sum(n * size for n, size in zip(counts, sizes, strict=True)) >= self.job.batch
        sooner = seconds * (1 - 1e-6)
        done = [max(0, int((sooner - p.fill_s) / p.slowest_s) + 1) if sooner > p.fill_s else 0 for p in paces]
        short = sum(n * size for n, size in zip(done, sizes, strict=True)) < self.job.batch
        assert short or min(done) == 0

    @settings(max_examples=30, derandomize=True, deadline=None)
    @given(data=st.data(), seed=st.integers(1, 1000))
    def test_a_walk_never_ends_worse_and_keeps_chips(self, data, seed):
        """What a walk gives is no slower than what it began with, and is the time it says."""
        rows, numbers = data.draw(mixes(self.job)), arrays_of(self.job, (0, 1)).numbers
        begun = step_s_of(rows, numbers, 1.0, np.inf)
        if np.isfinite(begun):
            found, better = anneal(rows, 4, numbers, 1.0, 300, seed)
            assert found <= begun
            assert found == step_s_of(better, numbers, 1.0, np.inf)
