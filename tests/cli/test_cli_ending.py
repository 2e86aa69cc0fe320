"""How a run that didn't finish ends."""

from pathlib import Path

import pytest

from argosy.cli.attempt import Outcome
from argosy.cli.ending import ending, log_tail, newest_in
from argosy.contracts.errors import (
    ArgosyError,
    BadInputError,
    InfrastructureError,
    InterruptedByUserError,
    UserCodeError,
)
from argosy.contracts.job import Job
from argosy.contracts.messages import Failed, RankExited
from support.runs import Workspace, step

FAILED = {
    "user": Failed(blame="user", text="the loss is nan", rank=2, node="south-1"),
    "infrastructure": Failed(blame="infrastructure", text="disk full", rank=2, node="south-1"),
    "argosy": Failed(blame="argosy", text="KeyError: 3", rank=2, node="south-1"),
}


def outcome(**changes: object) -> Outcome:
    """Make an outcome after three steps."""
    return Outcome(steps=(step(1), step(2), step(3)), new_steps=3, **changes)


def job(workspace: Workspace, *settings: str) -> Job:
    """Read the workspace's job."""
    return workspace.inputs(*settings).job


class TestFailure:
    @pytest.mark.parametrize(
        ("blame", "kind", "code"),
        [("user", UserCodeError, 4), ("infrastructure", InfrastructureError, 5), ("argosy", ArgosyError, 1)],
    )
    def test_blame_is_the_exit_code(self, blame: str, kind: type[ArgosyError], code: int, workspace: Workspace) -> None:
        """Whose fault it is decides the exit code; rank, node, log and the way on are named."""
        error = ending(job(workspace), outcome(failure=FAILED[blame]), Path("runs/x"))
        assert type(error) is kind
        assert error.exit_code == code
        for part in ("failed after step 3 of 4", "rank 2 on south-1", FAILED[blame].text, "runs/x/logs/rank-2.log"):
            assert part in str(error)

    @pytest.mark.parametrize(("to", "hint"), [("ck", False), ("elsewhere", True)])
    def test_a_bad_checkpoint_is_not_gone_on_from(self, to: str, hint: bool, workspace: Workspace) -> None:
        """A damaged checkpoint was once called the one to go on from; its own text says what to do, with code 2."""
        (workspace.folder / to / "step-00000002").mkdir(parents=True)
        (workspace.folder / to / "step-00000002" / "argosy.json").touch()
        failure = Failed(blame="user", exit_code=2, rank=0, text="ck/step-00000002: a damaged checkpoint; move it away")
        error = ending(job(workspace, f"checkpoint={{to: {to}}}"), outcome(failure=failure), Path())
        assert (type(error), ("what next" in str(error))) == (BadInputError, hint)

    def test_a_silent_death_shows_the_log(self, workspace: Workspace) -> None:
        """A rank that died without a word is told with the last lines of its log, one screen at most."""
        path = workspace.folder / "logs" / "rank-1.log"
        path.parent.mkdir()
        path.write_text("".join(f"line {n}\n" for n in range(100)))
        failure = RankExited(code=-9, rank=1, node="north-1")
        text = str(ending(job(workspace), outcome(failure=failure), workspace.folder))
        assert "was killed by SIGKILL" in text
        assert "  line 99" in text
        assert len(text.splitlines()) <= 20

    def test_finished_is_no_error(self, workspace: Workspace) -> None:
        """A run that finished has nothing to say."""
        assert ending(job(workspace), outcome(), Path()) is None

    def test_before_the_first_step(self, workspace: Workspace) -> None:
        """A run that did no step says so."""
        error = ending(job(workspace), Outcome(steps=(), new_steps=0, failure=FAILED["user"]), Path())
        assert "before the first step" in str(error)


class TestInterrupt:
    @pytest.mark.parametrize(
        ("settings", "saved", "text"),
        [
            ((), "", "the job has no `checkpoint:`"),
            (("checkpoint={to: ck}",), "", "no checkpoint was saved in ck yet"),
            (("checkpoint={to: ck}",), "ck/step-00000002", "ck/step-00000002; the same command goes on from step 2"),
            (("checkpoint={to: ck, resume: no}",), "ck/step-00000002", "starts from step 0"),
        ],
    )
    def test_says_where_it_goes_on(
        self, settings: tuple[str, ...], saved: str, text: str, workspace: Workspace
    ) -> None:
        """An interrupt says where the last checkpoint is and what the same command will do."""
        error = ending(job(workspace, *settings), outcome(interrupted=True, saved=saved), Path())
        assert isinstance(error, InterruptedByUserError)
        assert "interrupted after step 3 of 4" in str(error)
        assert text in str(error)


class TestCheckpoints:
    def test_newest_whole_one(self, tmp_path: Path) -> None:
        """Unfinished folders don't count, and of whole ones the highest step is taken."""
        for name in ("step-00000005", "step-00000010", "step-00000015.writing"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "argosy.json").touch()
        (tmp_path / "step-00000020").mkdir()
        (tmp_path / "step-30").mkdir()
        (tmp_path / "step-30" / "argosy.json").touch()
        assert newest_in(tmp_path) == tmp_path / "step-00000010"
        assert newest_in(tmp_path / "nothing") is None

    def test_tail_of_nothing(self, tmp_path: Path) -> None:
        """A log that isn't there has no lines."""
        assert log_tail(tmp_path / "no.log") == []
