"""Many simulated agents in one process, cheap enough not to be what is measured: plain sockets, epoll, ready messages.

Each joins, keeps one connection, talks every period at a phase of its own, and does at once what it is told: what it is
to run it holds for a while, then says that it ended. A talk's time counts from when it was due, also where the one
before was not answered yet. Runs in a process of its own and is told what to do through a pipe.
"""

import heapq
import math
import resource
import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from argosy.contracts.talk import (
    CONTENT_TYPE,
    ENDED,
    JOIN_PATH,
    RUNNING,
    STOPPED,
    TALK_PATH,
    Answer,
    ChipsFound,
    Forget,
    Held,
    HeldRank,
    HostFacts,
    JoinAnswer,
    JoinAsk,
    Meeting,
    StartRun,
    StopAttempt,
    Talk,
    read_word,
    write_word,
)

JOINING_AT_ONCE = 64
NUMBER_FIRST = 1 << 31
"""Written in five bytes, as all that follow, so that a ready message need only have its number put in."""
ANSWER_BYTES = 1 << 16
SPARE_FILES = 100
TICK_S = 0.02
PATIENCE_MS = 60_000
CLEAR, END = "clear", "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a crowd does. wait_s: how long the server may hold an answer back; job_s: how long what it starts runs.

    joins: False where all that answers is an echo.
    """

    host: str
    port: int
    token: str
    agents: int
    period_s: float
    wait_s: float
    job_s: float
    joins: bool = True


@dataclass(slots=True, kw_only=True)
class Member:
    """One simulated agent. ready: its message while it holds nothing; at: where the number stands in it.

    due_s: when the talk under way was due; None while none is. owed_s: when the next one was, if that is past already.
    """

    line: socket.socket
    key: str
    ready: bytearray = field(default_factory=bytearray)
    at: int = 0
    number: int = NUMBER_FIRST
    due_s: float | None = None
    owed_s: float | None = None
    held: dict[str, Held] = field(default_factory=dict)


class Crowd:
    """All members of a load, once they have joined."""

    def __init__(self, load: Load) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, _files(load.agents))
        self._load = load
        self._members = [member for first in range(0, load.agents, JOINING_AT_ONCE) for member in _join(load, first)]
        self._by_file = {member.line.fileno(): member for member in self._members}
        self._poll = select.epoll()
        for member in self._members:
            member.line.setblocking(False)
            self._poll.register(member.line, select.EPOLLIN)
        self._ends: list[tuple[float, int, str]] = []
        self._silent = b""
        self.took_ms: list[float] = []
        self.late_ms: list[float] = []

    def run(self, orders: Connection) -> None:
        """Talk until told to end."""
        self._poll.register(orders, select.EPOLLIN)
        began_s, turn = time.monotonic(), 0
        gap_s = self._load.period_s / len(self._members)
        # Where the server holds answers back, the next talk follows the answer.
        turns = len(self._members) if self._load.wait_s else math.inf
        while True:
            now_s = time.monotonic()
            while (due_s := began_s + turn * gap_s) <= now_s and turn < turns:
                self._due(self._members[turn % len(self._members)], due_s)
                turn += 1
            while self._ends and self._ends[0][0] <= now_s:
                _, file, attempt = heapq.heappop(self._ends)
                self._end(self._by_file[file], attempt, now_s)
            for file, _ in self._poll.poll(max(0.0, min(due_s - now_s, TICK_S) if turn < turns else TICK_S)):
                if file == orders.fileno():
                    if orders.recv() == END:
                        return
                    orders.send((self.took_ms, self.late_ms))
                    self.took_ms, self.late_ms = [], []
                else:
                    self._hear(self._by_file[file])

    def _due(self, member: Member, due_s: float) -> None:
        """Talk, or as soon as the talk before is answered."""
        if member.due_s is not None:
            if member.owed_s is None:
                member.owed_s = due_s
            return
        member.due_s = due_s
        member.number += 1
        if member.held:
            member.line.send(_request(member, self._load.wait_s))
        else:
            struct.pack_into(">I", member.ready, member.at, member.number)
            member.line.send(member.ready)
        self.late_ms.append((time.monotonic() - due_s) * 1000)

    def _hear(self, member: Member) -> None:
        """Take an answer and do what it says."""
        content = _content(member.line.recv(ANSWER_BYTES), member.line)
        now_s = time.monotonic()
        due_s, member.due_s = member.due_s or now_s, None
        news = content != self._silent and self._obey(member, content, now_s)
        # An answer that was held back and brings orders came when there were some, which says nothing of the server.
        if not (news and self._load.wait_s):
            self.took_ms.append(max(0.0, now_s - due_s - self._load.wait_s) * 1000)
        if news or self._load.wait_s or member.owed_s is not None:
            # A real agent would not wait for an answer that is held back: it has a second connection.
            owed_s, member.owed_s = (not self._load.wait_s and member.owed_s) or now_s, None
            self._due(member, owed_s)

    def _obey(self, member: Member, content: bytes, now_s: float) -> bool:
        """Do at once what an answer says; tells whether it said anything."""
        answer = read_word(content, Answer)
        if not answer.orders:
            self._silent = content
        for order in answer.orders:
            match order:
                case StartRun(gang=gang):
                    ranks = (HeldRank(rank=gang.first_rank, pid=1),)
                    meeting = gang.meeting or Meeting(host="127.0.0.1", port=1)
                    _hold(member, order, RUNNING, ranks, meeting)
                    heapq.heappush(self._ends, (now_s + self._load.job_s, member.line.fileno(), order.attempt))
                case StopAttempt():
                    _hold(member, order, STOPPED, (), None)
                case Forget():
                    member.held.pop(order.attempt, None)
        return bool(answer.orders)

    def _end(self, member: Member, attempt: str, now_s: float) -> None:
        """Let what a member runs come to its end, and say so."""
        one = member.held.get(attempt)
        if one is not None and one.state == RUNNING:
            ranks = tuple(HeldRank(rank=rank.rank, code=0, ended_us=1) for rank in one.ranks)
            member.held[attempt] = Held(attempt=attempt, generation=one.generation, state=ENDED, ranks=ranks)
            self._due(member, now_s)


def crowd(load: Load, orders: Connection) -> None:
    """Run a crowd here: tells how long joining took, what was measured at each CLEAR, and its share of a core."""
    began_s = time.monotonic()
    made = Crowd(load)
    orders.send(time.monotonic() - began_s)
    orders.recv()
    used_s, began_s = time.process_time(), time.monotonic()
    made.run(orders)
    orders.send((time.process_time() - used_s) / (time.monotonic() - began_s))


def _hold(member: Member, order: Any, state: str, ranks: tuple[HeldRank, ...], meeting: Meeting | None) -> None:
    """Hold an attempt from now on."""
    member.held[order.attempt] = Held(
        attempt=order.attempt, generation=order.generation, state=state, ranks=ranks, meeting=meeting
    )


def _join(load: Load, first: int) -> list[Member]:
    """Let some join together."""
    names = [f"north-{number + 1}" for number in range(first, min(first + JOINING_AT_ONCE, load.agents))]
    lines = [socket.create_connection((load.host, load.port)) for _ in names]
    for line, name in zip(lines, names, strict=True):
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if load.joins:
            facts = HostFacts(hostname=name, boot_id="b", chips=(ChipsFound(chip="h800-sxm", count=8),))
            ask = JoinAsk(token=load.token, agent=name, facts=facts, node=name)
            line.sendall(_post(JOIN_PATH, "", write_word(ask)))
    members = []
    for line in lines:
        key = "k"
        if load.joins:
            key = read_word(_content(line.recv(ANSWER_BYTES), line), JoinAnswer).key
        member = Member(line=line, key=key)
        member.ready = bytearray(_request(member, load.wait_s))
        member.at = member.ready.index(struct.pack(">BI", 0xCE, NUMBER_FIRST)) + 1
        members.append(member)
    return members


def _request(member: Member, wait_s: float) -> bytes:
    """Write all that a member holds."""
    held: Sequence[Held] = tuple(member.held.values())
    talk = Talk(session="s", number=member.number, boot_id="b", sent_us=1, wait_s=wait_s, held=tuple(held))
    return _post(TALK_PATH, member.key, write_word(talk))


def _post(path: str, key: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: argosy\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _content(data: bytes, line: socket.socket) -> bytes:
    """Give an answer's body; the rest of what came in pieces is waited for."""
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += _more(line)
    head, content = data[:end].lower(), data[end + 4 :]
    size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    while len(content) < size:
        content += _more(line)
    if not head.startswith(b"http/1.1 200"):
        raise RuntimeError(f"{head[:60]!r} {content[:200]!r}")
    return content


def _more(line: socket.socket) -> bytes:
    patience = select.poll()
    patience.register(line, select.POLLIN)
    patience.poll(PATIENCE_MS)
    data = line.recv(ANSWER_BYTES)
    if not data:
        raise RuntimeError("the server closed a connection")
    return data


def _files(agents: int) -> tuple[int, int]:
    """Give how many files may be open: one an agent, and some."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < agents + SPARE_FILES:
        raise RuntimeError(f"{agents} agents need as many open files; `ulimit -Hn` says {most}")
    return most, most
