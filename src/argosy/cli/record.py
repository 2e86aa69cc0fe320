"""The folder of a run: `job.json`, `plan.json`, `steps.jsonl`, and who is using it.

A run that resumes keeps the lines of the steps before it, so the file holds one line for each step of the curve. Must
not know where messages come from.
"""

import fcntl
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

from argosy.cli.files import write_text
from argosy.contracts.codec import encode
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.job import Job
from argosy.contracts.messages import Ready, StepDone, Upward
from argosy.contracts.plan import Plan

JOB_FILE, PLAN_FILE, STEPS_FILE, LOCK_FILE = "job.json", "plan.json", "steps.jsonl", ".lock"
_STALE = ("logs/rank-*.log", "trace/rank-*.json")

_STEP: msgspec.json.Decoder[StepDone] = msgspec.json.Decoder(StepDone)


class Record:
    """Writes a run's folder; one process at a time, for as long as the `with` block lasts.

    Raises BadInputError when another process uses the folder, InfrastructureError when it can't be written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.steps: list[StepDone] = []
        self.new_steps = 0
        self._begun = False
        self._lock: IO[bytes] | None = None
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "Record":
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock = (self.directory / LOCK_FILE).open("ab")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            text = f"{self.directory}: another `argosy train` runs in this folder; give this one its own by --directory"
            raise BadInputError(text) from error
        except OSError as error:
            self.close()
            raise InfrastructureError(f"{self.directory}: can't be written: {error.strerror or error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self, job: Job, plan: Plan) -> None:
        """Write what will run, and clear away logs and traces of ranks of an earlier run."""
        for pattern in _STALE:
            for path in self.directory.glob(pattern):
                path.unlink(missing_ok=True)
        write_text(self.directory / JOB_FILE, encode(job).decode() + "\n")
        write_text(self.directory / PLAN_FILE, encode(plan).decode() + "\n")

    def take(self, message: Upward) -> None:
        """Note a message: the first Ready says where the curve goes on, each StepDone is a line."""
        try:
            if isinstance(message, Ready) and not self._begun:
                self._go_on_from(message.step)
            elif isinstance(message, StepDone) and self._file is not None:
                self.steps.append(message)
                self.new_steps += 1
                self._file.write(encode(message) + b"\n")
                self._file.flush()
        except OSError as error:
            path = self.directory / STEPS_FILE
            raise InfrastructureError(f"{path}: can't be written: {error.strerror or error}") from error

    def close(self) -> None:
        """Let go of the folder."""
        for file in (self._file, self._lock):
            if file is not None:
                file.close()
        self._file = self._lock = None

    def _go_on_from(self, step: int) -> None:
        """Keep the lines of the steps that are in the checkpoint, drop those after it."""
        path = self.directory / STEPS_FILE
        self.steps = [done for done in read_steps(path) if done.step <= step]
        write_text(path, "".join(encode(done).decode() + "\n" for done in self.steps))
        self._file = path.open("ab")
        self._begun = True


def read_steps(path: Path) -> list[StepDone]:
    """Read `steps.jsonl`; a file that is absent has no steps, and what is not a step is passed over."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    steps = []
    for line in lines:
        try:
            steps.append(_STEP.decode(line))
        except msgspec.MsgspecError:  # a line that was cut off when its process was killed
            continue
    return steps
