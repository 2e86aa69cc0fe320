"""Builders that the tests of the planner share, each with sane defaults."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from argosy.contracts.fleet import Chip, ChipClass, LongLink
from argosy.contracts.job import ChipsSpec, DataSpec, Job, Objective, TrainSpec
from argosy.model.config import read_config
from argosy.model.named import config_text
from argosy.model.shape import ModelShape
from argosy.plan.costs.setting import Setting
from argosy.plan.pipelines.grid import Freedom, Part
from argosy.plan.search.drafts import Draft
from argosy.plan.search.search import Search


def make_class(name: str = "north/fast", tflops: float = 1.0, memory_gb: float = 64.0, **more: object) -> ChipClass:
    """Build a class of 2 nodes of 2 chips with 25 Gb/s each; emulated, so that no runtime takes memory."""
    site, chip_name = name.split("/")
    chip = Chip(
        name=chip_name,
        vendor="Acme",
        title=chip_name,
        tflops={"fp32": tflops, "bf16": 4 * tflops},
        memory_gb=memory_gb,
        memory_gbytes_s=1000.0,
        scale_up_gbytes_s=100.0,
        price_per_hour=1.0,
    )
    fields = {
        "name": name,
        "site": site,
        "chip": chip,
        "chips_per_node": 2,
        "nodes": 2,
        "nic_gbps": 25.0,
        "emulated": True,
    }
    return ChipClass(**{**fields, **more})  # type: ignore[arg-type]


def make_job(model: str = "tiny", **train: object) -> Job:
    """Build a job of 8 sequences of 64 tokens a step in fp32."""
    fields = {"sequence_length": 64, "global_batch_size": 8, "steps": 10, "precision": "fp32"}
    return Job(
        name="job",
        model=model,
        data=DataSpec(files=("x.txt",)),
        train=TrainSpec(**{**fields, **train}),  # type: ignore[arg-type]
        chips=ChipsSpec(),
        objective=Objective(),
    )


def make_shape(model: str = "tiny", **changes: object) -> ModelShape:
    """Read a named model, with changes."""
    return replace(read_config(*config_text(model)), **changes)  # type: ignore[arg-type]


def make_setting(model: str = "tiny", sequence_length: int = 64, precision: str = "fp32", **changes: object) -> Setting:
    """Build a setting of a named model."""
    return Setting(make_shape(model, **changes), sequence_length, precision)


def make_search(
    setting: Setting, links: tuple[LongLink, ...] = (), sizes: tuple[int, ...] = (1,), batch: int = 8
) -> Search:
    """Build a search without a job."""
    base = Draft(setting=setting, model="tiny", fleet="fleet", groups=(), schedule="", zero_stage=0, links=links)
    return Search(base, Freedom(sizes=sizes, recomputes=("none", "full")), batch)


def make_link(gbps: float = 10.0, km: float = 50.0) -> LongLink:
    """Build a long link between north and south."""
    return LongLink(between=("north", "south"), km=km, gbps=gbps)


def make_parts(*classes: ChipClass) -> list[Part]:
    """Take all chips of some classes."""
    return [Part(chip_class=chip_class, chips=chip_class.chips) for chip_class in classes]


class Builders:
    """All builders of this file by their short names."""

    chip_class: Callable[..., ChipClass] = staticmethod(make_class)
    job: Callable[..., Job] = staticmethod(make_job)
    shape: Callable[..., ModelShape] = staticmethod(make_shape)
    setting: Callable[..., Setting] = staticmethod(make_setting)
    search: Callable[..., Search] = staticmethod(make_search)
    link: Callable[..., LongLink] = staticmethod(make_link)
    parts: Callable[..., list[Part]] = staticmethod(make_parts)


@pytest.fixture(scope="session")
def build() -> type[Builders]:
    """Hand out the builders."""
    return Builders
