"""What a training rank writes into its own log."""

from dataclasses import replace

import pytest

from argosy.comm.groups import Seat
from argosy.contracts.messages import Finished, Note, Ready, Saved, StepDone
from argosy.contracts.plan import RankPlace
from argosy.train import diary as diary_module
from argosy.train.diary import Diary, append
from support.training import config, job, launch_of, plan_of, replica


class Told:
    """A diary on a clock that stands still until it is set, with its lines and what it passed on."""

    def __init__(self, *, rank: int = 0, steps: int = 100) -> None:
        self.lines: list[str] = []
        self.passed: list[object] = []
        self.now_s = 0.0
        launch = launch_of(plan_of([replica([4, 2], 8)]), job(steps=steps), config(), "tokens", "attempt", port=7)
        place = RankPlace(rank=rank, node="north-1", chip=3, replica=0, stage=rank)
        launch = replace(launch, attempt="job-1.1", generation=2, plan=replace(launch.plan, placement=(place,)))
        seat = Seat(rank=rank, replica=0, stage=rank, tp_index=0)
        self.diary = Diary(launch, seat, self.passed.append, write=self.lines.append, now_s=lambda: self.now_s)

    def say(self, message: object, now_s: float) -> list[str]:
        """Report something at a time; gives the lines that came of it."""
        before, self.now_s = len(self.lines), now_s
        self.diary(message)
        return self.lines[before:]


def step(number: int, **others: float) -> StepDone:
    """Make a report of a step of 20 ms with 1,000 tokens."""
    told = {"loss": 2.5, "norm": 0.75, "learning_rate": 3e-4, "tokens": 1000, "wall_s": 0.02} | others
    return StepDone(step=number, **told)


class TestBeginning:
    """What is there before anything happens."""

    def test_it_says_which_rank_it_is_and_where(self):
        """Attempt, generation, node, chip and layers lead, so that one log can be read alone."""
        lines = Told(rank=1).lines
        assert lines[0] == "rank 1 of 2: job-1.1, generation 2"
        assert lines[1].startswith("on north-1, chip 3, ")
        assert "replica 1 of 1, stage 2 of 2, layers 4 to 5; the ranks meet at 127.0.0.1:7" in lines[1]

    def test_being_at_work_is_told_with_the_time_it_took(self):
        """A rank that is at work says from which step on."""
        assert Told().say(Ready(step=200, pid=1), 2.5) == ["at work after 2.5 s; step 201 is next"]


class TestSteps:
    """Lines about steps."""

    def test_the_first_step_and_then_one_every_few_seconds(self):
        """Fast steps share a line, which gives the mean of those since the last one."""
        told = Told()
        assert len(told.say(step(1), 1.0)) == 1
        assert told.say(step(2, wall_s=0.03), 1.1) == []
        (line,) = told.say(step(3, wall_s=0.01), 6.0)
        assert line == (
            "step 3 of 100   loss 2.5000   gradient norm 0.750   learning rate 0.0003   "
            "20.0 ms a step   50,000 tokens/s"
        )

    def test_the_last_step_is_told_however_soon_it_comes(self):
        """No log ends some steps before its job did."""
        told = Told(steps=2)
        told.say(step(1), 1.0)
        assert told.say(step(2), 1.01)[0].startswith("step 2 of 2")

    def test_times_of_emulated_chips_are_marked(self):
        """A step on the emulated clock shows that clock's time."""
        (line,) = Told().say(step(1, wall_s=9.0, virtual_s=0.05), 1.0)
        assert "~50.0 ms a step   ~20,000 tokens/s" in line


class TestEnd:
    """Checkpoints, other words and the end."""

    def test_checkpoints_and_the_end_are_told(self):
        """Where a checkpoint lies, what was said besides, and how it ended."""
        told = Told()
        assert told.say(Saved(step=50, path="/runs/a", wall_s=0.25), 1.0) == [
            "checkpoint after step 50, written in 0.25 s: /runs/a"
        ]
        assert told.say(Note(text="asked to leave: left after step 50"), 2.0) == ["asked to leave: left after step 50"]
        assert told.say(Finished(step=100, memory_gb=1.5), 3.0) == ["done after step 100; peak memory 1.500 GB"]

    @pytest.mark.parametrize(("rank", "passed"), [(0, 3), (1, 1)])
    def test_what_all_ranks_say_alike_is_passed_on_once(self, rank, passed):
        """Steps and checkpoints reach the service from rank 0 alone, though every rank writes them down."""
        told = Told(rank=rank)
        for message in (step(1), Saved(step=1, path="a", wall_s=0.1), Finished(step=1, memory_gb=1.0)):
            told.diary(message)
        assert len(told.lines) == 2 + 3
        assert len(told.passed) == passed

    def test_a_full_disk_takes_the_line_and_not_the_training(self, monkeypatch):
        """A log that can't be written ends nothing."""
        monkeypatch.setattr(diary_module, "STANDARD_OUTPUT", -1)
        append("lost")
