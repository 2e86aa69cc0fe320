"""Mixes of pipelines: rules that every answer keeps, and laws between answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.plan.mix import plan_mix
from argosy.plan.mix_columns import Pricer, column_of, partitions
from argosy.plan.mix_sync import sync_s
from argosy.plan.mix_tables import Choice, MixProblem, MixTable, Template

LAYERS = 6


def table(size=1, speeds=(1.0, 2.0), degrees=(1, 2), memory=(20.0, 20.0)):
    """Build a table: class c takes speeds[c] seconds a layer and sample, a little more than half that on two chips."""
    choices = [Choice(chip_class=c, tp=tp) for c in range(len(speeds)) for tp in degrees]
    count = len(choices)
    layer_s = np.array([[size * speeds[c.chip_class] * (1.0 if c.tp == 1 else 0.6)] * LAYERS for c in choices])
    return MixTable(
        microbatch_size=size,
        choices=tuple(choices),
        layer_s=layer_s,
        update_s=np.full((count, LAYERS), 0.1),
        state_bytes=np.array([[4.0 / c.tp] * LAYERS for c in choices]),
        stored_bytes=np.array([[0.5 * size / c.tp] * LAYERS for c in choices]),
        fixed_bytes=np.zeros(count),
        limit_bytes=np.array([memory[c.chip_class] for c in choices]),
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
        reduce_s=lambda size, members, a, b: 0.0 if members < 2 else 2 * (members - 1) / members * size * 0.05,
        first_factor=lambda stages: 1.0,
        last_factor=1.0,
        stages_max=4,
    )


def broken_rules(job, mix):
    """List what a mix breaks: chips, batch, layers in order, memory."""
    used = sum(part.replicas * job.chips(part.template) for part in mix.parts)
    samples = sum(part.replicas * part.microbatches * part.template.microbatch_size for part in mix.parts)
    found = ["chips"] * bool((used > np.array(job.counts)).any()) + ["batch"] * (samples < job.batch)
    for part in mix.parts:
        ends, rows = part.template.ends, job.table(part.template.microbatch_size)
        found += ["layers"] * (list(ends) != sorted(set(ends)) or ends[-1] != LAYERS)
        stages = zip(part.template.starts, ends, part.template.choices, strict=True)
        for stage, (first, end, choice) in enumerate(stages):
            fits = rows.fits(len(ends) - stage)[rows.span_index[first, end], rows.choices.index(choice)]
            found += ["memory"] * (not fits)
    return found


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
        """Chips, memory, layers and batch are respected, and the bound is not above the answer."""
        job = problem(counts=counts, batch=batch, memory=(memory, memory), speeds=(1.0, slower))
        try:
            mix = plan_mix(job)
        except (NeverFitsError, BadInputError):
            return
        assert broken_rules(job, mix) == []
        assert mix.bound_s <= mix.step_s * (1 + 1e-6)

    def test_parts_add_up_to_the_step(self):
        """The step is its slowest part's time and the sums."""
        job = problem()
        mix = plan_mix(job)
        columns = [column_of(job, part.template) for part in mix.parts]
        slowest = max(c.pace.step_s(p.microbatches) for c, p in zip(columns, mix.parts, strict=True))
        assert mix.compute_s == pytest.approx(slowest)
        assert (mix.inside_s, mix.across_s) == sync_s(job, [(p.template, p.replicas) for p in mix.parts])

    def test_two_classes_beat_the_faster_alone(self):
        """Slower chips beside the faster ones shorten the step."""
        assert plan_mix(problem(counts=(4, 4))).step_s < plan_mix(problem(counts=(4, 0))).step_s

    def test_swapped_classes_change_nothing(self):
        """Naming the classes the other way round gives the same step."""
        there = plan_mix(problem(counts=(3, 5), speeds=(1.0, 2.0)))
        back = plan_mix(problem(counts=(5, 3), speeds=(2.0, 1.0)))
        assert there.step_s == pytest.approx(back.step_s, rel=1e-3)

    def test_model_too_large_is_refused(self):
        """A layer that fits nowhere is an error that says so."""
        with pytest.raises(NeverFitsError, match="no replica fits"):
            plan_mix(problem(memory=(1.0, 1.0)))

    def test_empty_pool_is_refused(self):
        """No chips at all is bad input."""
        with pytest.raises(BadInputError, match="a mix needs chips"):
            plan_mix(problem(counts=(0, 0)))


class TestPartitions:
    def test_partition_gives_faster_stages_more_layers(self):
        """A class twice as fast gets twice the layers."""
        job = problem(memory=(99.0, 99.0))
        pricer = Pricer(job, job.tables[0])
        picked = (Choice(chip_class=1, tp=1), Choice(chip_class=0, tp=1))
        assert Template(microbatch_size=1, choices=picked, ends=(2, 6)) in partitions(pricer, picked, 100.0)

    def test_partition_keeps_memory(self):
        """A stage never holds more than fits, though that is slower."""
        job = problem(memory=(18.0, 99.0))
        picked = (Choice(chip_class=0, tp=1), Choice(chip_class=1, tp=1))
        ends = {template.ends for template in partitions(Pricer(job, job.tables[0]), picked, 100.0)}
        assert ends == {(3, 6)}


class TestSync:
    def test_one_class_has_nothing_to_sum_across(self):
        """Rings of one class cost nothing across classes."""
        one = Template(microbatch_size=1, choices=(Choice(chip_class=0, tp=1),), ends=(LAYERS,))
        inside_s, across_s = sync_s(problem(), [(one, 4)])
        assert (inside_s, across_s) == (pytest.approx(2 * 3 / 4 * 24 * 0.05), 0.0)

    def test_two_classes_sum_pieces_across(self):
        """Across classes only the pieces that ring members hold are summed."""
        parts = [
            (Template(microbatch_size=1, choices=(Choice(chip_class=c, tp=1),), ends=(LAYERS,)), 4) for c in (0, 1)
        ]
        assert sync_s(problem(), parts)[1] == pytest.approx(24 / 4 * 0.05)
