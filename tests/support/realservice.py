"""A service in a process of its own, with real agents, and the command line that talks with it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from argosy.client import Address, Client

FLEET = """fleet: small
sites:
  north: {location: [39.99, 116.31]}
  south: {location: [39.73, 116.49]}
long_links:
  - {between: [north, south], km: 50, gbps: 25}
nodes:
  - {site: north, chip: h800-sxm,     chips_per_node: 1, count: 2, emulate: {tflops: 0.01, memory_gb: 1}}
  - {site: south, chip: ascend-910b3, chips_per_node: 1, count: 2, emulate: {tflops: 0.01, memory_gb: 1}}
"""
GUARD = """
import os, sys, psutil
sys.stdin.read()
for process in psutil.process_iter():
    try:
        places = [process.environ().get(name, "") for name in ("ARGOSY_STATE", "ARGOSY_FOLDER")]
        if any(place.startswith(sys.argv[1]) for place in places):
            process.kill()
    except psutil.Error:
        pass
"""
"""Waits until whoever started it is gone, however it ended, and kills what is left of a service's folder."""
ARGOSY = [sys.executable, "-m", "argosy.cli.main"]


class RealService:
    """One service in a folder. port: chosen by the first server, kept by those after it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "fleet.yaml").write_text(FLEET)
        self.guard = subprocess.Popen(
            [sys.executable, "-c", GUARD, str(self.state)], stdin=subprocess.PIPE, start_new_session=True
        )
        self.environment = {**os.environ, "ARGOSY_STATE": str(self.state), "COLUMNS": "110"}

    def argosy(self, *arguments: str, code: int | None = 0) -> str:
        """Run a command; gives what it printed on stdout. code: what it has to leave with, None for any."""
        done = subprocess.run(
            [*ARGOSY, *arguments], env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=240
        )
        assert code is None or done.returncode == code, f"{arguments}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def serve(self, *more: str) -> Client:
        """Begin a server, and give a client once it is ready."""
        log = (self.folder / "serve.log").open("ab")
        self.process = subprocess.Popen(
            [*ARGOSY, "serve", "--fleet", "fleet.yaml", "--listen", str(self.port), *more],
            env=self.environment,
            cwd=self.folder,
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            log.write(line)
            if b"ready at " in line:
                url = line.split()[-1].decode()
                self.port = int(url.rpartition(":")[2])
                # Whatever it says from now on nobody reads, and the pipe must not fill.
                drain(self.process, log)
                return Client(Address(url=url, token=(self.state / "token").read_text()), patience_s=120.0)
        raise AssertionError(f"no server: {(self.folder / 'serve.log').read_text()}")

    def kill(self) -> None:
        """Kill the server as a power cut would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """End the server in order, and its agents with it."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)


def drain(process: subprocess.Popen[bytes], log: object) -> None:
    """Keep writing what a process says to its log, in the background."""
    copy = "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"
    subprocess.Popen([sys.executable, "-c", copy], stdin=process.stderr, stdout=log)


@contextmanager
def real_service(folder: Path) -> Iterator[RealService]:
    """Have a service; whatever of it still runs is ended after the block."""
    service = RealService(folder)
    try:
        yield service
    finally:
        try:
            if service.process is not None and service.process.poll() is not None:
                service.serve()
            service.argosy("down", "--cancel-jobs", code=None)
        finally:
            service.end()
            service.guard.communicate()


def until(client: Client, check: Callable[[], bool]) -> None:
    """Look again at every event until a check holds."""
    if check():
        return
    for _ in client.events("0"):
        if check():
            return
