"""One server with many agents: how long heartbeats and API reads take, and what that costs it in CPU and memory.

A crowd of simulated agents joins a real server, talks every few seconds and does at once what it is told, so that real
jobs start, run and end meanwhile. --bare measures the HTTP server alone in the same way: what it costs to answer at
all. Afterwards, on a real service with real agents, how long a 4-rank training job takes from `submit` to its first
step; --first-step measures that alone. Prints a table, or JSON.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from argosy.client import Address, Client
from argosy.server.models import Submission
from command import start, whole_number
from crowd import CLEAR, END, Load, crowd

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
READS_COUNTED = 50
READY_S = 120.0
PATIENCE_S = 600.0


class Process:
    """A server in a process of its own. ready: a file that tells its URL, once it is there."""

    def __init__(self, folder: Path, command: Sequence[str], ready: Path) -> None:
        environment = {**os.environ, "ARGOSY_STATE": str(folder / "state")}
        self._log = (folder / "serve.log").open("wb")
        self.process = subprocess.Popen([sys.executable, *command], cwd=folder, env=environment, stderr=self._log)
        until_s = time.monotonic() + READY_S
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > until_s:
                raise RuntimeError((folder / "serve.log").read_text())
            time.sleep(0.02)
        self.url = str(json.loads(ready.read_text())["url"])
        host, port = self.url.removeprefix("http://").split(":")
        self.host, self.port = host, int(port)
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


class Server(Process):
    """A real server."""

    def __init__(self, folder: Path, fleet: str, *more: str) -> None:
        (folder / "fleet.yaml").write_text(fleet)
        self.state = folder / "state"
        command = ("-m", "argosy.cli.main", "serve", "--fleet", "fleet.yaml", "--listen", "0", *more)
        super().__init__(folder, command, self.state / "server.json")
        self.token = (self.state / "token").read_text()
        self.join_token = (self.state / "join-token").read_text()


class Caller:
    """One kept connection to the API for people."""

    def __init__(self, server: Server) -> None:
        self._line = http.client.HTTPConnection(server.host, server.port, timeout=60)
        self._headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: str | None = None) -> float:
        """Call and read the answer; gives the milliseconds that took."""
        began_s = time.monotonic()
        self._line.request(method, path, body, self._headers)
        answer = self._line.getresponse()
        content = answer.read()
        if answer.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:200]!r}")
        return (time.monotonic() - began_s) * 1000


class People:
    """Those who read and those who hand jobs in, meanwhile. reads_ms: of each path."""

    def __init__(self, server: Server, options: argparse.Namespace) -> None:
        self._server, self._options = server, options
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._read, self._submit)]
        self.reads_ms: dict[str, list[float]] = {path: [] for path in READS}
        self.failures: list[str] = []
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Let them come to an end."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        with self._noting():
            caller, turn = Caller(self._server), 0
            while not self._over.wait(1 / READS_A_SECOND):
                path = READS[turn % len(READS)]
                self.reads_ms[path].append(caller.call("GET", path))
                turn += 1

    def _submit(self) -> None:
        with self._noting():
            caller, options = Caller(self._server), self._options
            body = json.dumps({"document": RUN_JOB})
            for _ in range(options.jobs):
                caller.call("POST", "/v1/jobs", body)
                if self._over.wait(0.8 * options.seconds / options.jobs):
                    return

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            self.failures.append(repr(error))


def measure_load(options: argparse.Namespace) -> dict[str, Any]:
    """Measure a server under load."""
    with tempfile.TemporaryDirectory(prefix="argosy-") as place:
        server = Server(Path(place), FLEET.format(count=options.agents), "--no-agents")
        load = _load(options, server, server.join_token)
        try:
            with gathered(load, options) as (talks, joined_s):
                found = {"agents": options.agents, "joined_s": round(joined_s, 1), "held_s": options.hold}
                found |= {f"idle_{name}": value for name, value in talking(server, talks, options.idle_seconds).items()}
                people = People(server, options)
                found |= talking(server, talks, options.seconds)
                people.end()
                found |= reading(people) | {"crowd_cpu_share": leave(talks)}
            found |= {"read_cpu_ms": read_cpu_ms(server)}
            with Client(Address(url=server.url, token=server.token)) as client:
                found |= {"jobs": client.status().jobs, "records": client.status().seq}
        finally:
            server.end()
    return found


def measure_bare(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the HTTP server with nothing behind it."""
    with tempfile.TemporaryDirectory(prefix="argosy-") as place:
        folder = Path(place)
        server = Process(folder, (str(Path(__file__).with_name("bare.py")), "url.json"), folder / "url.json")
        try:
            with gathered(_load(options, server, ""), options) as (talks, _):
                found = talking(server, talks, options.idle_seconds)
                return {"agents": options.agents} | found | {"crowd_cpu_share": leave(talks)}
        finally:
            server.end()


@contextlib.contextmanager
def gathered(load: Load, options: argparse.Namespace) -> Iterator[tuple[Any, float]]:
    """Have a crowd join and talk for a while; gives the pipe to it, and how long joining took."""
    talks, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=crowd, args=(load, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        joined_s = _hear(talks)
        talks.send(CLEAR)
        time.sleep(2 * options.period)
        yield talks, joined_s
    finally:
        process.kill()
        process.join()


def talking(server: Process, talks: Any, seconds: float) -> dict[str, Any]:
    """Watch a server and its crowd for a while."""
    talks.send(CLEAR)
    _hear(talks)
    cpu_s, began_s = server.cpu_s(), time.monotonic()
    time.sleep(seconds)
    took_s, used_s = time.monotonic() - began_s, server.cpu_s() - cpu_s
    talks.send(CLEAR)
    took_ms, late_ms = _hear(talks)
    return {
        "seconds": round(took_s, 1),
        "heartbeats_per_second": round(len(took_ms) / took_s, 1),
        "heartbeat_ms_p50": quantile(took_ms, 0.5),
        "heartbeat_ms_p99": quantile(took_ms, 0.99),
        "heartbeat_sent_late_ms_p99": quantile(late_ms, 0.99),
        "server_cpu_share": round(used_s / took_s, 3),
        "server_cpu_us_a_heartbeat": round(used_s / max(1, len(took_ms)) * 1e6, 1),
        "server_memory_gb": round(server.watched.memory_info().rss / 1e9, 3),
    }


def reading(people: People) -> dict[str, Any]:
    """Say how long reads took."""
    every = [one for taken in people.reads_ms.values() for one in taken]
    return {
        "api_read_ms_p50": quantile(every, 0.5),
        "api_read_ms_p99": quantile(every, 0.99),
        "api_read_ms_p99_by_path": {path: quantile(taken, 0.99) for path, taken in people.reads_ms.items()},
        "failures": people.failures,
    }


def read_cpu_ms(server: Server) -> dict[str, float]:
    """Measure what reads cost the server while nothing else happens."""
    caller, found = Caller(server), {}
    for path in READS:
        cpu_s = server.cpu_s()
        for _ in range(READS_COUNTED):
            caller.call("GET", path)
        found[path] = round((server.cpu_s() - cpu_s) / READS_COUNTED * 1000, 2)
    return found


def leave(talks: Any) -> float:
    """End the crowd; gives its share of a core."""
    talks.send(END)
    return round(_hear(talks), 3)


def _load(options: argparse.Namespace, server: Process, token: str) -> Load:
    return Load(
        host=server.host,
        port=server.port,
        token=token,
        agents=options.agents,
        period_s=options.period,
        wait_s=options.hold,
        job_s=options.job_seconds,
        joins=bool(token),
    )


def _hear(talks: Any) -> Any:
    if not talks.poll(PATIENCE_S):
        raise RuntimeError("the crowd says nothing")
    return talks.recv()


def quantile(values: Sequence[float], share: float) -> float | None:
    """Give the value that this share does not exceed."""
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 1) if values else None


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
    parser.add_argument("--hold", type=int, default=0, help="seconds that the server may hold an answer back")
    parser.add_argument("--jobs", type=whole_number, default=1_000, help="jobs of 4 nodes each, spread over the time")
    parser.add_argument("--job-seconds", type=whole_number, default=10, help="how long each runs")
    parser.add_argument("--seconds", type=whole_number, default=60, help="how long is measured")
    parser.add_argument("--idle-seconds", type=whole_number, default=10, help="how long before that without jobs")
    parser.add_argument("--bare", action="store_true", help="measure the HTTP server alone instead")
    parser.add_argument("--first-step", action="store_true", help="measure submit to first step alone")
    parser.add_argument("--repeats", type=whole_number, default=3, help="of submit to first step")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measure = measure_first_step if options.first_step else measure_bare if options.bare else measure_load
    found = measure(options)
    if measure is measure_load:
        found["first_step"] = measure_first_step(options)
    found |= {"cores": os.cpu_count(), "load_average": os.getloadavg()[0]}
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            print(f"{name:<32} {value}")


if __name__ == "__main__":
    start(main)
