"""Three hosts, an agent each, and a real server: jobs across hosts, an agent killed, a host cut off for short and long.

Hosts are network namespaces, so this needs root and skips without.
"""

import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.hosts import Hosts, hosts, possible
from support.realservice import ARGOSY, RealService, real_service
from support.talk_server import until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not possible(), reason="needs root and `ip` for namespaces")]
CHIPS = ("h800-sxm", "h800-sxm", "ascend-910b3")
FLEET = """fleet: three
sites: {north: {}}
nodes:
  - {site: north, chip: h800-sxm, chips_per_node: 1, count: 2, nics: 1x10G, emulate: {tflops: 0.004, memory_gb: 1}}
  - {site: north, chip: ascend-910b3, chips_per_node: 1, count: 1, nics: 1x10G, emulate: {tflops: 0.002, memory_gb: 1}}
"""
TRAIN = """kind: train
name: mixed
model: tiny
data: {files: text.txt}
train: {sequence_length: 32, global_batch_size: 8, steps: 100000, learning_rate: 3e-3, precision: fp32}
chips: {min: 3}
checkpoint: {to: saved, every: 20 steps}
time_limit: 1h
"""
RUN = """kind: run
name: hello
command: torchrun hello.py
nodes: 2
chips: {allow: [h800-sxm]}
upload: code
time_limit: 10m
"""
HELLO = """import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} sums {total.item():g}", flush=True)
dist.destroy_process_group()
"""
PATIENCE_S = 120.0


class Site:
    """Three hosts with agents, and a server on a fourth, which is this machine."""

    def __init__(self, service: RealService, three: Hosts) -> None:
        self.service, self.hosts = service, three
        (service.folder / "fleet.yaml").write_text(FLEET)
        self.client = service.serve("--no-agents", "--listen", f"{three.address}:0")
        self.agents = [self.start_agent(number) for number in range(3)]
        self.await_that(lambda: [node.observed for node in self.client.nodes()] == ["up"] * 3, "three nodes")

    def start_agent(self, number: int) -> "subprocess.Popen[bytes]":
        """Start the agent of a host."""
        name = f"north-{number + 1}"
        words = [*self.hosts.on(number), *ARGOSY, "agent", "--node", name, "--chips", f"1x{CHIPS[number]}"]
        words += ["--join", f"http://{self.hosts.address}:{self.service.port}"]
        words += ["--state", str(self.service.folder / name), "--fork-folder", self.fork_folder(number)]
        token = (self.service.state / "join-token").read_text()
        environment = {**self.service.environment, "ARGOSY_JOIN_TOKEN": token}
        with (self.service.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(words, env=environment, stdout=log, stderr=log)

    def fork_folder(self, number: int) -> str:
        """Name the folder of a host's fork server, which all of this machine's memory is too large for."""
        return f"/dev/shm/{self.hosts.names[number]}"

    def submit(self, name: str, text: str) -> str:
        """Hand a job in; gives its id."""
        (self.service.folder / f"{name}.yaml").write_text(text)
        self.service.argosy("submit", f"{name}.yaml")
        return self.client.job(name).id

    def step(self, job: str) -> int:
        """Say how far a job is."""
        progress = self.client.job(job).progress
        return progress.step if progress is not None else 0

    def await_steps(self, job: str, count: int = 10) -> None:
        """Wait until a job has gone on for so many steps."""
        before = self.step(job)
        self.await_that(lambda: self.step(job) >= before + count, f"{count} more steps after {before}")

    def await_that(self, test: Callable[[], object], what: str) -> None:
        """Wait until something is so."""
        until(test, what, PATIENCE_S)

    def silent_for(self, number: int, seconds: float) -> bool:
        """Tell whether the server has not heard a host for so long."""
        view = self.client.node(f"north-{number + 1}")
        return time.time() - view.heard_us / 1e6 >= seconds

    def end(self) -> None:
        """End the agents and what they left."""
        for agent in self.agents:
            agent.kill()
            agent.wait()
        for number in range(3):
            shutil.rmtree(self.service.folder / f"north-{number + 1}", ignore_errors=True)
            shutil.rmtree(self.fork_folder(number), ignore_errors=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Have the site for all tests of the module."""
    folder: Path = tmp_path_factory.mktemp("site")
    (folder / "text.txt").write_text("\n".join(f"the quick brown fox {number} jumps" for number in range(400)))
    (folder / "code").mkdir()
    (folder / "code" / "hello.py").write_text(HELLO)
    with ExitStack() as stack:
        three = stack.enter_context(hosts(3))
        service = stack.enter_context(real_service(folder))
        made = Site(service, three)
        stack.callback(made.end)
        yield made


@pytest.mark.timeout(600)
class TestHosts:
    def test_torchrun_spans_hosts(self, site):
        """`torchrun hello.py`, without an option, runs on two hosts that meet over the network."""
        job = site.submit("hello", RUN)
        site.await_that(lambda: site.client.job(job).state == "ended", "its end")
        assert site.client.job(job).reason == "done"
        logs = site.service.argosy("logs", job)
        assert "rank 0 of 2 sums 2" in logs
        assert "rank 1 of 2 sums 2" in logs

    def test_training_goes_on_through_short_trouble(self, site):
        """A mixed-chip job over three hosts goes on while an agent is killed and a host is cut off for 10 s."""
        job = site.submit("mixed", TRAIN)
        site.await_steps(job)
        site.agents[1].kill()
        site.agents[1].wait()
        site.await_steps(job)
        site.agents[1] = site.start_agent(1)
        site.await_steps(job)
        site.hosts.cut(2)
        site.await_that(lambda: site.silent_for(2, 10.0), "10 s of silence")
        site.hosts.mend(2)
        site.await_steps(job)
        view = site.client.job(job)
        assert (view.attempt, view.generation) == (f"{job}.1", 1)

    def test_a_host_that_is_cut_off_for_long_parks(self, site):
        """Beyond the lease the host's ranks are parked; when it is back the job goes on from its last checkpoint."""
        job = next(view.id for view in site.client.jobs().jobs if view.name == "mixed")
        before = site.step(job)
        site.hosts.cut(2)
        site.await_that(lambda: site.client.job(job).state == "waiting", "the job gives the host up")
        log = next((site.service.folder / "north-3").glob("services/*/attempts/*/*/held"))
        site.await_that(lambda: b"parked: no word from the server" in log.read_bytes(), "parking")
        site.hosts.mend(2)
        site.await_that(lambda: site.client.job(job).state == "running", "the job runs again")
        site.await_that(lambda: site.step(job) > before, "progress")
        assert site.client.job(job).attempt == f"{job}.2"
