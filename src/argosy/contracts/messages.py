"""What engine, agents and ranks say to one another, one JSON object a line.

Downward: Launch, Stop. Upward: what an agent saw (AgentReady, RankExited) and what a rank reports (Ready, StepDone,
Saved, Note, Failed, Finished). A message carries the attempt's generation; older ones are dropped. Pure data.
"""

from dataclasses import dataclass, field

import msgspec

from argosy.contracts.job import Job
from argosy.contracts.plan import Plan

LEFT_CODE = 143
"""Exit code of a rank that saved and left because it was asked to (Launch.save_on_stop); a shell's for SIGTERM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All that a rank needs to begin.

    model_config: text of the HF config.json. store_host, store_port: the attempt's TCPStore, hosted by the engine.
    tokens: folder of the prepared data set. board: path of the shared-memory board of the emulated clock, empty when
    chips are real. devices: chip class -> torch device type; a class that is absent runs on the CPU (emulated chips
    do). directory: where this attempt writes (logs, traces). save_on_stop: at SIGTERM the ranks end the step that they
    are in, save a checkpoint and leave, instead of leaving at once.
    """

    attempt: str
    generation: int
    plan: Plan
    job: Job
    model_config: str
    store_host: str
    store_port: int
    tokens: str
    directory: str
    board: str = ""
    devices: dict[str, str] = field(default_factory=dict)
    trace: bool = False
    save_on_stop: bool = False


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """What travels upward. rank: -1 when the agent itself speaks; node: filled in by the agent."""

    generation: int = 0
    node: str = ""
    rank: int = -1


class AgentReady(Message, frozen=True, kw_only=True, tag="agent_ready"):
    """An agent is up and can start ranks. startup_s: from its start to now."""

    pid: int
    startup_s: float


class Ready(Message, frozen=True, kw_only=True, tag="ready"):
    """A rank has its groups, model and data, and is about to run `step`."""

    step: int
    pid: int


class StepDone(Message, frozen=True, kw_only=True, tag="step_done"):
    """One optimizer step is done; sent by rank 0 of the attempt.

    loss: mean per token of the global batch. norm: of the gradient before clipping. wall_s: the step alone, from its
    first forward to its update; saving a checkpoint before or after it doesn't count. virtual_s: the same on the
    emulated clock; None when chips are real.
    """

    step: int
    loss: float
    norm: float
    learning_rate: float
    tokens: int
    wall_s: float
    virtual_s: float | None = None


class Saved(Message, frozen=True, kw_only=True, tag="saved"):
    """A checkpoint is whole and renamed into place."""

    step: int
    path: str
    wall_s: float


class Note(Message, frozen=True, kw_only=True, tag="note"):
    """Something a person may want to read; level: info or warning."""

    text: str
    level: str = "info"


class Failed(Message, frozen=True, kw_only=True, tag="failed"):
    """A rank gives up.

    blame: user (data, model, configuration), infrastructure (disk, peer, port) or argosy (our bug). exit_code: what
    the job should leave with, as the error's class has it; 0 where the blame alone says it.
    """

    blame: str
    text: str
    traceback: str = ""
    exit_code: int = 0


class Finished(Message, frozen=True, kw_only=True, tag="finished"):
    """A rank ran all its steps. memory_gb: peak resident or device memory."""

    step: int
    memory_gb: float


class RankExited(Message, frozen=True, kw_only=True, tag="rank_exited"):
    """The operating system says that a rank's process ended. code: exit status, negative for a signal."""

    code: int


Upward = AgentReady | Ready | StepDone | Saved | Note | Failed | Finished | RankExited
