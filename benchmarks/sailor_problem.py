"""Turns Sailor's data into the planner's problem, and the planner's mix into a plan in Sailor's JSON form."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from argosy.contracts.errors import BadInputError
from argosy.plan.mix.mix import Mix
from argosy.plan.mix.tables import Carrier, MixProblem, MixTable
from sailor_data import (
    FLOAT_BYTES,
    PROCESS_BYTES,
    PROCESS_BYTES_TP,
    STATE_BYTES,
    TP_DIVISOR_MAX,
    ZONE,
    Setting,
)

# Deeper pipelines than this lost everywhere it was tried; each stage more costs search time.
STAGES_MAX = 12
# From so many stages on, Sailor's first stage waits for its message twice.
LONG_PIPELINE = 3


def mix_problem(setting: Setting, pool: Mapping[str, int]) -> MixProblem:
    """Build the problem for a pool of chips in one zone. Only what was timed and has a network curve may be used."""
    names = tuple(pool)
    for name in names:
        setting.chip(name)
        if name not in setting.profile.chips():
            raise BadInputError(
                f"{setting.profile.model} was not profiled on {name}; profiled: {', '.join(setting.profile.chips())}"
            )
        if name not in setting.network.table[ZONE]:
            raise BadInputError(
                f"no network curve for {name} in {ZONE}; known: {', '.join(setting.network.table[ZONE])}"
            )
    tables = [_table(setting, names, size) for size in setting.profile.microbatch_sizes(names) if size <= setting.batch]
    ends = [(name, ZONE) for name in names]
    return MixProblem(
        counts=tuple(pool.values()),
        batch=setting.batch,
        weight_bytes=np.array(setting.weight_bytes, dtype=float),
        tables=tuple(table for table in tables if table is not None),
        reduce_s=lambda size, members, a, b: setting.network.rings_s(size, members, ends[a], ends[b]),
        first_factor=lambda stages: 1.0 if stages <= LONG_PIPELINE else 2.0,
        last_factor=2.0,
        stages_max=min(STAGES_MAX, setting.profile.layers),
        shares_max=TP_DIVISOR_MAX,
    )


def _table(setting: Setting, names: tuple[str, ...], size: int) -> MixTable | None:
    profile = setting.profile
    carriers = [
        Carrier(chip_class=index, tp=tp)
        for index, name in enumerate(names)
        for tp in profile.degrees(name, size)
        if tp <= setting.chip(name).per_node and str(tp) in setting.network.table[ZONE][name]
    ]
    if not carriers:
        return None
    times = [profile.timed(names[carrier.chip_class], size, carrier.tp) for carrier in carriers]
    sizes = [profile.sized(carrier.tp) for carrier in carriers]
    forward, backward = _messages(setting, [(names[c.chip_class], c.tp, ZONE) for c in carriers], size)
    return MixTable(
        microbatch_size=size,
        carriers=tuple(carriers),
        layer_s=np.array([np.add(row.forward_s, row.backward_s) for row in times]),
        update_s=np.array([row.update_s for row in times]),
        state_bytes=np.array([row.parameters for row in sizes], dtype=float) * STATE_BYTES,
        stored_bytes=np.array([row.stored for row in sizes], dtype=float) * size * FLOAT_BYTES,
        fixed_bytes=np.array([PROCESS_BYTES if carrier.tp == 1 else PROCESS_BYTES_TP for carrier in carriers]),
        limit_bytes=np.array([setting.chip(names[carrier.chip_class]).memory_bytes for carrier in carriers]),
        forward_s=forward,
        backward_s=backward,
    )


def _messages(setting: Setting, ends: list[tuple[str, int, str]], size: int) -> tuple[Any, Any]:
    """Time activations into, and gradients out of, the layer behind each boundary, by (boundary, carrier, next)."""
    outputs = setting.output_bytes
    forward = np.zeros((len(outputs) + 1, len(ends), len(ends)))
    backward = np.zeros_like(forward)
    for boundary in range(1, len(outputs)):
        for i, near in enumerate(ends):
            for j, far in enumerate(ends):
                forward[boundary, i, j] = _send_s(setting, outputs[boundary - 1] * size, near, far)
                backward[boundary, i, j] = _send_s(setting, outputs[boundary] * size, far, near)
    return forward, backward


def _send_s(setting: Setting, size: float, near: tuple[str, int, str], far: tuple[str, int, str]) -> float:
    """Time a message; infinite between machines that nobody measured a curve for."""
    curves = setting.network.table[near[2]][near[0]][str(near[1])][far[2]]
    if str(far[1]) not in curves.get(far[0], {}):
        return float("inf")
    return setting.network.transfer_s(size, near, far)


def sailor_plan(mix: Mix, setting: Setting, pool: Mapping[str, int]) -> dict[str, Any]:
    """Write a mix in Sailor's form; each pipeline adds its own `mbs` and `num_microbatches`."""
    names = tuple(pool)
    pipelines = []
    for part in mix.parts:
        pipeline = part.pipeline
        pipelines.append(
            {
                "num_stages": len(pipeline.ends),
                "layers_per_stage": [
                    list(range(first, end)) for first, end in zip(pipeline.starts, pipeline.ends, strict=True)
                ],
                "tmp_per_stage": [
                    [[[[names[carrier.chip_class], carrier.tp, ZONE]], carrier.tp] for _ in range(part.replicas)]
                    for carrier in pipeline.carriers
                ],
                "dp": [part.replicas] * len(pipeline.ends),
                "mbs": pipeline.microbatch_size,
                "num_microbatches": part.microbatches,
            }
        )
    used = dict.fromkeys(names, 0)
    for part in mix.parts:
        for carrier in part.pipeline.carriers:
            used[names[carrier.chip_class]] += carrier.tp * part.replicas
    return {
        "zone": ZONE,
        "pipeline_list": pipelines,
        "mbs": mix.parts[0].pipeline.microbatch_size,
        "gbs": setting.batch,
        "used_gpus": used,
    }
