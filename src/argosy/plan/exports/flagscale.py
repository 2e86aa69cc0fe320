"""A plan as FlagScale's training configuration: heterogeneous process meshes in YAML.

The names are those of FlagScale 0.9.0 (`flagscale/train/arguments.py`, `flagscale/train/hetero`): a mesh is
[TP, CP, EP, DP, PP], meshes are consecutive parts of one pipeline, and each has one kind of chip. It must
not know files.
"""

from collections.abc import Mapping

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan, Stage
from argosy.model.shape import ModelShape
from argosy.plan.exports.grid import Grid, expectation, grid_of, headed, vendors_of
from argosy.plan.exports.model_arguments import Arguments, model_arguments

TOOL = "FlagScale"
VERSION = "FlagScale 0.9.0"

IMPLIED = ("rope-type",)
"""Arguments of Megatron-LM that its version of July 2025, on which FlagScale 0.9.0 builds, takes for granted."""

Mesh = tuple[str, tuple[int, int, int, int, int]]
"""A name of a kind of chip, and [TP, CP, EP, DP, PP]."""


def export_flagscale(plan: Plan, shape: ModelShape, vendors: Mapping[str, str] | None = None) -> str:
    """Write the train configuration that makes FlagScale run a plan; raises BadInputError with what it can't express.

    vendors: class -> vendor of its chips, where known: several need communication through the hosts' memory. Data,
    tokenizer, optimizer and checkpoints are left to the user.
    """
    grid = grid_of(plan, shape, TOOL)
    said = check_flagscale(shape, plan.sequence_length)
    _check(grid)
    meshes = _meshes(grid)
    mixed = len(vendors_of(grid, vendors or {})) > 1
    system: dict[str, object] = {
        "tensor_model_parallel_size": meshes[0][1][0],
        "pipeline_model_parallel_size": grid.places,
        **({"sequence_parallel": True} if any(mesh[0] > 1 for _, mesh in meshes) else {}),
        **({"use_distributed_optimizer": True} if plan.zero_stage == 1 else {}),
        **({"overlap_grad_reduce": True} if grid.dp > 1 else {}),
        "precision": _precision(grid),
        **_recompute(grid),
        "hetero": _hetero(grid, meshes, mixed),
    }
    model: Arguments = {
        "use-mcore-models": True,
        **{name: value for name, value in said.items() if name not in IMPLIED},
        "micro-batch-size": grid.microbatch_size,
        "global-batch-size": plan.global_batch_size,
    }
    lines = [
        f"# {headed(plan)}: the train configuration of {VERSION}.",
        "# Add data, tokenizer, optimizer and checkpoints. Each node has its own hetero_current_device_type: give it",
        "# by `type=` in the hostfile.",
        *(f"# {note}" for note in expectation(plan)),
        "system:",
        *_yaml(system, 1),
        "",
        "model:",
        *_yaml({name.replace("-", "_"): value for name, value in model.items()}, 1),
    ]
    return "\n".join(lines) + "\n"


def check_flagscale(shape: ModelShape, sequence_length: int) -> Arguments:
    """Say a model in arguments; raises BadInputError for one that FlagScale has none for, whatever the plan."""
    said = model_arguments(shape, sequence_length, TOOL)
    for refused, what in (
        (any(shape.windows), "attention in windows"),
        (
            shape.latent is not None and shape.rope_scaling is None,
            "latent attention whose positions are not rescaled by YaRN",
        ),
    ):
        if refused:
            raise BadInputError(f"{TOOL} has no arguments for {shape.name}: {what} (its Megatron-LM is of July 2025)")
    return said


def _check(grid: Grid) -> None:
    """Refuse what meshes have no words for."""
    plan, stages = grid.plan, grid.stages
    kinds = [set(names) for names in grid.classes]
    several = next((place for place, names in enumerate(kinds) if len(names) > 1), 0)
    degrees = {stage.tp for stage in (stages[0], stages[-1])}
    refusals = (
        (plan.virtual_stages > 1, f"{plan.virtual_stages} virtual stages", "one stage a rank with meshes"),
        (plan.schedule != "1f1b" and grid.places > 1, f"schedule {plan.schedule}", "1f1b with meshes"),
        (any(stage.cp > 1 for stage in stages), "context parallelism", "CP 1 with meshes"),
        (plan.zero_stage > 1, f"ZeRO {plan.zero_stage}", "ZeRO 0 and 1 with meshes"),
        (
            len(kinds[several]) > 1,
            f"stage {several + 1} on {' in some replicas, on '.join(sorted(kinds[several]))} in others",
            "one kind of chip for a stage in all replicas",
        ),
        (
            (plan.tied_embeddings or grid.shape.mtp_modules > 0) and len(degrees) > 1,
            f"embedding and head, which share weights, on stages of TP {' and '.join(map(str, sorted(degrees)))}",
            "one TP degree for the first and last stage then",
        ),
    )
    for refused, what, allowed in refusals:
        if refused:
            raise grid.refused(what, allowed)
    for tp in sorted({stage.tp for stage in stages}):
        grid.check_cut(tp, pads_vocabulary=True, copies_keys=False)


def _meshes(grid: Grid) -> list[Mesh]:
    """Join consecutive stages of one class and one layout to meshes."""
    meshes: list[Mesh] = []
    for stage in grid.stages:
        kind, (tp, cp, ep, dp, pp) = _mesh(stage, grid)
        if meshes and meshes[-1][0] == kind and meshes[-1][1][:4] == (tp, cp, ep, dp):
            pp += meshes.pop()[1][4]
        meshes.append((kind, (tp, cp, ep, dp, pp)))
    return _named_apart(meshes)


def _mesh(stage: Stage, grid: Grid) -> Mesh:
    return stage.chip_class.replace("/", "-"), (stage.tp, stage.cp, stage.ep, grid.dp, 1)


def _named_apart(meshes: list[Mesh]) -> list[Mesh]:
    """Name meshes of one kind apart where another kind lies between, for FlagScale sorts ranks by kind."""
    named: list[Mesh] = []
    for index, (kind, mesh) in enumerate(meshes):
        if index and meshes[index - 1][0] == kind:
            name = named[-1][0]
        else:
            times = sum(
                other == kind and (not at or meshes[at - 1][0] != kind) for at, (other, _) in enumerate(meshes[:index])
            )
            name = f"{kind}-{times + 1}" if times else kind
        named.append((name, mesh))
    return named


def _hetero(grid: Grid, meshes: list[Mesh], mixed: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "enable_hetero": True,
        **({"hetero_use_cpu_communication": True} if mixed else {}),
        "hetero_pipeline_layer_split": list(grid.layer_counts),
        "hetero_process_meshes": [degree for _, mesh in meshes for degree in mesh],
        "hetero_device_types": [name for name, _ in meshes],
        "hetero_current_device_type": meshes[0][0],
        "standalone_embedding_stage": False,
    }
    if grid.shape.experts:
        fields["expert_tensor_parallel_size_per_process_mesh"] = [mesh[0] for _, mesh in meshes]
    return fields


def _precision(grid: Grid) -> dict[str, object]:
    precision, reduced = grid.plan.precision, grid.plan.reduce_dtype
    if precision not in ("fp32", "bf16") or reduced not in ("fp32", precision):
        raise grid.refused(f"precision {precision} with gradients in {reduced}", "fp32 and bf16, gradients in either")
    if precision == "fp32":
        return {}
    return (
        {"bf16": True, "accumulate_allreduce_grads_in_fp32": True}
        if reduced == "fp32"
        else {
            "bf16": True,
            "grad_reduce_in_bf16": True,
        }
    )


def _recompute(grid: Grid) -> dict[str, object]:
    """Say what is recomputed, by stage where stages differ; lists are [stages, micro-batches, value]."""
    counts, full, selective = grid.layer_counts, grid.recomputed("full"), grid.recomputed("selective")
    if not any(full) and not any(selective):
        return {}
    if selective == counts:
        return {"recompute": {"recompute_granularity": "selective"}}
    if any(selective):
        raise grid.refused("selective recompute in a part of the layers", "selective in all layers, or full by stage")
    fields: dict[str, object] = {
        "recompute_granularity": "full",
        "recompute_method": "uniform",
        "recompute_num_layers": 1,
    }
    if full == counts:
        return {"recompute": fields}
    # 0 turns full recompute off in a stage; method 0 is uniform (all layers, one at a time), 1 block (so many layers).
    blocks = [int(0 < some < layers) for some, layers in zip(full, counts, strict=True)]
    lists = {
        "recompute_granularity_per_stage_micro_batch": [int(some > 0) for some in full],
        "recompute_method_per_stage_micro_batch": blocks,
        "recompute_num_layers_per_stage_micro_batch": [
            s if block else 1 for s, block in zip(full, blocks, strict=True)
        ],
    }
    many = grid.microbatches
    return {"recompute": fields | {name: [[1, many, value] for value in values] for name, values in lists.items()}}


def _yaml(values: Mapping[str, object], level: int) -> list[str]:
    """Write nested tables as YAML, lists in one line but for lists of lists."""
    lines: list[str] = []
    for name, value in values.items():
        if value == {}:
            continue
        start = f"{'  ' * level}{name}:"
        if isinstance(value, dict):
            lines += [start, *_yaml(value, level + 1)]
        elif isinstance(value, list) and value and isinstance(value[0], list):
            lines += [start, *(f"{'  ' * (level + 1)}- {item}" for item in value)]
        else:
            lines.append(f"{start} {_scalar(value)}")
    return lines


def _scalar(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_scalar(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # YAML 1.1 takes 1e-05 for text.
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return f'"{value}"' if isinstance(value, str) else str(value)
