"""Whatever a restriction finds, the search without it finds or betters."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import NeverFitsError
from argosy.contracts.fleet import ChipClass, Fleet, LongLink, Nics, NodeGroup, Site
from argosy.contracts.job import Job
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.classes import chip_classes
from argosy.plan.forms import FORMS
from argosy.plan.pipelines.grid import Freedom
from argosy.plan.planner import plan_job
from argosy.plan.search.offers import gather
from argosy.plan.search.question import make_search
from argosy.plan.search.ranking import chosen_offers

# How much more than the timeline's best a search that estimates first may miss: of a choice given, and of a node fewer.
MISSED, MISSED_NODE = 1.005, 1.01
law = settings(derandomize=True, deadline=None, max_examples=4)
small_fleets = st.lists(
    st.tuples(
        st.sampled_from([0.001, 0.0023, 0.1]),
        st.integers(1, 3),
        st.sampled_from([1, 2, 4]),
        st.sampled_from([0.006, 0.02, 1.0]),
        st.sampled_from([0.1, 1.0, 25.0]),
    ),
    min_size=1,
    max_size=2,
)


def classes_of(build: Any, fleet: list[Any]) -> list[ChipClass]:
    """Build a class of each (TFLOPS, nodes, chips a node, GB, Gb/s), in two sites."""
    return [
        build.chip_class(
            f"{('north', 'south')[i]}/chip{i}", speed, nodes=nodes, chips_per_node=chips, memory_gb=gb, nic_gbps=gbps
        )
        for i, (speed, nodes, chips, gb, gbps) in enumerate(fleet)
    ]


def found_ms(build: Any, job: Job, classes: list[ChipClass], changes: dict[str, Any], layers: int) -> float:
    """Give the best step with some of a search's freedom otherwise; infinite where nothing fits."""
    search = make_search(job, build.shape(num_layers=layers), (build.link(),), "fleet")
    search.freedom = replace(search.freedom, **changes)
    search.families = tuple(f for f in search.families if of_form(f.schedule, f.zero_stage, search.freedom))
    offers = gather(search, job, classes, lambda _done, _of: None)
    return chosen_offers(search, job, classes, offers, None)[0].timed.timeline.step_ms if offers else float("inf")


def of_form(schedule: str, zero_stage: int, freedom: Freedom) -> bool:
    """Tell whether a framework knows a schedule and a ZeRO stage."""
    form = freedom.form
    return form is None or (schedule in form.schedules and zero_stage in form.zero_stages)


def given_freedom(classes: list[ChipClass], batch: int) -> Iterator[dict[str, Any]]:
    """Give what may be given: sizes of micro-batches, TP degrees, ways to recompute, forms."""
    yield from ({"sizes": (size,)} for size in (1, 2, 3, 4, 6) if batch % size == 0)
    for tp in (1, 2, 4):
        yield {"without_tps": tuple((c.name, other) for c in classes for other in (1, 2, 4) if other != tp)}
    yield from ({"recomputes": (way,)} for way in ("none", "full"))
    yield from ({"form": form} for form in FORMS.values())


class TestRestrictions:
    @pytest.mark.slow
    @law
    @given(small_fleets, st.sampled_from([5, 6, 12, 30]), st.sampled_from([3, 5, 8]))
    def test_none_is_faster(self, build: Any, fleet: list[Any], batch: int, layers: int) -> None:
        """With no size, TP degree, way to recompute, form or class given, a step takes no longer than with one."""
        classes = classes_of(build, fleet)
        job = build.job(global_batch_size=batch, sequence_length=128, precision="bf16")
        whole = found_ms(build, job, classes, {}, layers)
        for changes in given_freedom(classes, batch):
            assert whole <= found_ms(build, job, classes, changes, layers) * MISSED
        for one in classes:
            assert whole <= found_ms(build, job, [one], {}, layers) * MISSED

    @pytest.mark.slow
    @law
    @given(small_fleets, st.sampled_from([5, 12, 30]))
    def test_a_node_more_is_not_slower(self, build: Any, fleet: list[Any], batch: int) -> None:
        """A fleet is planned no worse than with a node fewer of one of its classes."""
        classes = classes_of(build, fleet)
        job = build.job(global_batch_size=batch, sequence_length=128)
        whole = found_ms(build, job, classes, {}, 5)
        for index, one in enumerate(classes):
            if one.nodes > 1:
                fewer = [*classes[:index], replace(one, nodes=one.nodes - 1), *classes[index + 1 :]]
                assert whole <= found_ms(build, job, fewer, {}, 5) * MISSED_NODE

    def test_size_that_is_no_power_of_two(self, build: Any) -> None:
        """A batch of 6 over chips with a slow network is planned in micro-batches of 3, as when that is asked for."""
        chips = build.chip_class(
            "north/c1", 0.1, memory_gb=1.02, nodes=5, chips_per_node=4, nic_gbps=0.1, emulated=False
        )
        steps = {}
        for size in (None, 3):
            job = build.job(global_batch_size=6, sequence_length=256, microbatch_size=size)
            steps[size] = step_ms(job, build.shape(num_layers=5), [chips], ())
        assert steps[None] <= steps[3]


MODELS = (("llama-3-8b", 1), ("mixtral-8x7b", 2))
KINDS = ("h100-sxm", "a100-sxm-80gb", "mi300x", "ascend-910b3")


def catalogue_classes(nodes: dict[str, int]) -> tuple[ChipClass, ...]:
    """Take so many nodes of eight of each of some chips, in one site."""
    groups = tuple(
        NodeGroup(site="north", chip=chip, chips_per_node=8, count=count, nics=Nics(count=8, gbps=400.0))
        for chip, count in nodes.items()
    )
    return chip_classes(Fleet(name="one", sites=(Site(name="north"),), nodes=groups, long_links=()), load_catalogue())


class TestModels:
    @pytest.mark.slow
    @settings(derandomize=True, deadline=None, max_examples=3)
    @given(
        st.sampled_from(MODELS),
        st.dictionaries(st.sampled_from(KINDS), st.integers(0, 2), min_size=1, max_size=2),
        st.sampled_from([96, 128, 250]),
    )
    def test_none_is_faster(self, build: Any, model: tuple[str, int], more: dict[str, int], batch: int) -> None:
        """Models on real chips train no slower than with a way to recompute or a size given, or a node fewer, or both.

        more: nodes of each chip besides the fewest that hold the model.
        """
        name, least = model
        nodes, shape = {chip: least + count for chip, count in more.items()}, build.shape(name)
        fewer = [{**nodes, chip: count - 1} for chip, count in nodes.items() if count > 1]

        def step(taken: dict[str, int], **train: Any) -> float:
            job = build.job(name, sequence_length=4096, global_batch_size=batch, precision="bf16", **train)
            return step_ms(job, shape, list(catalogue_classes(taken)), ())

        whole = step(nodes)
        for train in ({}, {"recompute": "none"}, {"recompute": "full"}):
            assert whole <= min([step(taken, **train) for taken in (nodes, *fewer)]) * MISSED
        for size in (1, 2):
            assert whole <= step(nodes, microbatch_size=size) * MISSED


class TestAcrossSites:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("model", "sequence", "left_out"), [("deepseek-v3", 4096, ""), ("llama-3-70b", 8192, "a100")]
    )
    def test_free_is_no_slower_than_flagscale(self, build: Any, model: str, sequence: int, left_out: str) -> None:
        """Where gradients over a long link cost more than all else, pipelines through both sites are found."""
        nodes = (("berlin", "h100-sxm", 400.0), ("berlin", "a100-sxm-80gb", 200.0))
        nodes += (("munich", "mi300x", 400.0), ("munich", "ascend-910b3", 200.0))
        link = LongLink(between=("berlin", "munich"), km=600.0, gbps=400.0)
        fleet = Fleet(
            name="two",
            sites=(Site(name="berlin"), Site(name="munich")),
            nodes=tuple(
                NodeGroup(site=site, chip=chip, chips_per_node=8, count=32, nics=Nics(count=8, gbps=gbps))
                for site, chip, gbps in nodes
                if not left_out or left_out not in chip
            ),
            long_links=(link,),
        )
        classes = chip_classes(fleet, load_catalogue())
        job = build.job(model, sequence_length=sequence, global_batch_size=512, precision="bf16")
        free = step_ms(job, build.shape(model), classes, (link,))
        assert free <= step_ms(job, build.shape(model), classes, (link,), form=FORMS["flagscale"])


def step_ms(job: Job, shape: Any, classes: list[ChipClass], links: tuple[LongLink, ...], **asked: Any) -> float:
    """Give the best step of a job's plans; infinite where nothing fits."""
    try:
        plan = plan_job(job, shape, classes, links, **asked)[0]
    except NeverFitsError:
        return float("inf")
    assert plan.prediction is not None
    return plan.prediction.step_ms
