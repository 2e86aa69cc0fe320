"""What a user asks for: a training job, or any command as a gang (`kind: run`), as `job.yaml` says it.

Pure data with times in seconds and paths as strings; reading the file is `contracts.job_file` and `contracts.run_file`.
The kind `serve` comes later.
"""

from dataclasses import dataclass, field

# A trained vocabulary holds every byte and the end of text; a token beyond the upper bound is hardly ever met.
TRAINED_VOCABULARY_MIN, TRAINED_VOCABULARY_MAX = 257, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """The text to train on.

    files: path or glob (text, .jsonl, .parquet). text_field: the field or column that holds the text.
    tokenizer: a tokenizer.json or a folder that holds one, `bytes`, or `train:N` to train a byte-level BPE of N tokens
    on the spot.
    """

    files: tuple[str, ...]
    text_field: str = "text"
    tokenizer: str = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSpec:
    """How to train. global_batch_size counts sequences per step, whatever the plan."""

    sequence_length: int
    global_batch_size: int
    steps: int
    learning_rate: float = 3e-4
    minimum_learning_rate: float = 0.0
    warmup_steps: int = 0
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    epsilon: float = 1e-8
    clip_norm: float = 1.0
    precision: str = "bf16"
    microbatch_size: int | None = None
    recompute: str | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipsSpec:
    """Which chips the job may have. allow: empty means any. minimum, maximum: chips in all."""

    allow: tuple[str, ...] = ()
    minimum: int = 1
    maximum: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """Where and how often to save. every_s and every_steps: whichever is set; keep: how many stay."""

    to: str
    every_s: float | None = None
    every_steps: int | None = None
    keep: int = 3
    resume: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What to optimise.

    goal: fastest (the shortest step), cheapest (the most tokens for the money) or deadline (the cheapest that ends
    before `deadline`, an ISO date or date-time). power_kw: the chips in use may not draw more at their rated power.
    """

    goal: str = "fastest"
    deadline: str | None = None
    power_kw: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One training job. model: a named config or a path to a config.json (or a folder that holds one and weights)."""

    name: str
    model: str
    data: DataSpec
    train: TrainSpec
    kind: str = "train"
    queue: str = "default"
    priority: int = 0
    chips: ChipsSpec = field(default_factory=ChipsSpec)
    time_limit_s: float | None = None
    objective: Objective = field(default_factory=Objective)
    checkpoint: CheckpointSpec | None = None
    initial_weights: str | None = None
    export_to: str | None = None
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPattern:
    """What a line of a log means. match: a regular expression, searched in each line.

    means: user, infrastructure (a rank that then ends badly is blamed so) or note (nobody is). stop: the ranks
    are ended as soon as it is seen.
    """

    match: str
    means: str = "note"
    stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HangSpec:
    """When a command counts as hung, on all its nodes: an infrastructure failure.

    no_output_for_s: no rank wrote anything for so long. step_pattern: lines that match it are marks of
    steps; no_step_for_s: none came for so long, counted from the first mark.
    """

    no_output_for_s: float | None = None
    step_pattern: str | None = None
    no_step_for_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """A command to run on whole nodes.

    command: of one word, a text for /bin/sh; of several, a program and its arguments. processes_per_node: None: one
    launcher a node (torchrun and its like, which start the processes themselves); a number: so many, each a rank; 0:
    one for each chip. upload: a folder of the submitter that every node gets a copy of; None: nothing.
    working_directory: a folder within the upload, or else one that every node sees; None: the upload, or else an empty
    folder of the attempt's own. restarts: how often the job starts again when its own code fails. stop_grace_s: from
    SIGTERM to SIGKILL.
    """

    command: tuple[str, ...]
    nodes: int = 1
    processes_per_node: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    upload: str | None = None
    restarts: int = 0
    hang: HangSpec = field(default_factory=HangSpec)
    log_patterns: tuple[LogPattern, ...] = ()
    stop_grace_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """Any command as a gang. chips.allow: the chip kinds whose nodes it may have; it takes whole nodes."""

    name: str
    run: RunSpec
    kind: str = "run"
    queue: str = "default"
    priority: int = 0
    chips: ChipsSpec = field(default_factory=ChipsSpec)
    time_limit_s: float | None = None
    version: int = 1


AnyJob = Job | RunJob
