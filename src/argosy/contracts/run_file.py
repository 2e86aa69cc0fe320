"""Reading `job.yaml` of `kind: run`: its keys and what each allows; and telling the kinds of jobs apart.

As `contracts.job_file` does for `kind: train`: all problems at once, with their places. It must not know whether a
program, a chip or a folder exists: that is checked by whoever runs it.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import BeforeValidator, Field

from argosy.contracts import codec
from argosy.contracts.documents import Document, Section, override, problems_error, read_document, validate
from argosy.contracts.errors import BadInputError
from argosy.contracts.job import AnyJob, ChipsSpec, HangSpec, Job, LogPattern, RunJob, RunSpec
from argosy.contracts.job_file import ChipNames, JobName, Positive, Text, read_job
from argosy.contracts.units import Count, DurationS, Switch, parse_count, show

RESTARTS_MAX = 1000
PROCESSES_MAX = 4096
PATTERNS_MAX = 32
PATTERN_CHARACTERS_MAX = 500
VARIABLES_MAX = 1000
OURS = "ARGOSY_"
LAUNCHER, CHIPS = "launcher", "chips"
DEFAULT_GRACE_S = 10.0


def _command(value: Any) -> Any:
    """Read a command: a text for the shell stands for a list of one."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) for word in words):
        raise BadInputError(f"got {show(value)}; write a text for the shell, or a list of a program and its arguments")
    if not words[0].strip() or any("\0" in word for word in words):
        raise BadInputError(f"got {show(value)}; write what is to be run, such as: torchrun train.py")
    return tuple(words)


def _environment(value: Any) -> Any:
    """Read environment variables: names of letters, digits and underscores, with texts or numbers."""
    if not isinstance(value, dict):
        raise BadInputError(f"got {show(value)}; write a mapping, such as {{NCCL_DEBUG: WARN}}")
    if len(value) > VARIABLES_MAX:
        raise BadInputError(f"has {len(value):,} variables; at most {VARIABLES_MAX:,} are allowed")
    return {_variable(name): _variable_text(str(name), text) for name, text in value.items()}


def _variable(name: Any) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise BadInputError(f"got the name {show(name)}; write letters, digits and underscores")
    if name.startswith(OURS):
        raise BadInputError(f"got the name {name}; names that begin with {OURS} are set by Argosy itself")
    return name


def _variable_text(name: str, text: Any) -> str:
    if isinstance(text, bool) or not isinstance(text, str | int | float) or "\0" in str(text):
        raise BadInputError(f'{name} is {show(text)}; write a text or a number, such as {name}: "1"')
    return str(text)


def _processes(value: Any) -> Any:
    """Read how many processes a node has: `launcher` is None, `chips` is 0."""
    if value == LAUNCHER:
        return None
    if value == CHIPS:
        return 0
    count = parse_count(value)
    if not 1 <= count <= PROCESSES_MAX:
        raise BadInputError(f"got {show(value)}; write {LAUNCHER}, {CHIPS} or a number from 1 to {PROCESSES_MAX:,}")
    return count


def _pattern(value: Any) -> Any:
    """Refuse what is no regular expression."""
    if not isinstance(value, str) or not 0 < len(value) <= PATTERN_CHARACTERS_MAX:
        raise BadInputError(f"got {show(value)}; write a regular expression of 1 to {PATTERN_CHARACTERS_MAX} letters")
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadInputError(f"got {show(value)}, which is no regular expression: {error}") from error
    return value


Pattern = Annotated[str, BeforeValidator(_pattern)]


class RunChipsSection(Section):
    """The keys of `chips:` of a command: it takes whole nodes, so their number is `nodes`."""

    OTHER_NAMES: ClassVar = {"kinds": "allow"}

    allow: ChipNames = ()


class HangSection(Section):
    """The keys of `hang:`."""

    OTHER_NAMES: ClassVar = {"no_output": "no_output_for", "no_step": "no_step_for", "pattern": "step_pattern"}

    no_output_for: DurationS | None = None
    step_pattern: Pattern | None = None
    no_step_for: DurationS | None = None


class LogPatternSection(Section):
    """The keys of one of `log_patterns:`."""

    OTHER_NAMES: ClassVar = {"pattern": "match", "regex": "match", "blame": "means"}

    match: Pattern
    means: Literal["user", "infrastructure", "note"] = "note"
    stop: Switch = False


class RunFile(Section):
    """The keys of `job.yaml` for `kind: run`."""

    OTHER_NAMES: ClassVar = {
        "time": "time_limit",
        "env": "environment",
        "cwd": "working_directory",
        "workdir": "working_directory",
        "processes": "processes_per_node",
        "nproc_per_node": "processes_per_node",
        "nnodes": "nodes",
        "retries": "restarts",
        "max_restarts": "restarts",
        "patterns": "log_patterns",
        "grace": "stop_grace",
    }

    kind: Literal["run"] = "run"
    name: JobName = "run"
    queue: Text = "default"
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    command: Annotated[tuple[str, ...], BeforeValidator(_command)]
    nodes: Positive = 1
    processes_per_node: Annotated[int | None, BeforeValidator(_processes)] = None
    chips: RunChipsSection = RunChipsSection()
    environment: Annotated[dict[str, str], BeforeValidator(_environment)] = Field(default_factory=dict)
    working_directory: Text | None = None
    upload: Text | None = None
    restarts: Annotated[Count, Field(le=RESTARTS_MAX)] = 0
    hang: HangSection = HangSection()
    log_patterns: Annotated[tuple[LogPatternSection, ...], Field(max_length=PATTERNS_MAX)] = ()
    stop_grace: DurationS = DEFAULT_GRACE_S
    time_limit: DurationS | None = None


def read_any_job(text: str, source: str, overrides: Sequence[str] = ()) -> AnyJob:
    """Read a job of any kind from the text of `job.yaml`; overrides are `KEY=VALUE` as given to `--set`.

    Raises BadInputError with one line for each problem, as `read_job` does.
    """
    document = override(read_document(text, source), overrides)
    kind = document.value.get("kind", "train")
    if kind in ("train", "serve"):
        return read_job(text, source, overrides)
    if kind != "run":
        raise document.error(("kind",), f"must be train or run, got {show(kind)}")
    content = validate(document, RunFile)
    problems = _contradictions(content, document)
    if problems:
        raise problems_error(problems)
    return _to_job(content)


def decode_job(data: bytes | str) -> AnyJob:
    """Read what `codec.encode` made of a job, of whichever kind. Raises BadInputError."""
    try:
        kind = msgspec.json.decode(data, type=_Kind).kind
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInputError(f"not a job of version {codec.VERSION}: {error}") from error
    return codec.decode(data, RunJob) if kind == "run" else codec.decode(data, Job)


class _Kind(msgspec.Struct, frozen=True):
    kind: str = "train"


def _contradictions(content: RunFile, document: Document) -> list[str]:
    """Find keys that are right alone but not together."""
    hang, problems = content.hang, []
    if hang.no_step_for is not None and hang.step_pattern is None:
        text = "needs step_pattern, the regular expression that a line about a step matches"
        problems.append(document.problem(("hang", "no_step_for"), text))
    inside = content.working_directory
    if (
        content.upload is not None
        and inside is not None
        and (inside.startswith(("/", "~")) or ".." in inside.split("/"))
    ):
        text = f"is a folder within what is uploaded, where there is upload; got {inside!r}"
        problems.append(document.problem(("working_directory",), text))
    return problems


def _to_job(content: RunFile) -> RunJob:
    """Turn the checked file into the contract."""
    return RunJob(
        name=content.name,
        queue=content.queue,
        priority=content.priority,
        chips=ChipsSpec(allow=content.chips.allow),
        time_limit_s=content.time_limit,
        run=RunSpec(
            command=content.command,
            nodes=content.nodes,
            processes_per_node=content.processes_per_node,
            environment=content.environment,
            working_directory=content.working_directory,
            upload=content.upload,
            restarts=content.restarts,
            hang=HangSpec(
                no_output_for_s=content.hang.no_output_for,
                step_pattern=content.hang.step_pattern,
                no_step_for_s=content.hang.no_step_for,
            ),
            log_patterns=tuple(LogPattern(**pattern.model_dump()) for pattern in content.log_patterns),
            stop_grace_s=content.stop_grace,
        ),
    )
