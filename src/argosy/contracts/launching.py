"""What engine, agent and fork server say to get ranks started and stopped, one JSON object a line.

Three talks: engine -> agent (StartRanks, StopRanks; the way up is `contracts.messages`), agent -> fork server
(ServerRequest) and back (ServerReply). Pure data; no socket is known here, so the same words travel over Unix sockets
and TCP.
"""

from typing import TypeVar

import msgspec

from argosy.contracts.errors import InfrastructureError
from argosy.contracts.messages import Launch, Upward

DEFAULT_ENTRY = "argosy.train.rank:run_rank"
"""What a forked rank calls: `module:function` with (launch, rank, report) -> exit code."""

DEFAULT_PRELOAD = (
    "torch",
    "torch.distributed",
    "torch.distributed.pipelining",
    "torch.distributed.tensor",
    "torch.distributed.checkpoint",
)
"""Modules the fork server imports before the first fork, so that a rank starts in milliseconds."""

T = TypeVar("T")


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """One line of a talk."""


class StartRanks(_Line, frozen=True, kw_only=True, tag="start_ranks"):
    """Engine to agent: start these ranks. log_directory: where rank-N.log goes. threads: see ForkRank."""

    launch: Launch
    ranks: tuple[int, ...]
    log_directory: str
    threads: int = 0


class StopRanks(_Line, frozen=True, kw_only=True, tag="stop_ranks"):
    """Engine to agent: end all ranks by SIGTERM, and by SIGKILL what is left after grace_s."""

    reason: str
    grace_s: float


Downward = StartRanks | StopRanks


class LoadLaunch(_Line, frozen=True, kw_only=True, tag="load_launch"):
    """To the fork server: what the ranks forked from now on are given."""

    launch: Launch


class ForkRank(_Line, frozen=True, kw_only=True, tag="fork_rank"):
    """To the fork server, with two file descriptors: the pipe for reports and the log.

    threads: of torch within the rank; 0 leaves torch's own choice.
    """

    rank: int
    threads: int = 0


class SignalRanks(_Line, frozen=True, kw_only=True, tag="signal_ranks"):
    """To the fork server: send this signal to the process group of every rank of this connection."""

    number: int


class HostStore(_Line, frozen=True, kw_only=True, tag="host_store"):
    """To the fork server: host a TCPStore until this connection ends. port: 0 for any."""

    host: str
    port: int = 0


ServerRequest = LoadLaunch | ForkRank | SignalRanks | HostStore


class ServerListening(_Line, frozen=True, kw_only=True, tag="server_listening"):
    """From the fork server, on its standard output: the socket exists; modules are still loading."""

    pid: int


class ServerReady(_Line, frozen=True, kw_only=True, tag="server_ready"):
    """From the fork server: it can fork. On a connection, pid is that of the process that serves it."""

    pid: int


class RankEnded(_Line, frozen=True, kw_only=True, tag="rank_ended"):
    """From the fork server: a rank's process is gone. code: exit status, negative for a signal."""

    rank: int
    code: int


class StoreReady(_Line, frozen=True, kw_only=True, tag="store_ready"):
    """From the fork server: the TCPStore listens at this port."""

    port: int


class ServerFailed(_Line, frozen=True, kw_only=True, tag="server_failed"):
    """From the fork server: it can't do what was asked. rank: the one that could not be forked, else -1."""

    text: str
    rank: int = -1


ServerReply = ServerListening | ServerReady | RankEnded | StoreReady | ServerFailed

_DOWNWARD: msgspec.json.Decoder[Downward] = msgspec.json.Decoder(Downward)
_REQUEST: msgspec.json.Decoder[ServerRequest] = msgspec.json.Decoder(ServerRequest)
_REPLY: msgspec.json.Decoder[ServerReply] = msgspec.json.Decoder(ServerReply)
_UPWARD: msgspec.json.Decoder[Upward] = msgspec.json.Decoder(Upward)


def read_downward(line: bytes) -> Downward:
    """Read what the engine said to an agent."""
    return _read(_DOWNWARD, line)


def read_request(line: bytes) -> ServerRequest:
    """Read what was asked of the fork server."""
    return _read(_REQUEST, line)


def read_reply(line: bytes) -> ServerReply:
    """Read what the fork server answered."""
    return _read(_REPLY, line)


def read_upward(line: bytes) -> Upward:
    """Read what an agent or a rank reported."""
    return _read(_UPWARD, line)


def write_line(message: object) -> bytes:
    """Write any message as one line, newline included."""
    return msgspec.json.encode(message) + b"\n"


def _read(decoder: "msgspec.json.Decoder[T]", line: bytes) -> T:
    try:
        return decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise InfrastructureError(f"not a message of this version of Argosy: {error}; got {line[:80]!r}") from error
