"""What the HTTP API takes and gives, shared by server, client and command line: `--json` prints these.

Times are whole microseconds since 1970 (`..._us`), durations seconds (`..._s`). Unknown fields are refused. Plain
data; it must not know how anything is found.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

TEXT_MAX = 1 << 20
NAME_MAX = 253
PATH_MAX = 4096
Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX)]
Text = Annotated[str, Field(max_length=TEXT_MAX)]


class Model(BaseModel):
    """What every model is: frozen, and strict about names."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class FieldProblem(Model):
    """One field at fault. place: `body.document`, or where in a file: `job.yaml:7:11`."""

    place: str
    text: str


class Problem(Model):
    """An error, as RFC 9457 has it (application/problem+json). problems: the fields at fault."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    problems: list[FieldProblem] = []


class Submission(Model):
    """A job to run. document: the text of a job.yaml; source: what errors call it; settings: `train.steps=5`.

    folder: where its relative paths lie, absolute. model_config_text: of the model's config.json, where the document
    names a file that the server can't read. bundle: the id that `PUT /v1/bundles` gave for uploaded code.
    """

    document: Annotated[str, Field(min_length=1, max_length=TEXT_MAX)]
    source: Annotated[str, Field(min_length=1, max_length=PATH_MAX)] = "job.yaml"
    settings: list[Text] = []
    model_config_text: Text = ""
    folder: Annotated[str, Field(max_length=PATH_MAX)] = ""
    bundle: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""


class Figures(Model):
    """What was predicted or measured of an attempt; None where it is not known.

    wait_s: from being queued to getting nodes; foretold where it starts at once, or the time limits of others tell.
    start_s: from getting nodes to all ranks at work. memory_gb: predicted of the fullest chip, measured of the rank
    that had most, on a CPU its whole process. cost, cost_per_trillion_tokens: US dollars; cost predicted for all steps
    that were left to do, measured for the chips held so far. emulated: times and costs are of emulated chips.
    """

    wait_s: float | None = None
    start_s: float | None = None
    step_ms: float | None = None
    tokens_per_second: float | None = None
    memory_gb: float | None = None
    cost: float | None = None
    cost_per_trillion_tokens: float | None = None
    steps: int | None = None
    loss: float | None = None
    emulated: bool = False


class AttemptView(Model):
    """One generation of one try at running a job. wait_text: why no wait was foretold; empty where one was."""

    id: str
    generation: int
    nodes: list[str]
    chips: int
    began_us: int
    running_us: int | None = None
    ended_us: int | None = None
    predicted: Figures = Figures()
    measured: Figures = Figures()
    wait_text: str = ""


class Progress(Model):
    """How far a training job is."""

    step: int
    steps: int | None = None
    loss: float | None = None
    tokens_per_second: float | None = None
    at_us: int


class JobView(Model):
    """A job. since_us: when its present state began to count, for one that waits. why: the code of `explain`."""

    id: str
    name: str
    queue: str
    owner: str
    kind: str
    state: str
    reason: str = ""
    text: str = ""
    why: str = ""
    priority: int = 0
    submitted_us: int
    since_us: int
    ended_us: int | None = None
    attempt: str = ""
    generation: int = 0
    nodes: list[str] = []
    chips: dict[str, int] = {}
    borrows: bool = False
    evictions: int = 0
    retries: dict[str, int] = {}
    progress: Progress | None = None


class JobDetail(JobView):
    """A job with what it was handed in as, and its attempts."""

    document: str = ""
    attempts: list[AttemptView] = []


class JobList(Model):
    """Jobs, newest first. next: give it as `before` for those that come after; None at the end."""

    jobs: list[JobView]
    next: int | None = None


class OfferView(Model):
    """One size of one option."""

    option: str
    nodes: dict[str, int]
    chips: int
    tokens_per_second: float | None = None
    efficiency: float | None = None
    cost_per_trillion_tokens: float | None = None
    emulated: bool = False


class DryRun(Model):
    """What would become of a job. state: running, waiting or refused, after one pass; preempts: jobs it would stop.

    start_text: why nobody can tell when it would start; empty where that is known.
    """

    name: str
    queue: str
    offers: list[OfferView]
    state: str
    nodes: list[str] = []
    text: str = ""
    why: str = ""
    start_p50_us: int | None = None
    start_p90_us: int | None = None
    start_text: str = ""
    preempts: list[str] = []


class NeedView(Model):
    """What a part of an option needs, beside what there is."""

    option: str
    pool: str
    nodes: int
    near: str
    free: int
    largest: int
    domain: str
    owned: int


class BlockerView(Model):
    """A job that holds nodes another waits for."""

    job: str
    name: str
    ends_us: int | None = None


class ChapterView(Model):
    """One thing that happened to a job or node."""

    seq: int
    at_us: int
    event: str
    did: list[str]


class Explanation(Model):
    """Why a job waits, runs where it runs, or ended; and its story so far.

    start_text: why nobody can tell when it will start; empty where that is known, and for what does not wait.
    """

    job: str
    name: str
    queue: str
    state: str
    code: str = ""
    text: str = ""
    at_us: int
    since_us: int
    needs: list[NeedView] = []
    blockers: list[BlockerView] = []
    ahead: int = 0
    start_p50_us: int | None = None
    start_p90_us: int | None = None
    start_text: str = ""
    change: str = ""
    story: list[ChapterView] = []


class NodeView(Model):
    """A node: what is observed of it, what people want of it, and whether it is trusted."""

    name: str
    chip_class: str
    site: str
    chips: int
    rack: int | None = None
    spine: int | None = None
    observed: str
    intent: str
    trust: str
    spare: bool = False
    attempt: str = ""
    job: str = ""
    heard_us: int | None = None
    empty_by_us: int | None = None
    reason: str = ""


class IntentWish(Model):
    """What a person wants of a node.

    deadline_s: from now, when a draining node's jobs are evicted; None waits. deadline_us: the same by the service's
    clock, so that it stays however often it is sent; not both.
    """

    intent: Literal["open", "cordoned", "draining"]
    reason: Annotated[str, Field(max_length=1000)] = ""
    deadline_s: Annotated[float | None, Field(ge=0, le=1e9, allow_inf_nan=False)] = None
    deadline_us: Annotated[int | None, Field(ge=0, le=10**17)] = None

    @model_validator(mode="after")
    def _one_deadline(self) -> "IntentWish":
        if self.deadline_s is not None and self.deadline_us is not None:
            raise ValueError("deadline_us stands beside deadline_s; write one of them")
        return self

    def by_us(self, now_us: int) -> int | None:
        """Say when a draining node has to be empty; None where it may take as long as its jobs do."""
        return self.deadline_us if self.deadline_s is None else now_us + round(self.deadline_s * 1_000_000)


class QueueView(Model):
    """A queue. guarantee, held, borrowed: chips by kind. waiting, running: jobs."""

    name: str
    parent: str = ""
    state: str = "open"
    weight: float = 1.0
    order: str = ""
    guarantee: dict[str, int] = {}
    held: dict[str, int] = {}
    borrowed: dict[str, int] = {}
    waiting: int = 0
    running: int = 0


class PolicyText(Model):
    """The text of a queues.yaml."""

    document: Annotated[str, Field(min_length=1, max_length=TEXT_MAX)]
    source: Annotated[str, Field(min_length=1, max_length=PATH_MAX)] = "queues.yaml"


class EventView(Model):
    """One thing that people may want to know. id: give it as Last-Event-ID to go on after it."""

    id: str
    at_us: int
    kind: str
    about: str
    text: str


class OwnEvent(EventView):
    """An event whose text is for the owner of a job, and administrators, alone: it may have words of the job's code."""

    owner: str = Field(exclude=True)


class HoursRow(Model):
    """Chip-hours of one user in one queue. jobs: how many that held chips."""

    queue: str
    owner: str
    chip_hours: float
    jobs: int


class HoursReport(Model):
    """Chip-hours between two times."""

    from_us: int
    to_us: int
    rows: list[HoursRow]
    chip_hours: float


class TokenWish(Model):
    """A token to make. owner: the user's name, or what a join token is for."""

    owner: Annotated[str, Field(min_length=1, max_length=63)]
    role: Literal["admin", "user", "join"] = "user"


class TokenView(Model):
    """A token; secret: told once, when it is made."""

    id: str
    owner: str
    role: str
    created_us: int
    revoked_us: int | None = None
    secret: str | None = None


class AuditRow(Model):
    """Who did what."""

    number: int
    at_us: int
    who: str
    deed: str
    about: str
    text: str = ""


class Status(Model):
    """How the service is. jobs, nodes: counts by state. waiting: events that are yet to be handled.

    trouble: why nothing can be decided or acknowledged at present, such as a full disk; empty where all is well.
    """

    version: str
    pid: int
    term: int
    seq: int
    now_us: int
    started_us: int
    fleet: str
    jobs: dict[str, int]
    nodes: dict[str, int]
    chips: int
    chips_held: int
    waiting: int
    trouble: str = ""


class BundleView(Model):
    """Files that were handed in, by the hash of their archive."""

    id: str
    size_bytes: int


class LogLine(Model):
    """One line of a rank's log. offset: in bytes after it, for reading on."""

    rank: int
    node: str
    offset: int
    at_us: int | None = None
    text: str
