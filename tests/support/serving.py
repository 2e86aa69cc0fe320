"""A whole service in this process, its API by ASGI, and agents that do at once what they are told."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from argosy.contracts.fleet import Chip, ChipClass, Node
from argosy.contracts.policy import Policy
from argosy.contracts.talk import (
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
    LogPart,
    Meeting,
    ReadLog,
    StartRun,
    StartTrain,
    StopAttempt,
    Talk,
    read_word,
    write_word,
)
from argosy.server.assembly import Whole, assemble
from argosy.server.ground import Ground
from argosy.server.heart import Heart
from argosy.server.planning import Skills
from argosy.server.welcome import first_tokens

T = TypeVar("T")
CHIP = Chip(name="chip-a", vendor="none", title="Chip A", tflops={"bf16": 1.0}, memory_gb=1.0)
RUN_JOB = "kind: run\nname: hello\ncommand: echo hello\nnodes: {nodes}\n"


def wait(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    return asyncio.run(work)


async def turns() -> None:
    """Let whatever can go on do so."""
    for _ in range(20):
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(done.set_result, None)
        await done


def ground(nodes: int = 2, chips: int = 2) -> Ground:
    """Make a fleet of like nodes `north-1`, ..."""
    name = "north/chip-a"
    chip_class = ChipClass(name=name, site="north", chip=CHIP, chips_per_node=chips, nodes=nodes, nic_gbps=25.0)
    names = [f"north-{n + 1}" for n in range(nodes)]
    made = {each: Node(name=each, site="north", chip_class=name, chips=chips) for each in names}
    return Ground(fleet="test", classes=(chip_class,), nodes=made, long_links=(), chips={"chip-a": CHIP})


def no_offer(_ask: object) -> Any:
    """Plan nothing: tests of `kind: run` ask no planner."""
    raise AssertionError("the planner was asked")


SKILLS = Skills(offerer=no_offer, config_of=lambda _model, text: text)


@dataclass(slots=True)
class Served:
    """A service. http: an administrator's client of its API."""

    whole: Whole
    http: httpx.AsyncClient
    token: str
    join_token: str

    @property
    def loop(self) -> Any:
        """Give the loop that drives the core."""
        return self.whole.service.loop

    def as_user(self, secret: str) -> httpx.AsyncClient:
        """Make a client with another token."""
        return client_of(self.whole, secret)

    async def submit(self, nodes: int = 1, **headers: str) -> dict[str, Any]:
        """Hand in a small command."""
        answer = await self.http.post("/v1/jobs", json={"document": RUN_JOB.format(nodes=nodes)}, headers=headers)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def job(self, name: str) -> dict[str, Any]:
        """Look at a job."""
        return (await self.http.get(f"/v1/jobs/{name}")).json()

    async def until(self, name: str, *states: str) -> dict[str, Any]:
        """Follow events until a job is in one of these states."""
        async for _ in self.whole.service.feed.follow("0.0", 0.05):
            job = await self.job(name)
            if job["state"] in states:
                return job
        raise AssertionError("the service ended")


def client_of(whole: Whole, secret: str) -> httpx.AsyncClient:
    """Make a client of the API."""
    headers = {"Authorization": f"Bearer {secret}"}
    transport = httpx.ASGITransport(app=whole.app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://argosy", headers=headers)


@asynccontextmanager
async def served(
    folder: Path,
    fleet: Ground | None = None,
    policy: Policy | None = None,
    skills: Skills = SKILLS,
    retire_missing: bool = False,
    restored: bool = False,
) -> AsyncIterator[Served]:
    """Run a service in this process until the block ends."""
    folder.mkdir(exist_ok=True)
    heart = Heart(folder, fleet or ground(), skills)
    if restored:
        heart.store.renew()
    whole = assemble(heart, folder)
    try:
        await whole.service.start(policy, retire_missing=retire_missing)
        join_token = await first_tokens(heart, folder, "root")
        token = (folder / "token").read_text()
        async with client_of(whole, token) as http:
            yield Served(whole, http, token, join_token)
    finally:
        await whole.service.close()


@dataclass(slots=True)
class FakeAgent:
    """An agent whose ranks are at work as soon as they are started, until a test says otherwise."""

    served: Served
    name: str
    boot: str = "boot-1"
    node: str = ""
    key: str = ""
    session: str = field(default_factory=lambda: secrets.token_hex(4))
    number: int = 0
    held: dict[str, Held] = field(default_factory=dict)
    reports: list[Any] = field(default_factory=list)
    reported: int = 0
    orders: list[Any] = field(default_factory=list)
    log: bytes = b"hello\n"

    async def post(self, path: str, body: bytes) -> httpx.Response:
        """Send one message."""
        return await self.served.http.post(path, content=body, headers={"Authorization": f"Bearer {self.key}"})

    async def join(self, wish: str = "", token: str = "") -> httpx.Response:
        """Join the fleet."""
        facts = HostFacts(hostname=self.name, boot_id=self.boot, chips=(ChipsFound(chip="chip-a", count=2),))
        ask = JoinAsk(token=token or self.served.join_token, agent=self.name, facts=facts, node=wish)
        answer = await self.post(JOIN_PATH, write_word(ask))
        if answer.status_code == 200:
            said = read_word(answer.content, JoinAnswer)
            self.node, self.key = said.node, said.key
        return answer

    async def talk(self, wait_s: float = 0.0) -> Answer:
        """Say what is held, and do what is told."""
        self.number += 1
        talk = Talk(
            session=self.session,
            number=self.number,
            boot_id=self.boot,
            sent_us=1,
            wait_s=wait_s,
            held=tuple(self.held.values()),
            reports=tuple(self.reports),
        )
        answer = read_word((await self.post(TALK_PATH, write_word(talk))).content, Answer)
        self.reports = [report for report in self.reports if report.number > answer.acknowledged]
        for order in answer.orders:
            self.orders.append(order)
            self.obey(order)
        return answer

    def obey(self, order: Any) -> None:
        """Do at once what an order says."""
        match order:
            case StartRun() | StartTrain():
                meeting = order.gang.meeting or Meeting(host="127.0.0.1", port=1)
                self.hold(order.attempt, order.generation, RUNNING, ranks(order.gang), meeting=meeting)
            case StopAttempt():
                known = self.held.get(order.attempt)
                self.hold(order.attempt, order.generation, STOPPED, known.ranks if known else ())
            case Forget():
                self.held.pop(order.attempt, None)
            case ReadLog():
                self.give_log(order)

    def hold(self, attempt: str, generation: int, state: str, ranks: tuple[HeldRank, ...], **more: Any) -> None:
        """Hold an attempt from now on."""
        self.held[attempt] = Held(attempt=attempt, generation=generation, state=state, ranks=ranks, **more)

    def finish(self, attempt: str, code: int = 0, blame: str = "", text: str = "") -> None:
        """Let the ranks of an attempt end by themselves."""
        one = self.held[attempt]
        ended = tuple(HeldRank(rank=rank.rank, code=code, blame=blame, text=text, ended_us=1) for rank in one.ranks)
        self.hold(attempt, one.generation, ENDED, ended)

    def report(self, kind: Any, **fields: Any) -> None:
        """Say something with the next talk."""
        self.reported += 1
        self.reports.append(kind(number=self.reported, **fields))

    def give_log(self, order: ReadLog) -> None:
        """Answer what is asked of a log."""
        begin = max(0, len(self.log) + order.offset) if order.offset < 0 else order.offset
        self.report(
            LogPart,
            order=order.id,
            attempt=order.attempt,
            rank=order.rank,
            offset=begin,
            data=self.log[begin:],
            next_offset=len(self.log),
            size=len(self.log),
            ended=True,
        )


def ranks(gang: Any) -> tuple[HeldRank, ...]:
    """Make the ranks of a node's share of a gang."""
    return tuple(HeldRank(rank=gang.first_rank + index, pid=100) for index in range(gang.ranks))


async def fleet_of(served: Served, count: int) -> list[FakeAgent]:
    """Let so many agents join and say that they are there."""
    agents = [FakeAgent(served, f"host-{index}") for index in range(count)]
    for agent in agents:
        await agent.join()
        await agent.talk()
    return agents


async def work_until(served: Served, agents: list[FakeAgent], name: str, *states: str) -> dict[str, Any]:
    """Let agents talk in turns until a job is in one of these states."""
    for _ in range(200):
        for agent in agents:
            await agent.talk()
        job = await served.job(name)
        if job["state"] in states:
            return job
    raise AssertionError(f"{name} is {job['state']}")
