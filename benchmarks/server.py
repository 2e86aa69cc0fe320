"""One server with many agents: how long heartbeats and API reads take, and what that costs it in CPU and memory.

Simulated agents (sockets of this process, kept alive) join a real server, talk every few seconds and do at once what
they are told, so that real jobs start, run and end meanwhile. With --first-step it measures instead, on a real service
with real agents, how long a 4-rank training job takes from `submit` to its first step. Prints a table, or JSON.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import uvloop

from argosy.client import Address, Client
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
from argosy.server.models import Submission
from command import start, whole_number

FLEET = """fleet: many
sites: {{north: {{}}}}
nodes: [{{site: north, chip: h800-sxm, chips_per_node: 8, count: {count}, nics: 8x400G, rack: 4, spine: 32}}]
"""
SMALL_FLEET = """fleet: four
sites: {north: {}}
nodes: [{site: north, chip: h800-sxm, chips_per_node: 1, count: 4, emulate: {tflops: 0.05, memory_gb: 1}}]
"""
RUN_JOB = "kind: run\nname: load\ncommand: echo\nnodes: 4\n"
TRAIN_JOB = """kind: train
name: first-step
model: tiny
data: {files: text.txt, tokenizer: bytes}
train: {sequence_length: 64, global_batch_size: 8, steps: 20}
chips: {min: 4, max: 4}
"""
READS = ("/v1/jobs?limit=50", "/v1/queues", "/v1/nodes?limit=100", "/v1/status")
READS_A_SECOND = 10
JOINING_AT_ONCE = 64
READY_S = 120.0


@dataclass(slots=True, kw_only=True)
class Fake:
    """One simulated agent. ends_s: when what it holds ends by itself, by attempt."""

    name: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    key: str = ""
    number: int = 0
    held: dict[str, Held] = field(default_factory=dict)
    ends_s: dict[str, float] = field(default_factory=dict)

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a message on the connection that is kept."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: argosy\r\nAuthorization: Bearer {self.key}\r\n"
            f"Content-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        size = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        content = await self.reader.readexactly(size)
        if b" 200 " not in answer[:20]:
            raise RuntimeError(f"{path}: {answer[:40]!r} {content[:200]!r}")
        return content

    async def join(self, token: str) -> None:
        """Become a node."""
        facts = HostFacts(hostname=self.name, boot_id="b", chips=(ChipsFound(chip="h800-sxm", count=8),))
        ask = JoinAsk(token=token, agent=self.name, facts=facts, node=self.name)
        self.key = read_word(await self.post(JOIN_PATH, write_word(ask)), JoinAnswer).key

    async def talk(self, run_s: float) -> None:
        """Say what is held and do what is told."""
        self.number += 1
        now_s = time.monotonic()
        for attempt in [name for name, at_s in self.ends_s.items() if at_s <= now_s]:
            del self.ends_s[attempt]
            one = self.held[attempt]
            ranks = tuple(HeldRank(rank=rank.rank, code=0, ended_us=1) for rank in one.ranks)
            self.held[attempt] = Held(attempt=attempt, generation=one.generation, state=ENDED, ranks=ranks)
        talk = Talk(session="s", number=self.number, boot_id="b", sent_us=1, held=tuple(self.held.values()))
        answer = read_word(await self.post(TALK_PATH, write_word(talk)), Answer)
        for order in answer.orders:
            self.obey(order, now_s + run_s)

    def obey(self, order: Any, ends_s: float) -> None:
        """Do at once what an order says."""
        match order:
            case StartRun(gang=gang):
                ranks = (HeldRank(rank=gang.first_rank, pid=1),)
                meeting = gang.meeting or Meeting(host="127.0.0.1", port=1)
                self.hold(order.attempt, order.generation, RUNNING, ranks, meeting)
                self.ends_s[order.attempt] = ends_s
            case StopAttempt():
                self.ends_s.pop(order.attempt, None)
                self.hold(order.attempt, order.generation, STOPPED, (), None)
            case Forget():
                self.held.pop(order.attempt, None)

    def hold(
        self, attempt: str, generation: int, state: str, ranks: tuple[HeldRank, ...], meeting: Meeting | None
    ) -> None:
        """Hold an attempt from now on."""
        self.held[attempt] = Held(attempt=attempt, generation=generation, state=state, ranks=ranks, meeting=meeting)


class Server:
    """A real server in a process of its own."""

    def __init__(self, folder: Path, fleet: str, *more: str) -> None:
        (folder / "fleet.yaml").write_text(fleet)
        self.state = folder / "state"
        command = [sys.executable, "-m", "argosy.cli.main", "serve", "--fleet", "fleet.yaml", "--listen", "0", *more]
        environment = {**os.environ, "ARGOSY_STATE": str(self.state)}
        self._log = (folder / "serve.log").open("wb")
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stderr=self._log)
        until_s = time.monotonic() + READY_S
        while not (self.state / "server.json").exists():
            if self.process.poll() is not None or time.monotonic() > until_s:
                raise RuntimeError((folder / "serve.log").read_text())
            time.sleep(0.02)
        self.url = str(json.loads((self.state / "server.json").read_text())["url"])
        self.token = (self.state / "token").read_text()
        self.watched = psutil.Process(self.process.pid)

    def cpu_s(self) -> float:
        """Give the CPU time it has used."""
        used = self.watched.cpu_times()
        return float(used.user + used.system)

    def end(self) -> None:
        """End it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self._log.close()


async def beat(agent: Fake, options: argparse.Namespace, first_s: float, taken_ms: list[float]) -> None:
    """Let an agent talk every period, at a phase of its own, until cancelled."""
    at_s = first_s
    while True:
        await asyncio.sleep(max(0.0, at_s - time.monotonic()))
        began_s = time.monotonic()
        await agent.talk(options.job_seconds)
        taken_ms.append((time.monotonic() - began_s) * 1000)
        at_s += options.period


async def read_api(server: Server, taken_ms: list[float]) -> None:
    """Read from the API, several times a second, until cancelled."""
    headers = {"Authorization": f"Bearer {server.token}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:
        while True:
            for path in READS:
                began_s = time.monotonic()
                (await client.get(path)).raise_for_status()
                taken_ms.append((time.monotonic() - began_s) * 1000)
                await asyncio.sleep(1 / READS_A_SECOND)


async def submit_all(server: Server, options: argparse.Namespace) -> None:
    """Hand jobs in, spread over the time that is measured."""
    headers = {"Authorization": f"Bearer {server.token}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:
        for _ in range(options.jobs):
            (await client.post("/v1/jobs", json={"document": RUN_JOB})).raise_for_status()
            await asyncio.sleep(0.8 * options.seconds / options.jobs)


async def join_all(server: Server, count: int) -> list[Fake]:
    """Let all agents join, some at a time."""
    host, port = server.url.removeprefix("http://").split(":")
    token = (server.state / "join-token").read_text()
    gate = asyncio.Semaphore(JOINING_AT_ONCE)

    async def one(number: int) -> Fake:
        async with gate:
            reader, writer = await asyncio.open_connection(host, int(port))
            agent = Fake(name=f"north-{number + 1}", reader=reader, writer=writer)
            await agent.join(token)
            return agent

    return list(await asyncio.gather(*(one(number) for number in range(count))))


async def load(options: argparse.Namespace, server: Server) -> dict[str, Any]:
    """Run the load and measure."""
    began_s = time.monotonic()
    agents = await join_all(server, options.agents)
    joined_s = time.monotonic() - began_s
    beats_ms: list[float] = []
    reads_ms: list[float] = []
    now_s = time.monotonic()
    phases = [now_s + options.period * number / len(agents) for number in range(len(agents))]
    tasks = [
        asyncio.create_task(beat(agent, options, at_s, beats_ms)) for agent, at_s in zip(agents, phases, strict=True)
    ]
    await asyncio.sleep(2 * options.period)
    tasks += [asyncio.create_task(read_api(server, reads_ms)), asyncio.create_task(submit_all(server, options))]
    beats_ms.clear()
    cpu_s, began_s = server.cpu_s(), time.monotonic()
    await asyncio.sleep(options.seconds)
    took_s, used_s = time.monotonic() - began_s, server.cpu_s() - cpu_s
    failed = [task for task in tasks if task.done() and not task.cancelled() and task.exception() is not None]
    for task in tasks:
        task.cancel()
    return {
        "agents": len(agents),
        "joined_s": round(joined_s, 1),
        "seconds": round(took_s, 1),
        "heartbeats_per_second": round(len(beats_ms) / took_s, 1),
        "heartbeat_ms_p50": quantile(beats_ms, 0.5),
        "heartbeat_ms_p99": quantile(beats_ms, 0.99),
        "api_read_ms_p50": quantile(reads_ms, 0.5),
        "api_read_ms_p99": quantile(reads_ms, 0.99),
        "server_cpu_share": round(used_s / took_s, 3),
        "server_memory_gb": round(server.watched.memory_info().rss / 1e9, 3),
        "failed_tasks": len(failed),
        "first_failure": repr(failed[0].exception()) if failed else "",
    }


def quantile(values: Sequence[float], share: float) -> float | None:
    """Give the value that this share does not exceed."""
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 1) if values else None


def measure_load(options: argparse.Namespace) -> dict[str, Any]:
    """Measure a server under load."""
    with tempfile.TemporaryDirectory(prefix="argosy-") as place:
        server = Server(Path(place), FLEET.format(count=options.agents), "--no-agents")
        try:
            found = uvloop.run(load(options, server))
            with Client(Address(url=server.url, token=server.token)) as client:
                found["jobs"] = client.status().jobs
                found["records"] = client.status().seq
        finally:
            server.end()
    return found


def measure_first_step(options: argparse.Namespace) -> dict[str, Any]:
    """Measure how long a 4-rank job takes from its submission to its first step, on a warm platform."""
    with tempfile.TemporaryDirectory(prefix="argosy-") as place:
        folder = Path(place)
        (folder / "text.txt").write_text("the quick brown fox\n" * 2_000)
        server = Server(folder, SMALL_FLEET)
        try:
            with Client(Address(url=server.url, token=server.token)) as client:
                taken = [first_step(client, folder) for _ in range(options.repeats + 1)]
        finally:
            server.end()
    # The first one warms up what any first job does: the fork server, the planner, the token set.
    return {"repeats": options.repeats, "first_s": round(taken[0], 2), "seconds": [round(one, 2) for one in taken[1:]]}


def first_step(client: Client, folder: Path) -> float:
    """Run one job to its first step; gives the seconds."""
    while not all(node.observed == "up" and not node.attempt for node in client.nodes()):
        time.sleep(0.05)
    began_s = time.monotonic()
    job = client.submit(Submission(document=TRAIN_JOB, folder=str(folder)))
    while (found := client.job(job.id)).progress is None and found.state != "ended":
        time.sleep(0.01)
    took_s = time.monotonic() - began_s
    while client.job(job.id).state != "ended":
        time.sleep(0.05)
    return took_s


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--agents", type=whole_number, default=12_500)
    parser.add_argument("--period", type=whole_number, default=5, help="seconds between an agent's talks")
    parser.add_argument("--jobs", type=whole_number, default=1_000, help="jobs of 4 nodes each, spread over the time")
    parser.add_argument("--job-seconds", type=whole_number, default=10, help="how long each runs")
    parser.add_argument("--seconds", type=whole_number, default=60, help="how long is measured")
    parser.add_argument("--first-step", action="store_true", help="measure submit to first step instead")
    parser.add_argument("--repeats", type=whole_number, default=3, help="of --first-step")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure_first_step(options) if options.first_step else measure_load(options)
    found |= {"cores": os.cpu_count(), "load_average": os.getloadavg()[0]}
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            print(f"{name:<24} {value}")


if __name__ == "__main__":
    start(main)
