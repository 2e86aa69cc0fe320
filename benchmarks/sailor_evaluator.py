"""Times a plan from measured profiles by the arithmetic of Sailor's simulator, as a neutral judge of planners.

    python benchmarks/sailor_evaluator.py [--json] [--data FOLDER]
    python benchmarks/sailor_evaluator.py --plan FILE --model OPT-350 [--json]

Without --plan: the 36 measured runs, our times beside Sailor's own predictions and the measured ones.

The arithmetic (eth-easl/sailor @cf2c8e3, sailor/Planner/simulations/runtime_simulator.py). A pipeline of P stages and m
micro-batches takes (m - 1) x the slowest stage + the sum over stages + the slowest optimizer step; a stage is its
layers' forward and backward on its slowest replica, plus its messages: activations to the next stage and gradients to
the previous, but twice the gradients on the last stage, and on the first the activations, twice when P > 3. Messages
are of the whole micro-batch, whatever the tensor parallelism. Then gradients are summed by ring all-reduces in buckets
of 5e8 bytes, one ring a stage, every hop as slow as the slowest pair of neighbours, on layers divided by the stage's
smallest TP degree (4 at most); the slowest stage counts.

Several pipelines (Sailor's simulator assumes that they take equal shares of the batch, and prices their sync with one
chip kind's network): each may have its own number of micro-batches (`num_microbatches`) and size (`mbs`). Gradients are
then summed in three phases, each by the same formulas: scatter-reduce among all holders of a layer on one kind of chip,
an all-reduce of the pieces across kinds (the smallest kind's pieces, over the slowest pair of kinds), gather. Each
phase ends when the slowest stage has done all its layers. `one_ring_s` is the price if instead one ring ran over all
holders of all kinds.
"""

import argparse
import csv
import itertools
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from argosy.contracts.errors import ArgosyError, BadInputError
from command import start
from sailor_data import (
    MEASURED_PROCESS_BYTES,
    PROCESS_BYTES,
    PROCESS_BYTES_TP,
    TP_DIVISOR_MAX,
    Setting,
    load_setting,
    reference_folder,
)

MODELS = {"GPT-NEO": "GPT-Neo-2.7"}
# Named in the data's README: 26 layers of 34; a copied reduce time; a copy of another run.
SUSPECTS = ("GPT-NEO/N4/plan_config_N4_D4", "OPT-350/N4/plan_config_N4_D4", "mit/N6/plan_config_N6_D2")

Machine = tuple[str, int, str]
Replica = tuple[list[Machine], int]


class PipelineForm(msgspec.Struct, frozen=True):
    """A pipeline as Sailor writes it; tmp_per_stage: stage -> replica -> ([(chip, chips, zone)], TP degree)."""

    num_stages: int
    layers_per_stage: list[list[int]]
    tmp_per_stage: list[list[Replica]]
    dp: list[int]
    mbs: int = 0
    num_microbatches: int = 0


class PlanForm(msgspec.Struct, frozen=True):
    """A plan as Sailor writes it; what it measured stands beside it."""

    pipeline_list: list[PipelineForm]
    mbs: int
    gbs: int = 0
    real: float = 0.0
    red_grads: float = 0.0
    max_mem: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What a step takes. one_ring_s: the whole step if gradients were summed in one ring over all kinds of chips."""

    iteration_s: float
    pipelines_s: tuple[float, ...]
    sync_s: float
    cross_kind_s: float
    one_ring_s: float
    microbatches: tuple[int, ...]
    stages_s: tuple[tuple[float, ...], ...]


def read_plan(text: str, source: str) -> PlanForm:
    """Read a plan in Sailor's JSON form."""
    try:
        plan = msgspec.json.decode(text, type=PlanForm)
    except msgspec.MsgspecError as error:
        raise BadInputError(f"{source}: {error}") from error
    for pipeline in plan.pipeline_list:
        lengths = {
            len(pipeline.layers_per_stage),
            len(pipeline.tmp_per_stage),
            len(pipeline.dp),
            pipeline.num_stages,
        }
        if len(lengths) != 1:
            raise BadInputError(f"{source}: num_stages, layers_per_stage, tmp_per_stage and dp differ in length")
    return plan


def evaluate(plan: PlanForm, setting: Setting) -> Timing:
    """Time one step of a plan."""
    counts = microbatch_counts(plan, setting)
    pipelines, stages = [], []
    for pipeline, count in zip(plan.pipeline_list, counts, strict=True):
        times = [
            compute + message
            for compute, message in zip(
                compute_s(pipeline, pipeline.mbs or plan.mbs, setting),
                messages_s(pipeline, pipeline.mbs or plan.mbs, setting),
                strict=True,
            )
        ]
        stages.append(tuple(times))
        update = update_s(pipeline, pipeline.mbs or plan.mbs, setting)
        pipelines.append((count - 1) * max(times) + sum(times) + update)
    inside, across = sync_s(plan, setting)
    ring = inside if len(plan.pipeline_list) == 1 else one_ring_s(plan, setting)
    return Timing(
        iteration_s=max(pipelines) + inside + across,
        pipelines_s=tuple(pipelines),
        sync_s=inside + across,
        cross_kind_s=across,
        one_ring_s=max(pipelines) + ring,
        microbatches=tuple(counts),
        stages_s=tuple(stages),
    )


def microbatch_counts(plan: PlanForm, setting: Setting) -> list[int]:
    """Give every pipeline's micro-batches a replica: as the plan says, else equal shares of the batch, rounded up."""
    batch = plan.gbs or setting.batch
    replicas = sum(pipeline.dp[0] for pipeline in plan.pipeline_list)
    return [
        pipeline.num_microbatches or math.ceil(batch / ((pipeline.mbs or plan.mbs) * replicas))
        for pipeline in plan.pipeline_list
    ]


def compute_s(pipeline: PipelineForm, microbatch_size: int, setting: Setting) -> list[float]:
    """Give every stage's forward and backward of one micro-batch, on its slowest replica."""
    result = []
    for layers, replicas in zip(pipeline.layers_per_stage, pipeline.tmp_per_stage, strict=True):
        times = [setting.profile.timed(chip, microbatch_size, tp) for chip, tp in _choices(replicas)]
        result.append(max(sum(t.forward_s[layer] + t.backward_s[layer] for layer in layers) for t in times))
    return result


def update_s(pipeline: PipelineForm, microbatch_size: int, setting: Setting) -> float:
    """Give the slowest stage's optimizer step: the time measured with its first layer."""
    return max(
        setting.profile.timed(chip, microbatch_size, tp).update_s[layers[0]]
        for layers, replicas in zip(pipeline.layers_per_stage, pipeline.tmp_per_stage, strict=True)
        for chip, tp in _choices(replicas)
    )


def messages_s(pipeline: PipelineForm, microbatch_size: int, setting: Setting) -> list[float]:
    """Give every stage's messages of one micro-batch."""
    count = pipeline.num_stages
    result = []
    for stage, layers in enumerate(pipeline.layers_per_stage):
        sent = setting.output_bytes[layers[-1]] * microbatch_size
        returned = setting.output_bytes[layers[0]] * microbatch_size
        activations = _send_s(pipeline, stage, stage + 1, sent, setting) if stage < count - 1 else 0.0
        gradients = _send_s(pipeline, stage, stage - 1, returned, setting) if stage > 0 else 0.0
        if stage == count - 1:
            result.append(2 * gradients)
        elif stage == 0:
            result.append(activations * (1 if count <= 3 else 2))
        else:
            result.append(activations + gradients)
    return result


def sync_s(plan: PlanForm, setting: Setting) -> tuple[float, float]:
    """Give the time of summing gradients: inside a stage's or a kind's rings, then across kinds."""
    if len(plan.pipeline_list) == 1:
        pipeline = plan.pipeline_list[0]
        return max(
            _ring_s(sum(setting.weight_bytes[layer] for layer in layers), replicas, setting)
            for layers, replicas in zip(pipeline.layers_per_stage, pipeline.tmp_per_stage, strict=True)
        ), 0.0
    holders = _holders(plan)
    inside, across = [], []
    for pipeline in plan.pipeline_list:
        for layers, replicas in zip(pipeline.layers_per_stage, pipeline.tmp_per_stage, strict=True):
            spans = [(sum(setting.weight_bytes[i] for i in span), holders[span[0]]) for span in _spans(layers, holders)]
            across.append(sum(_across_s(size, by_kind, setting) for size, by_kind in spans))
            for kind in {_kind(replica) for replica in replicas}:
                inside.append(sum(_ring_s(size, by_kind[kind], setting) for size, by_kind in spans))
    return max(inside), max(across)


def one_ring_s(plan: PlanForm, setting: Setting) -> float:
    """Give the time of summing gradients in one ring over all holders of a layer, whatever their chips."""
    holders = _holders(plan)
    return max(
        sum(
            _ring_s(
                sum(setting.weight_bytes[i] for i in span),
                [replica for replicas in holders[span[0]].values() for replica in replicas],
                setting,
            )
            for span in _spans(layers, holders)
        )
        for pipeline in plan.pipeline_list
        for layers in pipeline.layers_per_stage
    )


def memory_bytes(plan: PlanForm, setting: Setting, process_bytes: float = MEASURED_PROCESS_BYTES) -> float:
    """Give the fullest chip's memory: stage s of P keeps P - s micro-batches, whatever their number."""
    return max(
        setting.held_bytes(layers, tp, pipeline.mbs or plan.mbs, pipeline.num_stages - stage) + process_bytes
        for pipeline in plan.pipeline_list
        for stage, layers in enumerate(pipeline.layers_per_stage)
        for tp in {tp for _, tp in _choices(pipeline.tmp_per_stage[stage])}
    )


def check(plan: PlanForm, setting: Setting, pool: dict[str, int]) -> list[str]:
    """List what breaks the rules: every layer once, equal replicas, timed TP within a node, memory, chips, batch."""
    problems, used = [], dict.fromkeys(pool, 0)
    for number, pipeline in enumerate(plan.pipeline_list):
        layers = [layer for stage in pipeline.layers_per_stage for layer in stage]
        if layers != list(range(setting.profile.layers)):
            problems.append(f"pipeline {number}: layers are not 0..{setting.profile.layers - 1} in order")
        if len({*pipeline.dp, *map(len, pipeline.tmp_per_stage)}) != 1:
            problems.append(f"pipeline {number}: data-parallel degrees differ between stages: {pipeline.dp}")
        size = pipeline.mbs or plan.mbs
        for stage, replicas in enumerate(pipeline.tmp_per_stage):
            for chip, tp in _choices(replicas):
                setting.profile.timed(chip, size, tp)
                held = setting.held_bytes(pipeline.layers_per_stage[stage], tp, size, pipeline.num_stages - stage)
                held += PROCESS_BYTES if tp == 1 else PROCESS_BYTES_TP
                if held > setting.chip(chip).memory_bytes:
                    problems.append(f"pipeline {number} stage {stage}: {held:.3g} bytes don't fit on {chip}")
                if tp > setting.chip(chip).per_node:
                    problems.append(f"pipeline {number} stage {stage}: TP {tp} is wider than a node of {chip}")
            for machines, tp in replicas:
                used[machines[0][0]] = used.get(machines[0][0], 0) + tp
    problems += [f"{used[chip]} of {pool.get(chip, 0)} {chip} used" for chip in used if used[chip] > pool.get(chip, 0)]
    samples = sum(
        count * (p.mbs or plan.mbs) * p.dp[0]
        for count, p in zip(microbatch_counts(plan, setting), plan.pipeline_list, strict=True)
    )
    if samples < (plan.gbs or setting.batch):
        problems.append(f"{samples} samples of {plan.gbs or setting.batch} are trained")
    return problems


def _kind(replica: Replica) -> str:
    return replica[0][0][0]


def _choices(replicas: Sequence[Replica]) -> set[tuple[str, int]]:
    return {(_kind(replica), replica[1]) for replica in replicas}


def _send_s(pipeline: PipelineForm, stage: int, other: int, size_bytes: float, setting: Setting) -> float:
    mine, theirs = pipeline.tmp_per_stage[stage], pipeline.tmp_per_stage[other]
    pairs = {(_end(replica), _end(theirs[index % len(theirs)])) for index, replica in enumerate(mine)}
    return max(setting.network.transfer_s(size_bytes, *pair) for pair in pairs)


def _end(replica: Replica) -> Machine:
    chip, chips, zone = replica[0][0]
    return chip, min(replica[1], chips), zone


def _ring_s(weight_bytes: float, replicas: Sequence[Replica], setting: Setting) -> float:
    """Time one ring: neighbours in the order given, the smallest TP degree's share of the layers."""
    share = weight_bytes / min(TP_DIVISOR_MAX, *(tp for _, tp in replicas))
    ends = [(machines[0][0], machines[0][2]) for machines, _ in replicas]
    pairs = set(itertools.pairwise(ends))
    return max((setting.network.reduce_s(share, len(replicas), *pair) for pair in pairs), default=0.0)


def _across_s(weight_bytes: float, by_kind: dict[str, list[Replica]], setting: Setting) -> float:
    """Time the exchange of the pieces that the members of each kind's ring hold, over the slowest pair of kinds."""
    if len(by_kind) < 2:
        return 0.0
    pieces = min(len(r) * min(TP_DIVISOR_MAX, *(tp for _, tp in r)) for r in by_kind.values())
    ends = {(machines[0][0], machines[0][2]) for replicas in by_kind.values() for machines, _ in replicas}
    pairs = itertools.permutations(ends, 2)
    return max(setting.network.reduce_s(weight_bytes / pieces, len(by_kind), *pair) for pair in pairs)


def _holders(plan: PlanForm) -> list[dict[str, list[Replica]]]:
    """Give for every layer its holders by kind of chip, over all pipelines."""
    layers = 1 + max(layer for p in plan.pipeline_list for stage in p.layers_per_stage for layer in stage)
    holders: list[dict[str, list[Replica]]] = [{} for _ in range(layers)]
    for pipeline in plan.pipeline_list:
        for stage, replicas in zip(pipeline.layers_per_stage, pipeline.tmp_per_stage, strict=True):
            for layer in stage:
                for replica in replicas:
                    holders[layer].setdefault(_kind(replica), []).append(replica)
    return holders


def _spans(layers: Sequence[int], holders: Sequence[dict[str, list[Replica]]]) -> list[list[int]]:
    """Cut a stage's layers where the holders change, so that a span's layers share their rings."""
    spans = [[layers[0]]]
    for layer in layers[1:]:
        if {k: list(map(id, v)) for k, v in holders[layer].items()} == {
            k: list(map(id, v)) for k, v in holders[layer - 1].items()
        }:
            spans[-1].append(layer)
        else:
            spans.append([layer])
    return spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured run: what Sailor's simulator predicted, what we do, what was measured."""

    file: str
    iteration_s: float
    sailor_s: float
    measured_s: float
    memory_bytes: float
    sailor_memory_bytes: float
    measured_memory_bytes: float
    suspect: bool


def suspect(file: str) -> bool:
    """Tell whether a measured run is one of those that the data's README doubts."""
    return any(name in file for name in SUSPECTS)


def measured_rows(folder: Path) -> list[Row]:
    """Time the 36 measured runs."""
    settings: dict[str, Setting] = {}
    rows = []
    with (folder / "measured_vs_predicted.csv").open() as file:
        for line in csv.DictReader(file):
            model = MODELS.get(line["model"], line["model"])
            setting = settings.setdefault(model, load_setting(folder, model))
            path = folder / "validation" / line["file"]
            plan = read_plan(path.read_text(), line["file"])
            rows.append(
                Row(
                    file=line["file"],
                    iteration_s=evaluate(plan, setting).iteration_s,
                    sailor_s=float(line["sailor_pred_iter_s"]),
                    measured_s=float(line["real_iter_s"]),
                    memory_bytes=memory_bytes(plan, setting),
                    sailor_memory_bytes=float(line["sailor_pred_max_mem_bytes"]),
                    measured_memory_bytes=float(line["real_max_mem_bytes"]),
                    suspect=suspect(line["file"]),
                )
            )
    return rows


def main(arguments: Sequence[str]) -> int:
    """Print one plan's time, or the comparison with Sailor's own predictions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--data", default="", help="folder with Sailor's data")
    parser.add_argument("--plan", default="", help="time this plan")
    parser.add_argument("--model", default="OPT-350", help="model of --plan")
    options = parser.parse_args(arguments)
    try:
        folder = reference_folder(options.data)
        if options.plan:
            plan = read_plan(Path(options.plan).read_text(), options.plan)
            print(json.dumps(asdict(evaluate(plan, load_setting(folder, options.model, plan.gbs)))))
            return 0
        rows = measured_rows(folder)
    except (ArgosyError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 1)
    result = {
        "runs": len(rows),
        "time_error_max": max(abs(row.iteration_s / row.sailor_s - 1) for row in rows),
        "memory_error_max": max(abs(row.memory_bytes / row.sailor_memory_bytes - 1) for row in rows),
        "rows": [asdict(row) for row in rows],
    }
    if options.json:
        print(json.dumps(result))
        return 0
    for row in rows:
        print(f"{row.file:50} {row.iteration_s:9.4f} s, Sailor {row.sailor_s:9.4f} s, measured {row.measured_s:9.4f} s")
    print(f"largest distance from Sailor's predictions: {result['time_error_max']:.3%}")
    return 0


if __name__ == "__main__":
    start(lambda: main(sys.argv[1:]))
