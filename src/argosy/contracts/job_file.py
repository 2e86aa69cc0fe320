"""Reading `job.yaml`: its keys, what each allows, and how they become a `Job`.

All problems of a file are reported at once with their places; `--set key=value` settings count as part of the file. It
must not know whether a model, a chip or a path exists: that is checked by whoever opens them.
"""

import datetime
import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from argosy.contracts.documents import Document, Section, override, problems_error, read_document, validate
from argosy.contracts.errors import BadInputError
from argosy.contracts.explain import nearest
from argosy.contracts.job import (
    TRAINED_VOCABULARY_MAX,
    TRAINED_VOCABULARY_MIN,
    CheckpointSpec,
    ChipsSpec,
    DataSpec,
    Job,
    Objective,
    TrainSpec,
)
from argosy.contracts.paths import STEP_MAX
from argosy.contracts.units import Count, DurationS, PowerKw, Switch, parse_count, parse_duration_s, show

# Far above any real job; keeps products of two counts within 64 bits.
COUNT_MAX = 10**9

Positive = Annotated[Count, Field(ge=1, le=COUNT_MAX)]
Steps = Annotated[Count, Field(ge=0, le=STEP_MAX)]
Text = Annotated[str, Field(min_length=1)]
Fraction = Annotated[float, Field(ge=0, lt=1)]

GOALS = ("fastest", "cheapest")
# What others call the goals; told as a hint, so that every file says it in one way.
OTHER_GOALS = {
    "speed": "fastest",
    "throughput": "fastest",
    "cost": "cheapest",
    "price": "cheapest",
    "tokens_per_dollar": "cheapest",
    "efficient": "cheapest",
}


def _one_or_many(value: Any) -> Any:
    """Let one text stand for a list of one."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


Texts = Annotated[tuple[Text, ...], BeforeValidator(_one_or_many)]


def _named_chips(value: Any) -> Any:
    """Refuse an empty list, which would allow no chip; leaving the key out allows any."""
    if isinstance(value, list | tuple) and not value:
        raise BadInputError("got []; name at least one chip, or leave the key out to allow any")
    return value


def _checked_name(value: Any) -> Any:
    """Refuse names that can't be a folder's name."""
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", value):
        raise BadInputError(f"got {show(value)}; write 1 to 63 letters, digits, dots, dashes or underscores")
    return value


ChipNames = Annotated[Texts, BeforeValidator(_named_chips)]
JobName = Annotated[str, BeforeValidator(_checked_name)]


def _checked_tokenizer(value: Any) -> Any:
    """Refuse tokenizers that are neither `bytes`, `train:N` nor a path: one has a slash or ends in .json."""
    allowed = "write bytes, train:4096, or the path of a tokenizer.json or of a folder that holds one, such as ./gpt2"
    if not isinstance(value, str):
        return value
    if value.startswith("train:"):
        tokens = parse_count(value.removeprefix("train:"))
        if not TRAINED_VOCABULARY_MIN <= tokens <= TRAINED_VOCABULARY_MAX:
            allowed = f"from {TRAINED_VOCABULARY_MIN:,} (all bytes and the end of text) to {TRAINED_VOCABULARY_MAX:,}"
            raise BadInputError(f"got {show(value)}; write a number {allowed}")
        return f"train:{tokens}"
    if value != "bytes" and "/" not in value and not value.endswith(".json"):
        near = nearest(value, ("bytes", "train"))
        raise BadInputError(f"got {show(value)}; " + (f"did you mean {near[0]}? " if near else "") + allowed)
    return value


def _objective_keys(value: Any) -> Any:
    """Let a goal's name stand for the mapping of its keys: `fastest` for `{goal: fastest}`."""
    if isinstance(value, dict | ObjectiveSection):
        return value
    if value in GOALS:
        return {"goal": value}
    near = nearest(value, (*GOALS, *OTHER_GOALS)) if isinstance(value, str) else ()
    hint = f"did you mean {OTHER_GOALS.get(near[0], near[0])}? " if near else ""
    allowed = "write fastest, cheapest, {deadline: 2026-12-24} or {power: 500kW}"
    raise BadInputError(f"got {show(value)}; {hint}{allowed}")


def _checked_date(value: Any) -> Any:
    """Refuse what is no ISO date; YAML leaves dates as text."""
    try:
        datetime.datetime.fromisoformat(str(value))
    except ValueError as error:
        text = f"got {show(value)}; write a date such as 2026-12-24 or 2026-12-24T18:00"
        raise BadInputError(text) from error
    return str(value)


def _parsed_every(value: Any) -> tuple[float | None, int | None]:
    """Read how often to save, `10m` or `50 steps`, as (seconds, steps) of which one is set."""
    if not isinstance(value, str):
        raise BadInputError(f"got {show(value)} without a unit; write 10m or 50 steps")
    found = re.fullmatch(r"\s*(\S+)\s*steps?\s*", value)
    every_s, every_steps = (None, parse_count(found[1])) if found else (parse_duration_s(value), None)
    if not (every_s or every_steps):
        raise BadInputError(f"must be more than 0, got {show(value)}")
    return every_s, every_steps


class ObjectiveSection(Section):
    """The keys of `objective:`, of which a bare `fastest` or `cheapest` is the goal."""

    OTHER_NAMES: ClassVar = {
        "before": "deadline",
        "until": "deadline",
        "power_cap": "power",
        "power_kw": "power",
        "max_power": "power",
        "optimise": "goal",
        "optimize": "goal",
    }

    goal: Literal["fastest", "cheapest"] | None = None
    deadline: Annotated[str | None, BeforeValidator(_checked_date)] = None
    power: PowerKw | None = None


class DataSection(Section):
    """The keys of `data:`."""

    OTHER_NAMES: ClassVar = {"path": "files", "paths": "files", "column": "text_field"}

    files: Annotated[Texts, Field(min_length=1)]
    text_field: Text = "text"
    tokenizer: Annotated[str, BeforeValidator(_checked_tokenizer)] = "bytes"


class TrainSection(Section):
    """The keys of `train:`."""

    OTHER_NAMES: ClassVar = {
        "lr": "learning_rate",
        "min_lr": "minimum_learning_rate",
        "batch_size": "global_batch_size",
        "global_batch": "global_batch_size",
        "micro_batch_size": "microbatch_size",
        "seq_len": "sequence_length",
        "seq_length": "sequence_length",
        "max_steps": "steps",
        "iterations": "steps",
        "warmup": "warmup_steps",
        "dtype": "precision",
        "grad_clip": "clip_norm",
        "eps": "epsilon",
    }

    sequence_length: Positive
    global_batch_size: Positive
    steps: Annotated[Steps, Field(ge=1)]
    learning_rate: Annotated[float, Field(gt=0)] = 3e-4
    minimum_learning_rate: Annotated[float, Field(ge=0)] = 0.0
    warmup_steps: Steps = 0
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    betas: tuple[Fraction, Fraction] = (0.9, 0.95)
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    precision: Literal["fp32", "bf16"] = "bf16"
    microbatch_size: Positive | None = None
    recompute: Literal["none", "full"] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


class ChipsSection(Section):
    """The keys of `chips:`."""

    OTHER_NAMES: ClassVar = {"minimum": "min", "maximum": "max", "kinds": "allow"}

    allow: ChipNames = ()
    min: Positive = 1
    max: Positive | None = None


class CheckpointSection(Section):
    """The keys of `checkpoint:`."""

    OTHER_NAMES: ClassVar = {"directory": "to", "path": "to", "interval": "every"}

    to: Text
    every: Annotated[tuple[float | None, int | None], BeforeValidator(_parsed_every)] = (None, None)
    keep: Positive = 3
    resume: Switch = True


class JobFile(Section):
    """The keys of `job.yaml` for `kind: train`."""

    OTHER_NAMES: ClassVar = {"time": "time_limit", "weights": "initial_weights", "export": "export_to"}

    kind: Literal["train"] = "train"
    name: JobName
    queue: Text = "default"
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    model: Text
    data: DataSection
    train: TrainSection
    chips: ChipsSection = ChipsSection()
    time_limit: DurationS | None = None
    objective: Annotated[ObjectiveSection, BeforeValidator(_objective_keys)] = ObjectiveSection()
    checkpoint: CheckpointSection | None = None
    initial_weights: Text | None = None
    export_to: Text | None = None


def read_job(text: str, source: str, overrides: Sequence[str] = ()) -> Job:
    """Read a job from the text of `job.yaml`; overrides are `train.steps=5` as given to `--set`.

    Raises BadInputError with one line for each problem: its place (file:line:column or the flag), key, the value got
    and what is allowed.
    """
    document = override(read_document(text, source), overrides)
    kind = document.value.get("kind", "train")
    if kind == "run":
        raise document.error(("kind",), "this command takes `kind: train` only; `argosy submit` runs commands, too")
    if kind == "serve":
        raise document.error(("kind",), "this version has train and run; serve is planned and refused until then")
    content = validate(document, JobFile)
    problems = _contradictions(content, document)
    if problems:
        raise problems_error(problems)
    return _to_job(content)


def _contradictions(content: JobFile, document: Document) -> list[str]:
    """Find keys that are right alone but not together."""
    train, chips, problems = content.train, content.chips, []
    if train.minimum_learning_rate > train.learning_rate:
        text = f"must not exceed learning_rate {train.learning_rate:g}, got {train.minimum_learning_rate:g}"
        problems.append(document.problem(("train", "minimum_learning_rate"), text))
    if train.warmup_steps > train.steps:
        text = f"must not exceed steps {train.steps:,}, got {train.warmup_steps:,}"
        problems.append(document.problem(("train", "warmup_steps"), text))
    if train.microbatch_size is not None and train.global_batch_size % train.microbatch_size:
        text = f"must divide global_batch_size {train.global_batch_size:,}, got {train.microbatch_size:,}"
        problems.append(document.problem(("train", "microbatch_size"), text))
    if chips.max is not None and chips.max < chips.min:
        problems.append(document.problem(("chips", "max"), f"must be at least min {chips.min:,}, got {chips.max:,}"))
    if content.objective.goal == "fastest" and content.objective.deadline is not None:
        text = "fastest leaves a deadline nothing to choose; leave goal out for the cheapest plan that is in time"
        problems.append(document.problem(("objective", "goal"), text))
    return problems


def _to_objective(section: ObjectiveSection) -> Objective:
    """Turn the checked section into the contract; a deadline asks for the cheapest plan that meets it."""
    goal = "deadline" if section.deadline is not None else section.goal or "fastest"
    return Objective(goal=goal, deadline=section.deadline, power_kw=section.power)


def _to_job(content: JobFile) -> Job:
    """Turn the checked file into the contract."""
    checkpoint = content.checkpoint
    return Job(
        name=content.name,
        model=content.model,
        data=DataSpec(**content.data.model_dump()),
        train=TrainSpec(**content.train.model_dump()),
        queue=content.queue,
        priority=content.priority,
        chips=ChipsSpec(allow=content.chips.allow, minimum=content.chips.min, maximum=content.chips.max),
        time_limit_s=content.time_limit,
        objective=_to_objective(content.objective),
        checkpoint=None
        if checkpoint is None
        else CheckpointSpec(
            to=checkpoint.to,
            every_s=checkpoint.every[0],
            every_steps=checkpoint.every[1],
            keep=checkpoint.keep,
            resume=checkpoint.resume,
        ),
        initial_weights=content.initial_weights,
        export_to=content.export_to,
    )
