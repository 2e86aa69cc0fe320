"""What an agent and the server say to one another: the agent asks over HTTP, the server answers, both in msgpack.

Level-triggered. At every talk an agent says all that it holds (Held); the server compares that with what should be and
answers with orders. Nothing said once has to be remembered: what was lost is said again, and an order that comes twice
does no harm. Orders are fenced by (term, attempt, generation) as `contracts.fencing` says.

How a gang starts: node 0 gets its order without a meeting, makes one and says it in Held.meeting; the others' orders
carry it. How one ends: ranks end by themselves (Held.state `ended`) or by StopAttempt (`stopped`); `engine.verdict`
judges what the nodes of an attempt say together. A Held that is `ended` is still to be stopped, which closes its
generation; a `stopped` one is repeated until the server says Forget.

Pure data; sockets belong to agent and server.
"""

from typing import TypeVar

import msgspec

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Nics
from argosy.contracts.job import RunSpec
from argosy.contracts.messages import Launch, Upward

PROTOCOL = 1
JOIN_PATH = "/agent/v1/join"
TALK_PATH = "/agent/v1/talk"
BUNDLE_PATH = "/agent/v1/bundles/"
"""Followed by the SHA-256 in hex: uploaded code, a tar.gz, for agents that have an order which names it."""
CONTENT_TYPE = "application/msgpack"
JOIN_VARIABLE = "ARGOSY_JOIN_TOKEN"
"""The environment variable by which an agent is given a join token."""
TALK_BYTES_MAX = 8 << 20
ANSWER_BYTES_MAX = 256 << 20
BUNDLE_BYTES_MAX = 1 << 30
WAIT_S_MAX = 5.0
LOG_BYTES_MAX = 1 << 20
"""The most of a log that one LogPart carries."""
TEXT_CHARACTERS_MAX = 2000

STARTING, RUNNING, ENDED, STOPPED = "starting", "running", "ended", "stopped"

T = TypeVar("T")


class _Word(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One msgpack map."""


class _Tagged(_Word, frozen=True, kw_only=True, tag_field="type"):
    """One of several kinds of words."""


# --- joining


class ChipsFound(_Word, frozen=True, kw_only=True):
    """Chips of one kind on a host, by the catalogue's name."""

    chip: str
    count: int


class HostFacts(_Word, frozen=True, kw_only=True):
    """What an agent knows of its host.

    boot_id: another one means that the kernel was started anew and no former process is left. address: where ranks of
    other nodes reach this host. memory_gb: 10^9 bytes. argosy, python: their versions.
    """

    hostname: str
    boot_id: str
    address: str = ""
    site: str = ""
    cores: int = 0
    memory_gb: float = 0.0
    chips: tuple[ChipsFound, ...] = ()
    nics: Nics | None = None
    argosy: str = ""
    python: str = ""


class JoinAsk(_Word, frozen=True, kw_only=True):
    """POST JOIN_PATH. agent: drawn once and kept on its disk; joining again with it gives the same node a new key.

    node: the name that is wished for; empty: the server chooses one of the fleet that fits, or makes one.
    """

    token: str
    agent: str
    facts: HostFacts
    node: str = ""
    protocol: int = PROTOCOL


class JoinAnswer(_Word, frozen=True, kw_only=True):
    """The agent's name and key.

    key: what it sends from now on as `Authorization: Bearer KEY`. service: drawn with the service's store; another one
    means that nothing is known there of what this node runs, and that terms are counted anew.
    """

    node: str
    key: str
    service: str


# --- orders, from server to agent


class Order(_Tagged, frozen=True, kw_only=True):
    """What every order carries. id: of the command it comes from, or the server's own number."""

    id: str
    term: int
    attempt: str
    generation: int = 0


class Meeting(_Word, frozen=True, kw_only=True):
    """Where the ranks of a generation meet: a free port, or the TCPStore, on the host of node 0."""

    host: str
    port: int


class Gang(_Word, frozen=True, kw_only=True):
    """An agent's place among the nodes of an attempt.

    node_rank: counted from 0. meeting: None for node 0, which makes it. first_rank, ranks: this node's, of world_size
    in all.
    """

    job: str
    nodes: int
    node_rank: int
    first_rank: int
    ranks: int
    world_size: int
    meeting: Meeting | None = None


class StartTrain(Order, frozen=True, kw_only=True, tag="start_train"):
    """Run these ranks of a bound plan; `ranks` need not be consecutive.

    launch: store_host, store_port, tokens, directory and board are filled in on the node; launch.attempt and
    launch.generation are the order's.
    """

    gang: Gang
    launch: Launch
    ranks: tuple[int, ...]


class StartRun(Order, frozen=True, kw_only=True, tag="start_run"):
    """Run a command on this node: gang.ranks processes of it. chips: of this node. bundle: SHA-256 of uploaded code."""

    gang: Gang
    spec: RunSpec
    chips: int = 0
    bundle: str = ""


class StopAttempt(Order, frozen=True, kw_only=True, tag="stop_attempt"):
    """End all of the attempt up to this generation; it is closed from then on, also where nothing of it ran.

    grace_s: from SIGTERM to SIGKILL, the time to save and leave.
    """

    reason: str
    grace_s: float = 5.0


class ReadLog(Order, frozen=True, kw_only=True, tag="read_log"):
    """Answer with a LogPart: at most limit_bytes (and LOG_BYTES_MAX) of a rank's log from offset on.

    offset: in bytes; a negative one counts from the end. Follow a log by asking again from LogPart.next_offset.
    """

    rank: int
    offset: int = 0
    limit_bytes: int = 1 << 16


class Forget(Order, frozen=True, kw_only=True, tag="forget"):
    """Say no more of this attempt up to this generation; nothing of it runs. Logs stay on the agent's disk."""


AnyOrder = StartTrain | StartRun | StopAttempt | ReadLog | Forget


# --- what an agent holds, and what it reports


class HeldRank(_Word, frozen=True, kw_only=True):
    """One rank on this node. code: exit status, negative for a signal, None while it lives (or never started).

    blame, text: its own last words (user, infrastructure, argosy; contracts.messages.Failed), a log pattern or the
    runner's judgement; empty when it said nothing. ended_us: Unix time.
    """

    rank: int
    pid: int = 0
    code: int | None = None
    blame: str = ""
    text: str = ""
    ended_us: int = 0


class Held(_Word, frozen=True, kw_only=True):
    """One attempt on this node, always its newest generation here.

    state: starting (not all ranks are at work yet: data, code and model are made ready), running (all are), ended (by
    themselves; none is left), stopped (by StopAttempt, or parked when the lease ran out; none is left, and the
    generation is closed). parked: the lease ran out. blame, text: why it could not be started here, or why the node
    itself ended it (a log pattern that stops, the lease); empty otherwise. step: the newest reported. quiet_s: how
    long ago, when this was said, a rank began or last wrote to a log; unmarked_s: how long ago a line last matched
    hang.step_pattern, None: never; both only where the job has such a limit.
    """

    attempt: str
    generation: int
    state: str
    ranks: tuple[HeldRank, ...] = ()
    meeting: Meeting | None = None
    parked: bool = False
    blame: str = ""
    text: str = ""
    step: int | None = None
    quiet_s: float = 0.0
    unmarked_s: float | None = None


class Report(_Tagged, frozen=True, kw_only=True):
    """What every report carries. number: counted from 1 within a session; acknowledged by Answer.acknowledged."""

    number: int


class RankSaid(Report, frozen=True, kw_only=True, tag="rank_said"):
    """A rank of `kind: train` reported.

    position: of this report among those of (node, attempt, generation), rising; one that was reported before a restart
    of the agent may come again with the same position.
    """

    attempt: str
    generation: int
    position: int
    message: Upward


class LogPart(Report, frozen=True, kw_only=True, tag="log_part"):
    """Answers ReadLog. order: its id. size: of the whole log now. ended: the rank writes no more.

    marks: (offset, Unix time in us): what stands from that offset on was written at about that time. text: why there is
    nothing to read.
    """

    order: str
    attempt: str
    rank: int
    offset: int
    data: bytes
    next_offset: int
    size: int
    ended: bool = False
    marks: tuple[tuple[int, int], ...] = ()
    text: str = ""


class OrderRefused(Report, frozen=True, kw_only=True, tag="order_refused"):
    """An order was not obeyed; only for people: what should be is compared again at the next talk."""

    order: str
    attempt: str
    text: str


class NodeNoted(Report, frozen=True, kw_only=True, tag="node_noted"):
    """Something on the node that a person may want to read. level: info or warning."""

    text: str
    level: str = "info"


AnyReport = RankSaid | LogPart | OrderRefused | NodeNoted


# --- talking


class Talk(_Word, frozen=True, kw_only=True):
    """POST TALK_PATH with the agent's key.

    session: drawn when the agent's process began. number: of this talk in the session, counted from 1; two may be under
    way at once, and the higher number is the newer.

    sent_us: Unix time of the agent. wait_s: the answer may be held back so long (at most WAIT_S_MAX) while there is no
    order. held: all there is, always. reports: those not acknowledged yet, ascending, or a part of them. facts: with
    the first talk of a session. leaving: the agent's process ends after this; its ranks stay.
    """

    session: str
    number: int
    boot_id: str
    sent_us: int
    wait_s: float = 0.0
    held: tuple[Held, ...] = ()
    reports: tuple[AnyReport, ...] = ()
    facts: HostFacts | None = None
    leaving: bool = False
    protocol: int = PROTOCOL


class Answer(_Word, frozen=True, kw_only=True):
    """Answers a Talk.

    lease_s: ranks may run so long after this talk was sent without another answer; then they are parked. 0: the server
    doesn't lead yet, nothing changes. acknowledged: reports of the session up to this number are kept for good (or need
    not be kept). reports_max: how many reports the next talk may bring; back-pressure is a small number, even 0.
    again_s: how long to leave it, where nothing happens, before the next talk.
    """

    term: int
    lease_s: float
    orders: tuple[AnyOrder, ...] = ()
    acknowledged: int = 0
    reports_max: int = 1000
    again_s: float = 0.0


_DECODERS: dict[type, msgspec.msgpack.Decoder[JoinAsk | JoinAnswer | Talk | Answer]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (JoinAsk, JoinAnswer, Talk, Answer)
}
_ENCODER = msgspec.msgpack.Encoder()


def write_word(word: JoinAsk | JoinAnswer | Talk | Answer) -> bytes:
    """Write a request or an answer as the body of an HTTP message."""
    return _ENCODER.encode(word)


def read_word(data: bytes, kind: type[T]) -> T:
    """Read the body of an HTTP message: JoinAsk, JoinAnswer, Talk or Answer.

    Raises BadInputError naming the field that does not match, or the protocol that this Argosy doesn't speak.
    """
    try:
        word = _DECODERS[kind].decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"not a {kind.__name__} of protocol {PROTOCOL}: {error}") from error
    protocol = getattr(word, "protocol", PROTOCOL)
    if protocol != PROTOCOL:
        raise BadInputError(f"{kind.__name__} is of protocol {protocol}; this Argosy speaks {PROTOCOL}")
    if not isinstance(word, kind):
        raise BadInputError(f"not a {kind.__name__}")
    return word
