"""`argosy model`: what a transformer costs in parameters, FLOPs and bytes, before any chip is chosen.

It reads a configuration, asks the room `model`, and prints; it computes nothing itself.
"""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from argosy.cli.words import counted
from argosy.model.config import read_config
from argosy.model.counts import active_parameters, parameters_by_kind, total_parameters
from argosy.model.flops import forward_flops_per_token, train_flops_per_token
from argosy.model.memory import Split, activation_bytes, boundary_bytes, state_bytes
from argosy.model.named import config_text, named_configs
from argosy.model.numerics import numerics
from argosy.model.shape import ModelShape, trainer_refusal

SEQUENCE_LENGTH_DEFAULT = 8192
SEQUENCE_LENGTH_MAXIMUM = 100_000_000
KIND_TITLES = {"mlp": "MLP", "shared_expert": "shared expert"}

app = typer.Typer(help="Show what a model costs: parameters, FLOPs, bytes.", no_args_is_help=True)


@app.command("list")
def list_models(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the named configurations."""
    shapes = [read_config(*config_text(name)) for name in named_configs()]
    if as_json:
        rows = [{"name": s.name, "family": s.family, "parameters": total_parameters(s)} for s in shapes]
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title, side in (("model", "left"), ("family", "left"), ("parameters", "right"), ("active", "right")):
        table.add_column(title, justify="right" if side == "right" else "left")
    for shape in shapes:
        active, total = active_parameters(shape), total_parameters(shape)
        table.add_row(shape.name, shape.family, f"{total:,}", "" if active == total else f"{active:,}")
    console = Console(highlight=False)
    console.print(table)
    console.print("\n  or give the path of a config.json, or of a folder that holds one")


@app.command()
def show(
    model: Annotated[str, typer.Argument(help="A named configuration, a config.json, or a folder that holds one.")],
    sequence_length: Annotated[
        int | None,
        typer.Option(
            min=1, max=SEQUENCE_LENGTH_MAXIMUM, help="Tokens of a sequence; by default the model's, at most 8192."
        ),
    ] = None,
    precision: Annotated[str, typer.Option(help="What the trainer computes in: bf16 or fp32.")] = "bf16",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a model's parameters, FLOPs per token and bytes."""
    shape = read_config(*config_text(model))
    length = sequence_length or min(shape.max_positions, SEQUENCE_LENGTH_DEFAULT)
    costs = model_costs(shape, length, precision)
    if as_json:
        typer.echo(json.dumps(costs, indent=2))
    else:
        _print(shape, costs)


def model_costs(shape: ModelShape, sequence_length: int, precision: str) -> dict[str, Any]:
    """Gather what `model show` prints: counts, FLOPs per token, and bytes unsplit on one chip.

    The activations are those of one sequence through the whole model.
    """
    kept = numerics(precision)
    split = Split(microbatch_size=1, sequence_length=sequence_length)
    states = [state_bytes(shape, unit, kept) for unit in shape.units]
    activations = {
        way: sum(activation_bytes(shape, unit, kept, split, way) for unit in shape.units) for way in ("none", "full")
    }
    return {
        "model": shape.name,
        "family": shape.family,
        "layers": shape.num_layers,
        "hidden_size": shape.hidden_size,
        "heads": shape.num_heads,
        "key_value_heads": shape.num_kv_heads,
        "vocabulary": shape.vocab_size,
        "tied_embeddings": shape.tied_embeddings,
        "parameters": total_parameters(shape),
        "active_parameters": active_parameters(shape),
        "parameters_by_kind": parameters_by_kind(shape),
        "sequence_length": sequence_length,
        "precision": precision,
        "forward_flops_per_token": sum(forward_flops_per_token(shape, u, sequence_length) for u in shape.units),
        "train_flops_per_token": train_flops_per_token(shape, sequence_length),
        "train_flops_per_token_full_attention": train_flops_per_token(shape, sequence_length, causal="full"),
        "weight_bytes": sum(state.weights for state in states),
        "gradient_bytes": sum(state.gradients for state in states),
        "buffer_bytes": sum(state.buffers for state in states),
        "optimizer_bytes": sum(state.optimizer for state in states),
        "activation_bytes": activations["none"],
        "activation_bytes_recompute_full": activations["full"],
        "boundary_bytes": boundary_bytes(shape, kept, split),
        "trainer_refusal": trainer_refusal(shape),
    }


def _print(shape: ModelShape, costs: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(Text.assemble((shape.name, "bold"), f"   {_describe(shape)}"), soft_wrap=True)
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for row in (*_parameter_rows(costs), ("", "", ""), *_flops_rows(costs), ("", "", ""), *_bytes_rows(costs)):
        table.add_row(*row)
    console.print()
    console.print(table)
    refusal = costs["trainer_refusal"]
    console.print(f"\n  {'the trainer runs it' if refusal is None else Text(refusal)}", soft_wrap=True)


def _describe(shape: ModelShape) -> str:
    groups = "" if shape.num_kv_heads == shape.num_heads else f" ({shape.num_kv_heads} for keys and values)"
    tied = ", tied embeddings" if shape.tied_embeddings else ""
    experts = shape.experts
    routed = f", {experts.count} experts of which a token visits {experts.per_token}" if experts else ""
    return (
        f"{shape.family}, {counted(shape.num_layers, 'layer')} of {shape.hidden_size:,}, "
        f"{counted(shape.num_heads, 'head')}{groups}{routed}, "
        f"vocabulary {shape.vocab_size:,}{tied}"
    )


def _parameter_rows(costs: dict[str, Any]) -> list[tuple[str, str, str]]:
    total, active = costs["parameters"], costs["active_parameters"]
    rows = [("parameters", f"{total:,}", "")]
    for kind, count in costs["parameters_by_kind"].items():
        rows.append((f"  {KIND_TITLES.get(kind, kind)}", f"{count:,}", f"{100 * count / total:.1f} %"))
    if active != total:
        rows.append(("active for a token", f"{active:,}", f"{100 * active / total:.1f} %"))
    return rows


def _flops_rows(costs: dict[str, Any]) -> list[tuple[str, str, str]]:
    length = f"a token in a sequence of {costs['sequence_length']:,}"
    square = "the same with the whole square, as in PaLM's MFU"
    return [
        ("forward", _flops(costs["forward_flops_per_token"]), length),
        ("training", _flops(costs["train_flops_per_token"]), "forward and backward, causal half of attention"),
        ("", _flops(costs["train_flops_per_token_full_attention"]), square),
    ]


def _bytes_rows(costs: dict[str, Any]) -> list[tuple[str, str, str]]:
    state = sum(costs[f"{kind}_bytes"] for kind in ("weight", "gradient", "buffer", "optimizer"))
    return [
        ("state", _size(state), f"in training, before any split, {costs['precision']}"),
        ("  weights", _size(costs["weight_bytes"]), ""),
        ("  gradients", _size(costs["gradient_bytes"]), ""),
        ("  buffers", _size(costs["buffer_bytes"]), "of the gradient exchange and the update"),
        ("  AdamW", _size(costs["optimizer_bytes"]), ""),
        ("activations", _size(costs["activation_bytes"]), "one sequence through all layers, nothing recomputed"),
        ("", _size(costs["activation_bytes_recompute_full"]), "the same with every layer recomputed"),
        ("between layers", _size(costs["boundary_bytes"]), "one sequence, one direction"),
    ]


def _flops(amount: float) -> str:
    return f"{amount / 1e9:,.2f} GFLOPs" if amount >= 1e9 else f"{amount / 1e6:,.2f} MFLOPs"


def _size(amount: int) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if amount >= size:
            return f"{amount / size:,.2f} {unit}"
    return f"{amount} B"
