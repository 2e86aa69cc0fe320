"""A plan as Megatron-LM's arguments, in a bash file to source.

The names are those of Megatron Core 0.19.0. It must not know files, nor how the plan was found.
"""

import re
from collections.abc import Mapping, Sequence

from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.exports.grid import Grid, check_vendors, class_notes, expectation, grid_of, headed, ranks_text
from argosy.plan.exports.model_arguments import Arguments, model_arguments

TOOL = "Megatron-LM"
VERSION = "Megatron Core 0.19.0"
SCHEDULES = ("1f1b", "interleaved")


def export_megatron(plan: Plan, shape: ModelShape, vendors: Mapping[str, str] | None = None) -> str:
    """Write the arguments that make Megatron-LM run a plan; raises BadInputError with what it can't express.

    vendors: class -> vendor of its chips, where known. Data, tokenizer, optimizer and checkpoints are left to the user.
    """
    grid = grid_of(plan, shape, TOOL)
    check_vendors(grid, vendors or {})
    arguments = plan_arguments(grid)
    lines = [
        f"# {headed(plan)}: arguments for {VERSION}, to be sourced by bash:",
        f'#   torchrun ... pretrain_gpt.py "${{MEGATRON_ARGS[@]}}" (with --nnodes and --nproc-per-node for '
        f"{ranks_text(plan)})",
        "# Data, tokenizer, learning rate, steps and checkpoints are yours to add.",
        *(f"# {note}" for note in (*expectation(plan), *class_notes(grid))),
        *_environment(arguments),
        "MEGATRON_ARGS=(",
        *(f"    {argument_line(name, value)}" for name, value in arguments.items()),
        ")",
    ]
    return "\n".join(lines) + "\n"


def check_megatron(shape: ModelShape, sequence_length: int) -> None:
    """Refuse a model that Megatron-LM has no arguments for, whatever the plan; raises BadInputError."""
    model_arguments(shape, sequence_length, TOOL)


def argument_line(name: str, value: str | int | float | bool) -> str:
    """Write one argument as a shell reads it."""
    if value is True:
        return f"--{name}"
    return f"--{name} {value}" if re.fullmatch(r"[\w.-]+", str(value)) else f"--{name} '{value}'"


def plan_arguments(grid: Grid) -> Arguments:
    """Say model and plan in arguments."""
    tp, cp = grid.one_tp()
    _check_divides(grid, tp, cp)
    return {
        **model_arguments(grid.shape, grid.plan.sequence_length, TOOL),
        "tensor-model-parallel-size": tp,
        "pipeline-model-parallel-size": grid.places,
        "context-parallel-size": cp,
        **({"sequence-parallel": True} if tp > 1 else {}),
        **_expert_parallel(grid, tp),
        **_layout(grid),
        "micro-batch-size": grid.microbatch_size,
        "global-batch-size": grid.plan.global_batch_size,
        **_recompute(grid),
        **_sharding(grid),
        **_precision(grid),
    }


def _check_divides(grid: Grid, tp: int, cp: int) -> None:
    """Refuse degrees that Megatron-LM can't cut the model, its experts or its sequences by."""
    grid.check_cut(tp, pads_vocabulary=True, copies_keys=True)
    shape, tokens = grid.shape, grid.plan.sequence_length
    refusals = (
        (cp > 1 and tokens % (2 * cp), f"CP {cp} on {tokens} tokens", "CP degrees whose double divides them"),
        (tokens % (tp * cp), f"TP {tp} on {tokens // cp} tokens", "TP degrees that divide them (sequence parallelism)"),
        (shape.experts and shape.experts.count % grid.ep, f"EP {grid.ep}", "EP degrees that divide the experts"),
    )
    for refused, what, allowed in refusals:
        if refused:
            raise grid.refused(what, allowed)


def layout(counts: Sequence[int], mtp_modules: int = 0) -> str:
    """Write layers per stage as `--pipeline-model-parallel-layout` reads them.

    E embedding, t a layer, m a module for multi-token prediction, L head, | between stages; n like stages are (...|)*n.
    Commas only help the eye.

    >>> layout([3, 4, 4, 4, 2])
    'Et*3|(t*4|)*3,t*2L'
    """
    stages = [f"t*{count}" if count > 1 else "t" * count for count in counts]
    stages[0] = f"E{stages[0]}"
    stages[-1] += f"{'m' * mtp_modules}L"
    text, at = "", 0
    while at < len(stages) - 1:
        like = next(n for n in range(at, len(stages)) if n == len(stages) - 1 or stages[n] != stages[at]) - at
        text += f"({stages[at]}|)*{like}," if like > 1 else f"{stages[at]}|"
        at += like
    return text + stages[-1]


def _layout(grid: Grid) -> Arguments:
    """Choose the plainest arguments that give every stage its layers.

    Megatron-LM's stage i sits on place i mod places, as a plan's does.
    """
    plan, counts = grid.plan, grid.layer_counts
    if plan.schedule not in SCHEDULES and grid.places > 1:
        raise grid.refused(f"schedule {plan.schedule}", "1f1b and, with virtual stages, interleaved")
    even = len(set(counts)) == 1
    if plan.virtual_stages > 1:
        plain: Arguments = {"num-virtual-stages-per-pipeline-rank": plan.virtual_stages}
        return plain if even else {"pipeline-model-parallel-layout": layout(counts, grid.shape.mtp_modules)}
    if even:
        return {}
    if len(set(counts[1:-1])) <= 1:
        return {"decoder-first-pipeline-num-layers": counts[0], "decoder-last-pipeline-num-layers": counts[-1]}
    return {"pipeline-model-parallel-layout": layout(counts, grid.shape.mtp_modules)}


def _expert_parallel(grid: Grid, tp: int) -> Arguments:
    if grid.shape.experts is None:
        return {}
    return {"expert-model-parallel-size": grid.ep, "expert-tensor-parallel-size": tp}


def _recompute(grid: Grid) -> Arguments:
    """Say what is recomputed: Megatron-LM takes one way, and one number of layers a stage."""
    counts = grid.layer_counts
    full, selective = grid.recomputed("full"), grid.recomputed("selective")
    if not any(full) and not any(selective):
        return {}
    if selective == counts:
        return {"recompute-granularity": "selective", "recompute-modules": "core_attn"}
    if full == counts:
        return {"recompute-granularity": "full", "recompute-method": "uniform", "recompute-num-layers": 1}
    most = max(full)
    if any(selective) or full != tuple(min(most, layers) for layers in counts):
        ways = "+".join(
            f"{f or s} {'full' if f else 'selective' if s else 'none'}" for f, s in zip(full, selective, strict=True)
        )
        raise grid.refused(f"recompute by stage {ways}", "one way and one number of layers for all stages")
    return {"recompute-granularity": "full", "recompute-method": "block", "recompute-num-layers": most}


def _sharding(grid: Grid) -> Arguments:
    """Say what is sharded over data-parallel ranks, and that gradients travel during backward, as plans count."""
    if grid.dp * grid.stages[0].cp == 1:
        return {}
    made: Arguments = {"overlap-grad-reduce": True}
    if grid.plan.zero_stage == 0:
        return made
    made |= {"use-distributed-optimizer": True}
    if grid.plan.zero_stage == 1:
        return made
    strategy = "optim_grads" if grid.plan.zero_stage == 2 else "optim_grads_params"
    return made | {
        "overlap-param-gather": True,
        "use-megatron-fsdp": True,
        "data-parallel-sharding-strategy": strategy,
        "ckpt-format": "fsdp_dtensor",
    }


def _precision(grid: Grid) -> Arguments:
    precision, reduced = grid.plan.precision, grid.plan.reduce_dtype
    if precision not in ("fp32", "bf16"):
        raise grid.refused(f"precision {precision}", "fp32 and bf16 here")
    if reduced not in ("fp32", precision):
        raise grid.refused(f"gradients summed in {reduced} beside {precision}", "fp32, or bf16 beside bf16")
    made: Arguments = {"bf16": True} if precision == "bf16" else {}
    return made | {"grad-reduce-in-bf16": True} if reduced == "bf16" else made


def _environment(arguments: Arguments) -> list[str]:
    """Say what Megatron-LM demands of the environment: one queue of kernels where TP or CP overlap, but for FSDP."""
    alone = arguments["tensor-model-parallel-size"] == arguments["context-parallel-size"] == 1
    if alone or "use-megatron-fsdp" in arguments:
        return []
    return ["export CUDA_DEVICE_MAX_CONNECTIONS=1  # needed before Blackwell"]
