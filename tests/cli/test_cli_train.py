"""`argosy train` on real processes: two emulated nodes, from job file to report."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.runs import Workspace, argosy

pytestmark = pytest.mark.slow

TRAIN = ("train", "job.yaml", "--fleet", "fleet.yaml")
# A shell that starts tests in the background has them ignore SIGINT, and so what they start.
PROGRAM = """\
import signal, sys
from argosy.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


def events(*arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """Train with --json; give exit code, events and standard error."""
    done = argosy(*TRAIN, "--json", *arguments)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def losses(found: list[dict[str, Any]]) -> list[float]:
    """Pick the losses."""
    return [event["loss"] for event in found if event["type"] == "step_done"]


def disturbed(act: Callable[[int, dict[int, int]], object], *settings: str) -> tuple[int, list[dict[str, Any]], str]:
    """Train for long, act after step 6 with the process and the ranks' processes, and wait for the end."""
    options = [part for setting in ("train.steps=4000", *settings) for part in ("--set", setting)]
    command = [sys.executable, "-c", PROGRAM, *TRAIN, "--json", *options]
    found: list[dict[str, Any]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            for event in lines_of(process):
                found.append(event)
                if event["type"] == "step_done" and event["step"] == 6:
                    act(process.pid, {one.get("rank", 0): one["pid"] for one in found if one["type"] == "ready"})
            said = process.stderr.read() if process.stderr else ""
            return process.wait(60), found, said
        finally:
            process.terminate()


def lines_of(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    """Read a process's JSON lines as they come."""
    for line in process.stdout or ():
        yield json.loads(line)


class TestRun:
    def test_from_job_to_report(self, workspace: Workspace) -> None:
        """A job shows its plan, trains, compares, and leaves job, plan, steps, logs, report and trace."""
        done = argosy(*TRAIN, "--trace", "trace.json")
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        labels = ("\nfastest", "\ndata ", "\nstep ", "\na step", "\nreport ", "\ntrace ")
        order = [done.stdout.index(label) for label in labels]
        assert order == sorted(order)
        folder = workspace.folder / "runs" / "tiny"
        for name in ("job.json", "plan.json", "steps.jsonl", "report.html", "logs/rank-0.log"):
            assert (folder / name).is_file(), name
        assert json.loads(Path("trace.json").read_text())["traceEvents"]
        assert "measured, step" in (folder / "report.html").read_text()

    def test_json_has_events_and_a_result(self, workspace: Workspace) -> None:
        """Every line of standard output is an object; the plan comes first and the result last."""
        code, found, said = events()
        assert (code, said) == (0, "")
        assert found[0]["type"] == "plan"
        result = found[-1]
        assert (result["type"], result["state"], result["exit_code"], result["steps"]) == ("result", "finished", 0, 4)
        assert result["measured"]["step_ms"] == pytest.approx(result["predicted"]["step_ms"], rel=0.01)
        assert len(losses(found)) == 4

    def test_every_plan_gives_the_same_curve(self, workspace: Workspace) -> None:
        """Plans 1 and 2, and a plan.json, train the same losses; a smaller loss at the end than at the beginning."""
        first = losses(events("--set", "train.steps=8", "--directory", "a")[1])
        second = losses(events("--set", "train.steps=8", "--plan", "2")[1])
        third = losses(events("--set", "train.steps=8", "--plan", "a/plan.json")[1])
        assert second == pytest.approx(first, rel=1e-5)
        assert third == pytest.approx(first, rel=1e-5)
        assert first[-1] < first[0]

    def test_this_machine_without_a_fleet(self, workspace: Workspace) -> None:
        """Without a fleet the job runs on this machine's CPU, and nothing is called emulated."""
        done = argosy("train", "job.yaml", "--set", "chips={max: 1}", "--set", "train.steps=2")
        assert done.returncode == 0, done.stderr
        assert "~" not in done.stdout
        assert "emulated" not in done.stdout


class TestCheckpoints:
    def test_a_stopped_job_goes_on(self, workspace: Workspace) -> None:
        """A job that was interrupted goes on from its checkpoint, and its folder holds the whole curve once."""
        save = "checkpoint={to: ck, every: 2 steps}"
        code, found, _ = disturbed(lambda pid, _: os.kill(pid, signal.SIGINT), save)
        assert code == 130
        step = int(found[-1]["checkpoint"][-8:])
        code, again, said = events("--set", save, "--set", f"train.steps={step + 3}")
        assert code == 0, said
        assert [event["step"] for event in again if event["type"] == "step_done"] == [step + 1, step + 2, step + 3]
        lines = [json.loads(line) for line in Path("runs/tiny/steps.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines] == list(range(1, step + 4))

    def test_export_and_initial_weights(self, workspace: Workspace) -> None:
        """A job exports safetensors that another job starts from, where the first one ended."""
        code, found, said = events("--set", "export_to=out", "--set", "train.steps=6")
        assert code == 0, said
        assert Path("out/model.safetensors").is_file()
        assert found[-1]["export"] == "out"
        _, after, _ = events("--set", "initial_weights=out", "--set", "train.steps=1", "--directory", "b")
        assert losses(after)[0] < losses(found)[0]
        done = argosy("export", "runs/tiny", "again", "--dtype", "bf16")
        assert done.returncode == 0, done.stderr
        assert Path("again/config.json").is_file()

    def test_a_damaged_checkpoint_is_bad_input(self, workspace: Workspace) -> None:
        """A checkpoint that can't be read ends with 2, says what to do, and is not offered to go on from."""
        save = ("--set", "checkpoint={to: ck}")
        assert events(*save)[0] == 0
        Path("ck/step-00000004/argosy.json").write_text("{}")
        code, found, said = events(*save, "--set", "train.steps=6")
        assert (code, found[-1]["exit_code"]) == (2, 2)
        assert "ck/step-00000004" in said
        assert "move that folder away" in said
        assert "goes on from" not in said

    def test_a_job_that_is_done_still_exports(self, workspace: Workspace) -> None:
        """A job whose steps are all done exports from its checkpoint when it is asked to later."""
        save = ("--set", "checkpoint={to: ck}")
        assert events(*save)[0] == 0
        code, found, said = events(*save, "--set", "export_to=out")
        assert code == 0, said
        assert found[-1]["export"] == "out"
        assert Path("out/model.safetensors").is_file()


class TestDisturbed:
    def test_interrupt(self, workspace: Workspace) -> None:
        """Ctrl-C stops the ranks, says where the checkpoint is, leaves a report, and exits with 130."""
        code, found, said = disturbed(lambda pid, _: os.kill(pid, signal.SIGINT), "checkpoint={to: ck, every: 2 steps}")
        assert code == 130
        assert found[-1]["state"] == "interrupted"
        assert "last checkpoint: ck/step-0000" in said
        assert Path(found[-1]["report"]).is_file()
        assert all(not Path(f"/proc/{one['pid']}").exists() for one in found if one["type"] == "ready")

    def test_a_killed_rank(self, workspace: Workspace) -> None:
        """A killed rank ends the job within the settling time; rank, node and signal are named, exit code 5."""
        code, found, said = disturbed(lambda _, ranks: os.kill(ranks[1], signal.SIGKILL))
        assert code == 5
        assert "rank 1 on south-1 was killed by SIGKILL" in said
        assert found[-1]["state"] == "failed"

    def test_a_diverging_loss_is_the_users(self, workspace: Workspace) -> None:
        """A learning rate that makes the loss infinite ends with exit code 4 and says what to change."""
        code, _, said = events("--set", "train.learning_rate=1e30", "--set", "train.clip_norm=1e30")
        assert code == 4
        assert "learning_rate" in said
