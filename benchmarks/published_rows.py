"""Reads tables of published training runs: what was trained, on what, split how, and how long a step took.

Rows that lack a figure, or whose figures don't fit together, are left out by name. What a source leaves open and a
program must have decided is filled in by the rules in `_split`; it knows nothing of how times are predicted.
"""

import csv
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from argosy.contracts.errors import ArgosyError, BadInputError
from argosy.model.config import read_config
from argosy.model.flops import train_flops_per_token
from argosy.model.named import config_text, named_configs
from argosy.model.shape import ModelShape
from argosy.plan.program import MEGATRON_2022, MEGATRON_CORE, Program

# Which rows belong to which set, by the start or a part of their source.
SETS = {
    "megatron_validated": ("2205.05198",),
    "megatron_sc21": ("Megatron-LM SC21",),
    "megatron_h100": ("Megatron-LM README images/model_table",),
    "llama3": ("Llama 3 paper",),
    "megascale_megatron": ("(Megatron-LM) (stored", "Fig 9 (Megatron-LM)"),
    "megascale": ("(MegaScale) (stored", "Fig 9 (MegaScale)"),
}
# Sets that no curve is fitted on and no constant was chosen by.
HELD_OUT = {"flagperf": ("FlagOpen/FlagPerf",)}
# Whose text says that pipelines are interleaved, while their tables don't say how deep: arXiv 2104.04473, section 5.1;
# arXiv 2407.21783, section 3.3.2; Megatron Core's README, of the same program as the first.
INTERLEAVED = ("megatron_sc21", "llama3", "megatron_h100")
# Table 5 of arXiv 2205.05198 as calculon-ai/calculon @caa4b11 calculon/llm/validation.py repeats it: the halves of the
# eight runs that published.csv lacks, seconds of a step. (model, recompute) -> seconds.
VALIDATED_S = {
    ("megatron-22B", "selective"): 1.10,
    ("gpt3-175B", "full"): 18.13,
    ("turing-530B", "selective"): 37.83,
    ("megatron-1T", "full"): 94.42,
}
SPLIT_COLUMNS = frozenset(("tp", "pp", "dp", "cp", "ep", "interleave", "micro_batch", "global_batch", "n_chips", "seq"))
SHAPE_COLUMNS = frozenset(("layers", "hidden", "heads", "kv_heads", "ffn", "vocab"))
TOLD_COLUMNS = frozenset(("source", "model", "chip", "tokens_per_s", "step_time_s", "tflops_per_chip", "mfu", "note"))
# The chips of the sets by what their names hold, longest first: in the catalogue, and as fits are told apart.
CHIPS = {
    "A100": ("a100-sxm-80gb", "A100"),
    "A800": ("a800-sxm-80gb", "A100"),
    "H100": ("h100-sxm", "H100"),
    "H800": ("h800-sxm", "H100"),
}
FAMILIES = tuple(dict.fromkeys(family for _, family in CHIPS.values()))
PEAK_TFLOPS = {"A100": 312.0, "H100": 989.4}
PRECISIONS = ("", "bf16", "fp16", "amp")
# Programs of 2021 cut no norms along the sequence; those of 2023 on fuse attention and hide part of their exchanges.
MEGATRON_2021 = replace(MEGATRON_2022, name="megatron-2021", sequence_parallel=False)
OVERLAPPED = replace(MEGATRON_CORE, name="overlapped", overlapped=True)
MEMORY_NOTE = re.compile(r"mem (\d+(?:\.\d+)?) ?(?:of|/)")
NOT_STATED = ("n/a", "na", "-", "/", "none", "?")
GATED = ("llama", "mistral", "mixtral", "qwen", "deepseek")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One published run. chip: in the catalogue; family: of chips that are fitted together.

    measured_bytes: peak memory of a chip, where a note has it. dp: replicas x ep. chunks: virtual stages. batch:
    sequences of a step.
    """

    name: str
    group: str
    chip: str
    family: str
    shape: ModelShape
    sequence: int
    batch: int
    chips: int
    tp: int
    pp: int
    dp: int
    cp: int
    ep: int
    chunks: int
    microbatch: int
    recompute: str
    program: Program
    measured_s: float
    measured_bytes: float | None = None

    @property
    def microbatches(self) -> int:
        """How many micro-batches a pipeline takes in a step."""
        return self.batch // (self.dp * self.microbatch)

    @property
    def modern(self) -> bool:
        """Whether gradients are summed beside the backward, and the optimizer is sharded."""
        return self.program.fused_attention


class UnfitError(Exception):
    """A row that can't be predicted, and why."""


def read_runs(path: Path) -> tuple[list[Run], list[str]]:
    """Read the runs of the known sets; and say which rows were left out, and why."""
    runs, skipped = [], []
    with path.open(newline="") as file:
        table = csv.DictReader(file)
        missing = sorted((SPLIT_COLUMNS | SHAPE_COLUMNS | TOLD_COLUMNS) - set(table.fieldnames or ()))
        if missing:
            raise BadInputError(f"{path}: columns {', '.join(missing)} are missing; expected those of published.csv")
        for line, cells in enumerate(table, start=2):
            row = {key: _stated(value) for key, value in cells.items() if key}
            sets = (SETS | HELD_OUT).items()
            group = next((name for name, parts in sets if any(part in row["source"] for part in parts)), "")
            if not group:
                continue
            try:
                runs.append(_run(row, group))
            except UnfitError as reason:
                skipped.append(f"{path.name}:{line} {row['model']}: {reason}")
    return runs + _other_halves(runs), skipped


def _other_halves(runs: list[Run]) -> list[Run]:
    """Make the validated runs that the table lacks: the same splits with the other way of recompute."""
    validated = [run for run in runs if run.group == "megatron_validated"]
    told = {(run.name, run.recompute) for run in validated}
    found = []
    for run in validated:
        other = "full" if run.recompute == "selective" else "selective"
        if (run.name, other) in VALIDATED_S and (run.name, other) not in told:
            program = MEGATRON_2021 if other == "full" else MEGATRON_2022
            measured_s = VALIDATED_S[run.name, other]
            found.append(replace(run, recompute=other, program=program, measured_s=measured_s))
    return found


def _stated(value: str | None) -> str:
    """Give a cell's text, empty where it says that nothing is stated."""
    text = (value or "").strip()
    return "" if text.lower() in NOT_STATED else text


def _number(row: dict[str, str], key: str) -> float:
    """Read a figure that is not negative; 0 where there is none."""
    try:
        value = float(row[key] or 0)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UnfitError(f"{key} is {row[key]!r}, not a number from 0 on")
    return value


def _whole(row: dict[str, str], key: str, default: int = 0) -> int:
    """Read a count from 1 on; default where there is none."""
    value = _number(row, key) if row[key] else default
    if value < 1 or value != int(value):
        raise UnfitError(f"{key} is {row[key]!r}, not a whole number from 1 on")
    return int(value)


def _run(row: dict[str, str], group: str) -> Run:
    family = next((name for name in CHIPS if name in row["chip"]), "")
    if not family:
        raise UnfitError(f"no chip of the sets is named {row['chip'] or 'nothing'}")
    if row.get("precision", "").lower() not in PRECISIONS:
        raise UnfitError(f"trained in {row['precision']}, not in 16 bits")
    needed = ["seq", "global_batch", "n_chips", "tp", "pp"]
    missing = [name for name in needed if not row[name]]
    if missing:
        raise UnfitError(f"{', '.join(missing)} not stated")
    note = row["note"].lower()
    recompute, program = _program(group, family, note)
    run = Run(
        name=row["model"],
        group=group,
        chip=CHIPS[family][0],
        family=CHIPS[family][1],
        shape=_shape(row),
        sequence=_whole(row, "seq"),
        batch=_whole(row, "global_batch"),
        chips=_whole(row, "n_chips"),
        tp=_whole(row, "tp"),
        pp=_whole(row, "pp"),
        dp=1,
        cp=_whole(row, "cp", 1),
        ep=_whole(row, "ep", 1),
        chunks=1,
        microbatch=_whole(row, "micro_batch", 1),
        recompute=recompute,
        program=program,
        measured_s=1.0,
    )
    run = _split(run, row)
    told = MEMORY_NOTE.search(note)
    return replace(run, measured_s=_measured_s(row, run), measured_bytes=float(told[1]) * 2**30 if told else None)


def _program(group: str, family: str, note: str) -> tuple[str, Program]:
    """Say what trained a set: its way of recompute and its program."""
    if "full activation recompute" in note:
        return "full", MEGATRON_2021
    if group == "megascale" or "tp-comm" in note:
        return "none", OVERLAPPED
    if group in HELD_OUT:
        return "selective" if "recompute-activations" in note else "none", MEGATRON_CORE
    if family == "H100":
        return "none", MEGATRON_CORE
    return "selective", MEGATRON_2022


def _shape(row: dict[str, str]) -> ModelShape:
    """Take a named model's shape where it has experts, else make a dense one of the row's sizes."""
    named = next((name for name in named_configs() if name == row["model"].lower()), "")
    if named:
        shape = read_config(*config_text(named))
        if shape.experts:
            return shape
    if _whole(row, "ep", 1) > 1:
        raise UnfitError("has experts whose sizes are not stated, and is no named model")
    missing = [name for name in ("layers", "hidden", "heads") if not row[name]]
    if missing:
        raise UnfitError(f"{', '.join(missing)} not stated")
    hidden, heads = _whole(row, "hidden"), _whole(row, "heads")
    if hidden % heads:
        raise UnfitError(f"{heads} heads do not divide a width of {hidden}")
    gated = row["model"].lower().startswith(GATED)
    return ModelShape(
        name=row["model"],
        family="llama" if gated else "gpt",
        num_layers=_whole(row, "layers"),
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=_whole(row, "kv_heads", heads),
        head_dim=hidden // heads,
        intermediate_size=_whole(row, "ffn", 4 * hidden),
        vocab_size=_whole(row, "vocab", 51200),
        max_positions=_whole(row, "seq"),
        tied_embeddings=not gated,
        activation="swiglu" if gated else "gelu",
    )


def _split(run: Run, row: dict[str, str]) -> Run:
    """Fill in what a row leaves open, and check that its figures go into one another.

    Data parallelism is what chips are left. Where virtual stages are not stated, a pipeline of a source that says that
    it interleaves has as many as its layers and micro-batches allow with stages of equal layers, of which the first and
    the last may lack one for embedding and head; one of another source has one.
    """
    if run.chips % (run.tp * run.cp * run.pp):
        raise UnfitError(f"{run.chips} chips are not a multiple of TP {run.tp} x CP {run.cp} x PP {run.pp}")
    run = replace(run, dp=run.chips // (run.tp * run.cp * run.pp))
    if row["dp"] and _whole(row, "dp") != run.dp:
        raise UnfitError(f"dp is {row['dp']}, the chips left are {run.dp}")
    if run.dp % run.ep:
        raise UnfitError(f"EP {run.ep} does not divide DP {run.dp}")
    if run.batch % (run.dp * run.microbatch) or run.microbatches < 1:
        raise UnfitError(
            f"{run.batch} sequences can't be dealt in micro-batches of {run.microbatch} to {run.dp} pipelines"
        )
    stated = row["interleave"]
    chunks = int(stated) if stated.isdecimal() else _deepest(run) if stated or run.group in INTERLEAVED else 1
    if chunks > 1 and run.microbatches % run.pp:
        raise UnfitError(f"{run.microbatches} micro-batches can't be interleaved over {run.pp} stages")
    run = replace(run, chunks=max(1, chunks))
    if run.pp * run.chunks > run.shape.num_layers:
        raise UnfitError(f"{run.shape.num_layers} layers are too few for {run.pp} stages of {run.chunks} parts")
    return run


def _deepest(run: Run) -> int:
    if run.pp == 1 or run.microbatches % run.pp:
        return 1
    layers = run.shape.num_layers
    slots = next((slots for slots in (layers, layers + 1, layers + 2) if slots % run.pp == 0), run.pp)
    a_place = slots // run.pp
    # A stage of a single layer may not lack it.
    deep = a_place if slots == layers else max((d for d in range(1, a_place) if a_place % d == 0), default=1)
    return max(1, deep)


def _measured_s(row: dict[str, str], run: Run) -> float:
    """Give a row's step time: as stated, else from its rate, else from FLOP/s as the source counts them."""
    tokens = run.batch * run.sequence
    if row["step_time_s"]:
        return _number(row, "step_time_s")
    if row["tokens_per_s"]:
        return tokens / _number(row, "tokens_per_s")
    tflops = _number(row, "tflops_per_chip") or _number(row, "mfu") * PEAK_TFLOPS[run.family]
    if not tflops:
        raise UnfitError("no time, rate or utilisation stated")
    hardware = run.recompute == "full" and "hardware flops" in row["note"].lower()
    try:
        flops = train_flops_per_token(run.shape, run.sequence, "full" if hardware else "none", causal="full")
    except ArgosyError as error:
        raise UnfitError(str(error)) from error
    return tokens * flops / (run.chips * tflops * 1e12)
