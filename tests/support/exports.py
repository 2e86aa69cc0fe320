"""Plans to export, and readers that turn an exported text back into what it says, each by its framework's own rules.

The readers know the formats from their frameworks' sources, not from the exporters: docs/exports.md names the versions.
"""

import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import yaml

from argosy.contracts.plan import Plan, Replica, Send, Stage, Wire
from argosy.model.config import read_config
from argosy.model.named import config_text
from argosy.model.shape import ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What every framework must have understood. layers: from..end of each stage; ranks: all of them."""

    layers: tuple[tuple[int, int], ...]
    tp: tuple[int, ...]
    cp: int
    ep: int
    ranks: int
    microbatches: int
    microbatch_size: int


def named_shape(name: str) -> ModelShape:
    """Read a model that ships with Argosy."""
    return read_config(*config_text(name))


def make_replica(counts: Sequence[int], microbatches: int | None = None, size: int = 1, **stage: Any) -> Replica:
    """Build a replica of stages with so many layers each, all alike but for lists, which give each stage its own."""
    starts = [sum(counts[:index]) for index in range(len(counts))]
    own = [{name: v[i] if isinstance(v, list) else v for name, v in stage.items()} for i in range(len(counts))]
    stages = tuple(
        _stage(start, start + count, (start == 0) + (index == len(counts) - 1), **fields)
        for index, (start, count, fields) in enumerate(zip(starts, counts, own, strict=True))
    )
    sends = tuple(Send(wire="wire", payload_bytes=1.0) for _ in counts[1:])
    return Replica(stages=stages, microbatches=microbatches or 2 * len(counts), microbatch_size=size, sends=sends)


def _stage(first: int, end: int, ends: int, **fields: Any) -> Stage:
    units = end - first + ends
    fixed = {"chip_class": "north/fast", "forward_ms": 1.0, "backward_ms": 2.0}
    return Stage(first_layer=first, end_layer=end, backward_shares=(1 / units,) * units, **{**fixed, **fields})


def make_plan(shape: ModelShape, *replicas: Replica, **fields: Any) -> Plan:
    """Build a plan of a model in bf16."""
    fixed: dict[str, Any] = {"fleet": "fleet", "sequence_length": 4096, "precision": "bf16"}
    if fields.get("virtual_stages", 1) > 1:
        fixed["schedule"] = "interleaved"
    return Plan(
        model=shape.name,
        num_layers=shape.num_layers,
        tied_embeddings=shape.tied_embeddings,
        global_batch_size=sum(replica.sequences for replica in replicas),
        replicas=replicas,
        wires=(Wire(name="wire", gbps=100.0, one_way_ms=0.1),),
        **{**fixed, **fields},
    )


def split_of(plan: Plan) -> Split:
    """Say what a framework must have understood of a plan whose replicas are alike."""
    replica = plan.replicas[0]
    return Split(
        layers=tuple((stage.first_layer, stage.end_layer) for stage in replica.stages),
        tp=tuple(stage.tp for stage in replica.stages),
        cp=replica.stages[0].cp,
        ep=replica.stages[0].ep,
        ranks=plan.world_size,
        microbatches=replica.microbatches,
        microbatch_size=replica.microbatch_size,
    )


# Megatron-LM


def read_megatron(text: str) -> dict[str, Any]:
    """Read the arguments of a bash file: name -> value, true for a flag."""
    found = re.search(r"^MEGATRON_ARGS=\(\n(.*)^\)$", text, re.DOTALL | re.MULTILINE)
    words = shlex.split(found[1]) if found else []
    values: dict[str, Any] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            values[word[2:]] = True if after.startswith("--") else after
    return values


def _number(pattern: str, text: str) -> int:
    """Find the number that a pattern names; a text without it is no export."""
    found = re.search(pattern, text)
    assert found, pattern
    return int(found[1])


def megatron_split(text: str) -> Split:
    """Say what Megatron-LM makes of a file on the ranks that its first line names."""
    values = read_megatron(text)
    tp, pp, cp = (int(values[f"{name}-parallel-size"]) for name in ("tensor-model", "pipeline-model", "context"))
    ranks = _number(r"on (\d+) ranks?:", text)
    counts = _megatron_counts(values, pp)
    size = int(values["micro-batch-size"])
    return Split(
        layers=_ranges(counts),
        tp=(tp,) * len(counts),
        cp=cp,
        ep=int(values.get("expert-model-parallel-size", 1)),
        ranks=ranks,
        microbatches=int(values["global-batch-size"]) // (size * (ranks // (tp * pp * cp))),
        microbatch_size=size,
    )


def _megatron_counts(values: dict[str, Any], pp: int) -> list[int]:
    """Give the layers of each stage in their order: a layout's, else the ends' own and the rest divided evenly."""
    layers = int(values["num-layers"])
    if "pipeline-model-parallel-layout" in values:
        return layout_counts(values["pipeline-model-parallel-layout"])
    if "decoder-first-pipeline-num-layers" in values:
        first, last = (int(values[f"decoder-{end}-pipeline-num-layers"]) for end in ("first", "last"))
        return [first, *_even(layers - first - last, pp - 2), last]
    return _even(layers, pp * int(values.get("num-virtual-stages-per-pipeline-rank", 1)))


def _even(layers: int, stages: int) -> list[int]:
    if stages == 0:
        return [] if layers == 0 else [layers]
    if layers % stages:
        raise ValueError(f"{layers} layers don't divide over {stages} stages")
    return [layers // stages] * stages


def layout_counts(text: str) -> list[int]:
    """Read a layout as Megatron-LM's own parser does: first (...)*n is repeated, then x*n; | parts stages."""
    text = text.replace(",", "")
    text = re.sub(r"\(([^)]+)\)\*(\d+)", lambda found: found[1] * int(found[2]), text)
    text = re.sub(r"(.)\*(\d+)", lambda found: found[1] * int(found[2]), text)
    stages = text.split("|")
    if not (stages[0].startswith("E") and stages[-1].endswith("L") and set(text) <= set("EtmL|")):
        raise ValueError(f"no layout: {text}")
    return [stage.count("t") for stage in stages]


def _ranges(counts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple((sum(counts[:index]), sum(counts[: index + 1])) for index in range(len(counts)))


# torchtitan


def read_torchtitan(text: str) -> SimpleNamespace:
    """Run an exported module with a torchtitan whose classes only keep what they are given; gives the configuration."""
    with _torchtitan(text):
        scope: dict[str, Any] = {}
        exec(compile(text, "exported.py", "exec"), scope)
        config: SimpleNamespace = scope["argosy_plan"]()
    return config


@contextmanager
def _torchtitan(text: str) -> Any:
    """Stand in for every module of torchtitan that a text imports."""
    modules: dict[str, ModuleType] = {}
    for module, names in re.findall(r"^from (torchtitan[\w.]*) import (.+)$", text, re.MULTILINE):
        modules[module] = ModuleType(module)
        for name in names.split(", "):
            setattr(modules[module], name, _Kept)
    layers = _number(r"len\(model_spec.model.layers\) != (\d+)", text)
    registry = next(
        module
        for name, module in modules.items()
        if name.startswith("torchtitan.models.") and hasattr(module, "model_registry")
    )
    vars(registry)["model_registry"] = lambda flavor: _model(flavor, layers)
    with patch.dict(sys.modules, modules):
        yield


def _model(flavor: str, layers: int) -> SimpleNamespace:
    made = [SimpleNamespace(attention=SimpleNamespace(rope=_Rope())) for _ in range(layers)]
    return SimpleNamespace(flavor=flavor, model=SimpleNamespace(layers=made))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rope:
    """The fields of torchtitan's rotary positions."""

    theta: float = 0.0
    max_seq_len: int = 0
    scaling: str = "llama"
    scaling_factor: float = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192
    rope_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    original_seq_len: int = 4096


class _Kept(SimpleNamespace):
    """A configuration of any kind; its nested Config is one too."""

    def __init__(self, *_given: object, **fields: object) -> None:
        super().__init__(**fields)

    Config: Any = SimpleNamespace


def torchtitan_split(text: str) -> Split:
    """Say what torchtitan makes of a module."""
    config = read_torchtitan(text)
    split, batch = config.parallelism, config.training
    dp = split.data_parallel_replicate_degree * split.data_parallel_shard_degree
    pp, tp, cp = split.pipeline_parallel_degree, split.tensor_parallel_degree, split.context_parallel_degree
    parts = getattr(split, "module_fqns_per_model_part", None)
    size = split.pipeline_parallel_microbatch_size if pp > 1 else batch.local_batch_size
    layers = torchtitan_layers(parts) if parts else ((0, len(config.model_spec.model.layers)),)
    return Split(
        layers=layers,
        tp=(tp,) * len(layers),
        cp=cp,
        ep=split.expert_parallel_degree,
        ranks=dp * pp * tp * cp,
        microbatches=batch.global_batch_size // (dp * size),
        microbatch_size=size,
    )


def torchtitan_layers(parts: Sequence[Sequence[str]]) -> tuple[tuple[int, int], ...]:
    """Turn names of modules into ranges of layers; embedding must be first, norm and head last."""
    names = [name for part in parts for name in part]
    layers = [[int(name.split(".")[1]) for name in part if name.startswith("layers.")] for part in parts]
    flat = [f"layers.{layer}" for part in layers for layer in part]
    if names != ["tok_embeddings", *flat, "norm", "lm_head"] or any(
        part != list(range(part[0], part[-1] + 1)) for part in layers
    ):
        raise ValueError(f"no pipeline: {parts}")
    return tuple((part[0], part[-1] + 1) for part in layers)


# FlagScale


def read_flagscale(text: str) -> dict[str, Any]:
    """Read a training configuration flat, as FlagScale turns it into arguments."""
    values: dict[str, Any] = {}
    for table in yaml.safe_load(text).values():
        values |= _flat(table)
    return values


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in table.items():
        values |= _flat(value) if isinstance(value, dict) else {name: value}
    return values


def flagscale_split(text: str) -> Split:
    """Say what FlagScale makes of a configuration: meshes of [TP, CP, EP, DP, PP] in the order of the pipeline."""
    values = read_flagscale(text)
    flat = values["hetero_process_meshes"]
    meshes = [tuple(flat[index : index + 5]) for index in range(0, len(flat), 5)]
    counts = values["hetero_pipeline_layer_split"]
    tp, cp, ep, dp, pp = zip(*meshes, strict=True)
    if sum(pp) != len(counts) or sum(pp) != values["pipeline_model_parallel_size"] or len(set(dp)) > 1:
        raise ValueError(f"no pipeline: {meshes} with {counts}")
    if sum(counts) != values["num_layers"] or len(meshes) != len(values["hetero_device_types"]):
        raise ValueError(f"no pipeline: {counts} on {values['hetero_device_types']}")
    size = values["micro_batch_size"]
    return Split(
        layers=_ranges(counts),
        tp=tuple(degree for degree, depth in zip(tp, pp, strict=True) for _ in range(depth)),
        cp=cp[0],
        ep=ep[0],
        ranks=sum(t * c * d * p for t, c, _, d, p in meshes),
        microbatches=values["global_batch_size"] // (size * dp[0]),
        microbatch_size=size,
    )
