"""The planner: what it chooses, what it refuses, and what it says."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.contracts.job import ChipsSpec, Job, Objective
from argosy.contracts.plan import Plan
from argosy.plan.planner import plan_job
from argosy.plan.telling.explain import plan_chips
from argosy.plan.timing.check import check_plan
from argosy.plan.timing.timeline import simulate


def plans(
    build: Any, job: Job, *classes: Any, links: tuple[Any, ...] | None = None, **changes: Any
) -> tuple[Plan, ...]:
    """Plan a job on classes; a long link joins north and south unless told."""
    joined = (build.link(),) if links is None else links
    return plan_job(job, build.shape(job.model, **changes), classes, joined, fleet="fleet")


def slow(build: Any, name: str = "north/fast", tflops: float = 0.002, **more: Any) -> Any:
    """Build a class whose arithmetic, not its memory or wires, takes the time."""
    return build.chip_class(name, tflops=tflops, **more)


def with_chips(job: Job, **chips: Any) -> Job:
    """Change which chips a job may have."""
    return replace(job, chips=ChipsSpec(**chips))


class TestChoice:
    def test_single_chip(self, build: Any) -> None:
        """On one chip there is one replica of one stage that takes the whole batch."""
        plan = plans(build, build.job(), slow(build, nodes=1, chips_per_node=1))[0]
        assert plan.world_size == 1
        assert [stage.end_layer for stage in plan.replicas[0].stages] == [4]
        assert plan.prediction is not None
        assert plan.prediction.efficiency == 1

    def test_uses_all_chips(self, build: Any) -> None:
        """The fastest plan uses both classes, the faster for more of the batch, near the sum of both."""
        job = build.job(global_batch_size=48)
        plan = plans(build, job, slow(build), slow(build, "north/slow", 0.001))[0]
        assert plan_chips(plan) == {"north/fast": 4, "north/slow": 4}
        assert plan.prediction is not None
        assert plan.prediction.efficiency > 0.95
        taken = dict.fromkeys(plan_chips(plan), 0)
        for replica in plan.replicas:
            taken[replica.stages[0].chip_class] += replica.sequences
        assert taken["north/fast"] > taken["north/slow"]

    def test_small_memory_makes_pipelines(self, build: Any) -> None:
        """Chips too small for the model get several stages, and none is fuller than its memory."""
        plan = plans(build, build.job(), slow(build, memory_gb=0.004, chips_per_node=1, nodes=4))[0]
        assert all(len(replica.stages) > 1 for replica in plan.replicas)
        assert all(s.memory_gb <= s.memory_limit_gb for r in plan.replicas for s in r.stages)

    def test_recompute_when_needed(self, build: Any) -> None:
        """Activations that don't fit are recomputed."""
        job = build.job(sequence_length=512, microbatch_size=8)
        plan = plans(build, job, slow(build, memory_gb=0.08, chips_per_node=1, nodes=1))[0]
        assert {stage.recompute for stage in plan.replicas[0].stages} == {"full"}

    def test_zero_when_needed(self, build: Any) -> None:
        """An optimizer that does not fit whole is sharded over the replicas of a site."""
        chips = slow(build, "north/fast", 0.002, memory_gb=0.004, chips_per_node=1, nodes=8)
        plan = plans(build, build.job(sequence_length=8, global_batch_size=64, microbatch_size=1), chips)[0]
        assert plan.zero_stage == 1

    def test_slow_link_keeps_gradients_home(self, build: Any) -> None:
        """Over a link too slow for gradients no plan exchanges them across it."""
        classes = slow(build, tflops=0.02), slow(build, "south/slow", tflops=0.02)
        plan = plans(build, build.job(), *classes, links=(build.link(gbps=0.001),))[0]
        assert plan.prediction is not None
        assert plan.prediction.exchange_share == 0

    def test_no_link(self, build: Any) -> None:
        """Sites without a link between them are never joined."""
        offered = plans(build, build.job(), slow(build), slow(build, "south/slow"), links=())
        assert all(len(plan_chips(plan)) == 1 for plan in offered)

    def test_alternatives(self, build: Any) -> None:
        """Besides the chosen plan come each class alone and other ways to join them, best first, none twice."""
        offered = plans(build, build.job(global_batch_size=24), slow(build), slow(build, "south/slow", 0.001))
        used = [frozenset(plan_chips(plan)) for plan in offered]
        assert {frozenset(["north/fast"]), frozenset(["south/slow"])} <= set(used)
        steps = [plan.prediction.step_ms for plan in offered if plan.prediction]
        assert steps == sorted(steps)

    def test_repeats(self, build: Any) -> None:
        """The same question gets the same answer."""
        asked = build.job(), slow(build), slow(build, "south/slow", 0.001)
        assert plans(build, *asked) == plans(build, *asked)


class TestObjective:
    def test_cheapest(self, build: Any) -> None:
        """The cheapest plan costs no more than the fastest and takes no less time."""
        classes = slow(build), slow(build, "north/slow", 0.0015)
        fast = plans(build, build.job(), *classes)[0].prediction
        cheap = plans(build, replace(build.job(), objective=Objective(goal="cheapest")), *classes)[0].prediction
        assert fast is not None
        assert cheap is not None
        assert (cheap.cost_per_trillion_tokens or 0) <= (fast.cost_per_trillion_tokens or 0)
        assert cheap.step_ms >= fast.step_ms

    def test_cheapest_in_time(self, build: Any) -> None:
        """A time limit keeps the cheapest plan from taking too long; one that no plan meets gets the fastest."""
        job = replace(build.job(global_batch_size=24), objective=Objective(goal="cheapest"))
        free, limited, rushed = (
            plans(build, replace(job, time_limit_s=limit), slow(build))[0].prediction for limit in (None, 3.0, 0.001)
        )
        fastest = plans(build, build.job(global_batch_size=24), slow(build))[0].prediction
        assert free is not None
        assert limited is not None
        assert free.step_ms > limited.step_ms
        assert limited.step_ms * 10 <= 3000
        assert rushed == fastest

    def test_no_price(self, build: Any) -> None:
        """Without any price the cheapest can't be told, and the way out is named."""
        chips = slow(build)
        free = replace(chips, chip=replace(chips.chip, price_per_hour=None))
        with pytest.raises(BadInputError, match=r"needs prices, and the catalogue has none for fast.*--catalogue"):
            plans(build, replace(build.job(), objective=Objective(goal="cheapest")), free)


class TestChips:
    def test_maximum(self, build: Any) -> None:
        """A job never gets more chips than it may have, and the faster ones first."""
        job = with_chips(build.job(), maximum=4)
        plan = plans(build, job, slow(build, "north/slow", 0.001), slow(build))[0]
        assert plan_chips(plan) == {"north/fast": 4}

    def test_minimum(self, build: Any) -> None:
        """A job that asks for more chips than there are never fits."""
        with pytest.raises(NeverFitsError, match=r"chips\.min asks for 9 chips; the fleet has 4 \(fast\)"):
            plans(build, with_chips(build.job(), minimum=9), slow(build))

    def test_allow(self, build: Any) -> None:
        """Only the chips that are allowed are used; an unknown one is refused with the nearest."""
        classes = slow(build), slow(build, "north/slow", 0.001)
        assert plan_chips(plans(build, with_chips(build.job(), allow=("slow",)), *classes)[0]) == {"north/slow": 4}
        with pytest.raises(BadInputError, match=r"the fleet has no 'fats'; did you mean fast\?"):
            plans(build, with_chips(build.job(), allow=("fats",)), *classes)

    def test_no_figure(self, build: Any) -> None:
        """A chip without a peak for the precision is not used, and if no other is left that is said."""
        chips = slow(build)
        lacking = replace(chips, chip=replace(chips.chip, tflops={"fp32": 1.0}))
        with pytest.raises(NeverFitsError, match=r"can't be planned on any chip.*\n  fast has no bf16 peak"):
            plans(build, build.job(precision="bf16"), lacking)


class TestNeverFits:
    @pytest.mark.parametrize(("memory_gb", "zero_stage"), [(0.002, 0), (0.0012, 1)])
    def test_says_what_would(self, build: Any, memory_gb: float, zero_stage: int) -> None:
        """What does not fit is said with the need, the limit, and the smallest fleet that would do, sharded or not."""
        job = build.job(sequence_length=8, global_batch_size=64)
        chips = slow(build, memory_gb=memory_gb, nodes=1, chips_per_node=1)
        with pytest.raises(
            NeverFitsError, match=rf"tiny does not fit: .* GB on its fullest rank, fast has {memory_gb}\."
        ) as caught:
            plans(build, job, chips)
        smallest = int(str(caught.value).split("fits: ")[1].split()[0])
        assert smallest > 1
        assert plans(build, job, replace(chips, nodes=smallest))[0].zero_stage == zero_stage
        with pytest.raises(NeverFitsError):
            plans(build, job, replace(chips, nodes=smallest - 1))

    def test_need_counts_sharding(self, build: Any) -> None:
        """The need of the best split is that with the optimizer sharded where more replicas than one stand."""
        job = build.job(sequence_length=8, global_batch_size=64)
        needs = []
        for nodes in (4, 12):
            with pytest.raises(NeverFitsError) as caught:
                plans(build, job, slow(build, memory_gb=0.0012, nodes=nodes, chips_per_node=1))
            needs.append(float(str(caught.value).split("needs ")[1].split()[0]))
        assert 0.0012 < needs[1] < needs[0]

    def test_maximum_too_small(self, build: Any) -> None:
        """Where the fleet would do and chips.max forbids it, that is said."""
        chips = slow(build, memory_gb=0.002, nodes=8, chips_per_node=1)
        with pytest.raises(NeverFitsError, match=r"Smallest fleet that fits: \d fast\. chips\.max is 1\."):
            plans(build, with_chips(build.job(sequence_length=8), maximum=1), chips)

    def test_nothing_would(self, build: Any) -> None:
        """A chip that can't hold even one layer is said to be too small in any number."""
        with pytest.raises(NeverFitsError, match="No number of these chips holds it"):
            plans(build, build.job(), slow(build, memory_gb=0.0001))


class TestPrediction:
    def test_across_sites(self, build: Any) -> None:
        """Gradients over the long link show as a share of the step, of which some is hidden."""
        classes = slow(build, chips_per_node=1), slow(build, "south/fast", chips_per_node=1)
        plan = plans(build, build.job(global_batch_size=32), *classes, links=(build.link(gbps=0.5),))[0]
        told = plan.prediction
        assert told is not None
        assert 0 < told.exchange_share < 1
        assert 0 <= told.exchange_hidden < 1
        assert any("north-south" in holdup.what for holdup in told.holdups)
        assert told.step_ms == pytest.approx(simulate(plan).step_ms)

    def test_mfu(self, build: Any) -> None:
        """MFU is below the part of the peak that arithmetic reaches, and near it on one busy chip."""
        told = plans(build, build.job(), slow(build, nodes=1, chips_per_node=1))[0].prediction
        assert told is not None
        assert 0.75 < told.mfu <= 0.8


tflops = st.sampled_from([0.001, 0.002, 0.003])


class TestLaws:
    @pytest.mark.slow
    @settings(derandomize=True, deadline=None, max_examples=15)
    @given(
        st.lists(st.tuples(tflops, st.integers(1, 3), st.sampled_from([0.004, 0.006, 1.0])), min_size=1, max_size=3),
        st.sampled_from([4, 12, 30]),
        st.booleans(),
    )
    def test_every_plan_is_legal(self, build: Any, fleet: list[Any], batch: int, tied: bool) -> None:
        """Whatever the fleet, every plan offered can run, fits, takes the whole batch and no chip too many."""
        sites = ("north", "south", "north")
        classes = [
            slow(build, f"{sites[i]}/chip{i}", speed, nodes=nodes, memory_gb=memory_gb)
            for i, (speed, nodes, memory_gb) in enumerate(fleet)
        ]
        try:
            offered = plans(build, build.job(global_batch_size=batch), *classes, tied_embeddings=tied)
        except NeverFitsError:
            return
        for plan in offered:
            check_plan(plan)
            assert plan.global_batch_size == batch
            assert all(s.memory_gb <= s.memory_limit_gb for r in plan.replicas for s in r.stages)
            assert all(used <= next(c for c in classes if c.name == n).chips for n, used in plan_chips(plan).items())
