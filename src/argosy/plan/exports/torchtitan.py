"""A plan as a configuration of torchtitan: a Python module with a function that gives a `Trainer.Config`.

The names are those of torchtitan 0.3.0, whose configurations are Python; earlier ones were TOML. It must not know
files, nor how the plan was found.
"""

from collections.abc import Mapping

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.exports.grid import Grid, check_vendors, class_notes, expectation, grid_of, headed, ranks_text
from argosy.plan.exports.torchtitan_flavors import Flavor, find_flavor

TOOL = "torchtitan"
VERSION = "torchtitan 0.3.0"
# Ours -> those of torch.distributed.pipelining; its zero bubble with one stage a rank is ZB-H1 (arXiv 2401.10241).
SCHEDULES = {
    "1f1b": "1F1B",
    "gpipe": "GPipe",
    "interleaved": "Interleaved1F1B",
    "zero-bubble": "InterleavedZeroBubble",
}
DTYPES = {"bf16": "bfloat16", "fp32": "float32"}
LLAMA3_KEYS = ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")

# What torchtitan sends without a pipeline more often than plans with these ZeRO stages count.
SENT_OFTEN = {0: "Gradients are summed", 1: "Weights are gathered and gradients summed", 2: "Weights are gathered"}

ENTROPY = "CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec))"

Fields = dict[str, object]
"""Name -> value, or a text of Python where it is a Code."""


class Code(str):
    """A value that is written as it stands, not as a literal."""

    __slots__ = ()


def export_torchtitan(plan: Plan, shape: ModelShape, vendors: Mapping[str, str] | None = None) -> str:
    """Write a module whose `argosy_plan()` makes torchtitan run a plan; raises BadInputError with what it can't say.

    vendors: class -> vendor of its chips, where known. Data, optimizer, steps and checkpoints are left to the user.
    """
    flavor = check_torchtitan(shape, plan.sequence_length)
    grid = grid_of(plan, shape, TOOL)
    check_vendors(grid, vendors or {})
    _check(grid)
    full = bool(any(grid.recomputed("full")))
    fields: Fields = {
        "model_spec": Code("model_spec"),
        "loss": Code(_call("ChunkedLossWrapper.Config", {"loss_fn": Code(ENTROPY)}, 8)),
        "optimizer": Code("default_adamw(lr=3e-4)"),
        "dataloader": Code('HuggingFaceTextDataLoader.Config(dataset="c4")'),
        "training": Code(_call("TrainingConfig", _training(grid), 8)),
        "parallelism": Code(_call("ParallelismConfig", _parallelism(grid), 8)),
        "activation_checkpoint": Code("FullAC.Config()") if full else None,
    }
    return "\n".join([*_head(grid, flavor, full), *_body(shape, flavor, fields)]) + "\n"


def check_torchtitan(shape: ModelShape, _sequence_length: int) -> Flavor:
    """Find torchtitan's model of a shape; raises BadInputError for one that it can't run, whatever the plan."""
    flavor = find_flavor(shape)
    given = shape.rope_scaling or {}
    kind = given.get("rope_type", given.get("type", "default"))
    for refused, what, allowed in (
        (bool(shape.windows), "attention in windows", "models without"),
        (shape.mtp_modules > 0, "multi-token prediction", "models without it (num_nextn_predict_layers: 0)"),
        (kind not in ("default", "llama3", "yarn"), f"rotary positions rescaled by {kind}", "llama3 and yarn"),
    ):
        if refused:
            raise BadInputError(f"{TOOL} can't run {shape.name}: {what}; it takes {allowed}")
    return flavor


def _head(grid: Grid, flavor: Flavor, full: bool) -> list[str]:
    plan = grid.plan
    notes = [*expectation(plan), *class_notes(grid)]
    often = SENT_OFTEN.get(plan.zero_stage)
    if often and grid.places == 1 and grid.microbatches > 1 and grid.dp > 1:
        notes.append(f"{often} in each of {grid.microbatches} micro-batches; the plan counts it once a step.")
    return [
        f'"""{headed(plan)}, for {VERSION}.',
        "",
        f"Where this file can be imported as NAME: torchrun ... -m torchtitan.train --module NAME --config argosy_plan "
        f"on {ranks_text(plan)}.",
        "Optimizer, data, steps and checkpoints are placeholders.",
        *notes,
        '"""',
        "",
        "from dataclasses import replace",
        "",
        "from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss",
        "from torchtitan.components.optimizer import default_adamw",
        "from torchtitan.config import ParallelismConfig, TrainingConfig",
        *(["from torchtitan.distributed.activation_checkpoint import FullAC"] if full else []),
        "from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader",
        "from torchtitan.models.common.config_utils import decoder_vocab_size",
        f"from torchtitan.models.{flavor.module} import model_registry",
        "from torchtitan.trainer import Trainer",
    ]


def _body(shape: ModelShape, flavor: Flavor, fields: Fields) -> list[str]:
    positions = {"": Code("layer.attention.rope"), **_rope(shape)}
    return [
        "",
        "",
        "def layers(first: int, end: int) -> list[str]:",
        '    """Name the layers from first to end, end not included."""',
        '    return [f"layers.{layer}" for layer in range(first, end)]',
        "",
        "",
        "def argosy_plan() -> Trainer.Config:",
        '    """Give the configuration of the plan."""',
        f'    model_spec = model_registry("{flavor.name}")',
        f"    if len(model_spec.model.layers) != {shape.num_layers}:",
        f"        raise ValueError(f\"the plan is for {shape.num_layers} layers, this torchtitan's model has "
        '{len(model_spec.model.layers)}")',
        "    for layer in model_spec.model.layers:",
        f"        layer.attention.rope = {_call('replace', positions, 8)}",
        f"    return {_call('Trainer.Config', fields, 4)}",
    ]


def _training(grid: Grid) -> Fields:
    """Give batch and precision; a pipeline takes all micro-batches as one local batch, else they are accumulated."""
    plan = grid.plan
    at_once = grid.microbatches if grid.places > 1 else 1
    fields: Fields = {
        "local_batch_size": at_once * grid.microbatch_size,
        "global_batch_size": plan.global_batch_size,
        "seq_len": plan.sequence_length,
        "mixed_precision_param": DTYPES[plan.precision],
    }
    # torchtitan refuses its CUDA graphs with pipelines, and with experts that are spread by their default exchange.
    return fields | {"disable_cuda_graphs": True} if grid.places > 1 or grid.ep > 1 else fields


def _parallelism(grid: Grid) -> Fields:
    tp, cp = grid.one_tp()
    sharded = grid.plan.zero_stage > 0
    fields: Fields = {
        "data_parallel_replicate_degree": 1 if sharded else grid.replicas,
        "data_parallel_shard_degree": grid.dp if sharded else grid.ep,
        "fsdp_reshard_after_forward": "always" if grid.plan.zero_stage == 3 else "never",
        "tensor_parallel_degree": tp,
        "context_parallel_degree": cp,
        "expert_parallel_degree": grid.ep,
        "pipeline_parallel_degree": grid.places,
    }
    if grid.places == 1:
        return fields
    last = len(grid.stages) - 1
    parts = [
        ", ".join(
            [
                *(['"tok_embeddings"'] if index == 0 else []),
                f"*layers({stage.first_layer}, {stage.end_layer})",
                *(['"norm", "lm_head"'] if index == last else []),
            ]
        )
        for index, stage in enumerate(grid.stages)
    ]
    lines = "".join(f"\n                [{part}]," for part in parts)
    return fields | {
        "pipeline_parallel_schedule": SCHEDULES[grid.plan.schedule],
        "pipeline_parallel_microbatch_size": grid.microbatch_size,
        "module_fqns_per_model_part": Code(f"[{lines}\n            ]"),
    }


def _rope(shape: ModelShape) -> Fields:
    """Give the rotary positions of the shape, for a flavor's own may be another version's."""
    given = shape.rope_scaling or {}
    kind = given.get("rope_type", given.get("type", "default"))
    fields: Fields = {"theta": shape.rope_theta, "max_seq_len": shape.max_positions}
    if kind == "llama3":
        named = {name: given[name] for name in LLAMA3_KEYS if name in given}
        return fields | {"scaling": "llama", "scaling_factor": float(given["factor"]), **named}
    if kind == "yarn":
        return fields | {
            "scaling": "yarn",
            "rope_factor": float(given["factor"]),
            "beta_fast": float(given.get("beta_fast", 32)),
            "beta_slow": float(given.get("beta_slow", 1)),
            "original_seq_len": given.get("original_max_position_embeddings", 4096),
        }
    return fields | {"scaling": "none"}


def _call(name: str, fields: Fields, indent: int) -> str:
    """Write a call with one argument a line; one without a name comes first."""
    inner = " " * (indent + 4)
    named = {f"{key}=" if key else "": value for key, value in fields.items()}
    lines = [f"{inner}{key}{value if isinstance(value, Code) else _literal(value)}," for key, value in named.items()]
    return "\n".join([f"{name}(", *lines, f"{' ' * indent})"])


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _check(grid: Grid) -> None:
    """Refuse what torchtitan has no words for."""
    plan, shape = grid.plan, grid.shape
    tp, cp = grid.one_tp()
    full = grid.recomputed("full")
    cut = tp * (2 * cp if cp > 1 else 1)
    refusals = (
        (plan.precision not in DTYPES, f"precision {plan.precision}", "bf16 and fp32 here"),
        (plan.reduce_dtype != "fp32", f"gradients summed in {plan.reduce_dtype}", "fp32 alone"),
        (any(grid.recomputed("selective")), "recompute of attention's scores alone", "none, all, or its own choice"),
        (
            any(full) and full != grid.layer_counts,
            f"recompute in {sum(full)} of {shape.num_layers} layers",
            "all layers or none",
        ),
        (
            shape.tied_embeddings and grid.places > 1,
            "a tied embedding on a pipeline",
            "tied embeddings without a pipeline",
        ),
        (grid.ep > 1 and tp > 1, "experts cut by TP within EP", "whole experts on each rank of EP"),
        (
            plan.schedule == "zero-bubble" and grid.microbatches % max(1, grid.microbatches // grid.places) > 0,
            f"zero-bubble with {grid.microbatches} micro-batches through {grid.places} stages",
            "numbers that the rounds torch deals them into, as many as they fill the pipeline, go into",
        ),
        (
            bool(plan.sequence_length % cut),
            f"sequences of {plan.sequence_length} tokens",
            f"those that divide by {cut} (TP x 2 CP)",
        ),
    )
    for refused, what, allowed in refusals:
        if refused:
            raise grid.refused(what, allowed)
    grid.check_cut(tp, pads_vocabulary=False, copies_keys=False)
