"""Reads tables of published training runs: what was trained, on what, split how, and how long a step took.

Rows that lack a figure, or whose figures don't fit together, are left out by name. What a source leaves open and a
program must have decided is filled in by the rules in `_split`; it knows nothing of how times are predicted.
"""

import csv
import io
import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from argosy.contracts.errors import ArgosyError, BadInputError
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.text_file import read_text_file
from argosy.model.config import read_config
from argosy.model.flops import train_flops_per_token
from argosy.model.named import config_text, named_configs
from argosy.model.shape import Experts, ModelShape
from argosy.plan.costs.program import MEGATRON_2022, MEGATRON_CORE, Program

# Which rows belong to which set, by the start or a part of their source.
SETS = {
    "megatron_validated": ("2205.05198",),
    "megatron_sc21": ("Megatron-LM SC21",),
    "megatron_h100": ("Megatron-LM README images/model_table",),
    "llama3": ("Llama 3 paper",),
    "megascale_megatron": ("(Megatron-LM) (stored", "Fig 9 (Megatron-LM)"),
    "megascale": ("(MegaScale) (stored", "Fig 9 (MegaScale)"),
}
# Sets that no curve is fitted on and no constant was chosen by; rows of sources named nowhere are the last's.
HELD_OUT = {
    "flagperf": ("FlagOpen/FlagPerf",),
    "torchtitan": ("pytorch/torchtitan",),
    "llm_foundry": ("mosaicml/llm-foundry",),
    "megatron_bridge": ("NVIDIA-NeMo/Megatron-Bridge",),
    "megatron_strong": ("Megatron-LM README strong scaling",),
    "mindspeed": ("Ascend/MindSpeed-LLM",),
    "sailor_rows": ("eth-easl/sailor",),
    "other": ("",),
}
# Whose text says that pipelines are interleaved, while their tables don't say how deep: arXiv 2104.04473, section 5.1;
# arXiv 2407.21783, section 3.3.2; Megatron Core's README, of the same program as the first.
INTERLEAVED = ("megatron_sc21", "llama3", "megatron_h100")
# Table 5 of arXiv 2205.05198 as calculon-ai/calculon @caa4b11 calculon/llm/validation.py repeats it: the halves of the
# eight runs that published.csv lacks, seconds of a step. (model, recompute) -> seconds. Their splits are read from
# Calculon's execution files.
VALIDATED_S = {
    ("megatron-22B", "selective"): 1.10,
    ("gpt3-175B", "full"): 18.13,
    ("turing-530B", "selective"): 37.83,
    ("megatron-1T", "full"): 94.42,
}
SPLIT_COLUMNS = frozenset(("tp", "pp", "dp", "cp", "ep", "interleave", "micro_batch", "global_batch", "n_chips", "seq"))
SHAPE_COLUMNS = frozenset(("layers", "hidden", "heads", "kv_heads", "ffn", "vocab"))
TOLD_COLUMNS = frozenset(("source", "model", "chip", "tokens_per_s", "step_time_s", "tflops_per_chip", "mfu", "note"))
# Chips by what their names hold, what is part of another's name after it: in the catalogue, and as fits are told apart.
CHIPS = {
    "A100_40GB": ("a100-sxm-40gb", "A100"),
    "A100": ("a100-sxm-80gb", "A100"),
    "A800": ("a800-sxm-80gb", "A100"),
    "H100": ("h100-sxm", "H100"),
    "H800": ("h800-sxm", "H100"),
    "GH200": ("gh200", ""),
    "H200": ("h200-sxm", ""),
    "GB200": ("gb200", ""),
    "GB300": ("gb300", ""),
    "B200": ("b200", ""),
    "B300": ("b300", ""),
    "C500": ("metax-c500", ""),
    "BI-V150": ("iluvatar-bi-v150", ""),
}
FAMILIES = ("A100", "H100")
CATALOGUE = load_catalogue().chips
PRECISIONS = ("bf16", "fp16", "amp")
# Programs of 2021 cut no norms along the sequence; those of 2023 on fuse attention and hide part of their exchanges.
MEGATRON_2021 = replace(MEGATRON_2022, name="megatron-2021", sequence_parallel=False)
OVERLAPPED = replace(MEGATRON_CORE, name="overlapped", overlapped=True)
MEMORY_NOTE = re.compile(r"mem (\d+(?:\.\d+)?) ?(?:of|/)")
# How notes say that layers are computed again, and that weights or gradients are sharded (FSDP).
FULL_NOTE = re.compile(r"act ckpt true|\bac full|full ac\b|full activation recompute")
SELECTIVE_NOTE = re.compile(r"recompute-activations|\bac selective|selective recompute")
ZERO_3_NOTE = re.compile(r"full_shard|fsdp2|fsdp=[1-9]")
ZERO_2_NOTE = re.compile(r"shard_grad_op")
# Models with experts as Megatron-Bridge's tables call them, and one that is no configuration of Argosy's: OpenAI's
# config.json of gpt-oss-120b, whose columns in the table (layers, width, heads, vocabulary) say the same.
NAMES = {
    "deepseekv3": "deepseek-v3",
    "qwen3_30b_a3b": "qwen3-30b-a3b",
    "qwen3_235b_a22b": "qwen3-235b-a22b",
    "gpt oss 120b": "gpt-oss-120b",
}
GPT_OSS = ModelShape(
    name="gpt-oss-120b",
    family="gpt_oss",
    num_layers=36,
    hidden_size=2880,
    num_heads=64,
    num_kv_heads=8,
    head_dim=64,
    intermediate_size=2880,
    vocab_size=201088,
    max_positions=131072,
    tied_embeddings=False,
    qkv_bias=True,
    o_bias=True,
    windows=(128, None) * 18,
    experts=Experts(count=128, per_token=4, intermediate_size=2880, layers=(True,) * 36),
)
NOT_STATED = ("n/a", "na", "-", "/", "none", "?")
GATED = ("llama", "mistral", "mixtral", "qwen", "deepseek")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One published run. chip: in the catalogue; family: of chips that are fitted together, empty for none.

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
    zero_stage: int
    measured_s: float
    measured_bytes: float | None = None

    @property
    def microbatches(self) -> int:
        """How many micro-batches a pipeline takes in a step."""
        return self.batch // (self.dp * self.microbatch)

    @property
    def modern(self) -> bool:
        """Whether gradients are summed beside the backward."""
        return self.program.fused_attention


class UnfitError(Exception):
    """A row that can't be predicted, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A row that was left out: line of the file, and the reason."""

    group: str
    line: int
    model: str
    reason: str


def read_runs(path: Path) -> tuple[list[Run], list[Skipped]]:
    """Read all rows of a table: those that can be predicted, and which were left out, and why."""
    runs, skipped = [], []
    text = read_text_file(path, "table of runs", "; name one like published.csv")
    table = csv.DictReader(io.StringIO(text, newline=""))
    missing = sorted((SPLIT_COLUMNS | SHAPE_COLUMNS | TOLD_COLUMNS) - set(table.fieldnames or ()))
    if missing:
        raise BadInputError(f"{path}: columns {', '.join(missing)} are missing; expected those of published.csv")
    for line, cells in enumerate(table, start=2):
        row = {key: _stated(value) for key, value in cells.items() if key}
        group = _group(row["source"])
        try:
            runs.append(_run(row, group))
        except UnfitError as reason:
            skipped.append(Skipped(group=group, line=line, model=row["model"], reason=str(reason)))
    return runs, skipped


def _group(source: str) -> str:
    return next(name for name, parts in (SETS | HELD_OUT).items() if any(part in source for part in parts))


def other_halves(runs: list[Run], calculon: Path) -> list[Run]:
    """Make the validated runs that the reference table lacks, split as Calculon's execution files say.

    calculon: the folder of the reference data; what it has no file for is left out.
    """
    told = {(run.name, run.recompute): run for run in runs if run.group == "megatron_validated"}
    found = []
    for (name, recompute), measured_s in VALIDATED_S.items():
        path = calculon / "seqsel" / f"{name}_{'full' if recompute == 'full' else 'seqsel'}.json"
        like = next((run for (model, _), run in told.items() if model == name), None)
        if (name, recompute) in told or like is None or not path.is_file():
            continue
        split = json.loads(path.read_text())
        found.append(
            replace(
                like,
                recompute=recompute,
                program=MEGATRON_2021 if recompute == "full" else MEGATRON_2022,
                measured_s=measured_s,
                batch=split["batch_size"],
                chips=split["num_procs"],
                tp=split["tensor_par"],
                pp=split["pipeline_par"],
                dp=split["data_par"],
                chunks=split["pipeline_interleaving"],
                microbatch=split["microbatch_size"],
            )
        )
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
    if group == "sailor_rows":
        raise UnfitError("no layer shapes of its model as it was run; scored from its own files as sailor_clean")
    chip = _chip(row["chip"])
    _check_precision(row.get("precision", ""), group)
    needed = ["seq", "global_batch", "n_chips", "tp", "pp"]
    missing = [name for name in needed if not row[name]]
    if missing:
        raise UnfitError(f"{', '.join(missing)} not stated")
    note = row["note"].lower()
    recompute, program = _program(group, chip[1], note)
    run = Run(
        name=row["model"],
        group=group,
        chip=chip[0],
        family=chip[1],
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
        zero_stage=_zero_stage(group, program, note),
        measured_s=1.0,
    )
    run = _split(run, row)
    told = MEMORY_NOTE.search(note)
    return replace(run, measured_s=_measured_s(row, run), measured_bytes=float(told[1]) * 2**30 if told else None)


def _chip(name: str) -> tuple[str, str]:
    """Find a chip in the catalogue, and its family."""
    found = next((chip for part, chip in CHIPS.items() if part in name.upper()), None)
    if found is None or "not named" in name.lower():
        raise UnfitError(f"no chip of the catalogue is named {name or 'nothing'}")
    return found


def _check_precision(told: str, group: str) -> None:
    """Refuse what was not trained in 16 bits; MegaScale's figure, of a system in 16 bits, repeats no precision."""
    precision = told.lower().removeprefix("amp_")
    if not precision and group not in SETS:
        raise UnfitError("precision not stated")
    if precision and precision not in PRECISIONS:
        raise UnfitError(f"trained in {told}, not in 16 bits")


def _program(group: str, family: str, note: str) -> tuple[str, Program]:
    """Say what trained a row: its way of recompute and its program. docs/costs.md has this as a table."""
    if group in HELD_OUT:
        recompute = "full" if FULL_NOTE.search(note) else "selective" if SELECTIVE_NOTE.search(note) else "none"
        return recompute, OVERLAPPED if "tp-comm" in note else MEGATRON_CORE
    if FULL_NOTE.search(note):
        return "full", MEGATRON_2021
    if group == "megascale" or "tp-comm" in note:
        return "none", OVERLAPPED
    if family == "H100":
        return "none", MEGATRON_CORE
    return "selective", MEGATRON_2022


def _zero_stage(group: str, program: Program, note: str) -> int:
    """Say what is sharded: by FSDP as a note says, else the optimizer by programs since Megatron Core."""
    if group in HELD_OUT and ZERO_3_NOTE.search(note):
        return 3
    if group in HELD_OUT and ZERO_2_NOTE.search(note):
        return 2
    return 1 if program.fused_attention else 0


def _shape(row: dict[str, str]) -> ModelShape:
    """Take a named model's shape where it has experts, else make a dense one of the row's sizes."""
    told = row["model"].lower()
    plain = NAMES.get(told.split(" (")[0], told)
    if plain == GPT_OSS.name:
        return GPT_OSS
    if plain in named_configs():
        shape = read_config(*config_text(plain))
        if shape.experts:
            return replace(shape, mtp_modules=0) if "w/o mtp" in told else shape
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
    if run.zero_stage > 1 and run.pp > 1:
        raise UnfitError(f"ZeRO-{run.zero_stage} beside a pipeline, which no plan has")
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
    tflops = _number(row, "tflops_per_chip") or _number(row, "mfu") * CATALOGUE[run.chip].tflops["bf16"]
    if not tflops:
        raise UnfitError("no time, rate or utilisation stated")
    hardware = run.recompute == "full" and "hardware flops" in row["note"].lower()
    try:
        flops = train_flops_per_token(run.shape, run.sequence, "full" if hardware else "none", causal="full")
    except ArgosyError as error:
        raise UnfitError(str(error)) from error
    return tokens * flops / (run.chips * tflops * 1e12)
