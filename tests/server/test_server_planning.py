"""Jobs on their way through the planner: one at a time, again when it fails or dies, bounded; and dry runs."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.contracts.errors import InfrastructureError, NeverFitsError
from argosy.contracts.event import OptionsRefused
from argosy.contracts.run_file import read_any_job
from argosy.control.state import State
from argosy.server import dryrun, jobs
from argosy.server.dryrun import Tryout
from argosy.server.jobs import Intake
from argosy.server.models import Submission
from argosy.server.offers import Offers
from argosy.server.planning import TRIES, Ask, Planning, Skills, options_of, run_offering
from argosy.server.store import Store
from argosy.server.trying import Copies
from support.serving import RUN_JOB, ground, served, wait

TRAIN = """kind: train
name: t
model: tiny
data: {files: x.txt, tokenizer: bytes}
train: {sequence_length: 64, global_batch_size: 8, steps: 5, learning_rate: 1e-3}
"""


def dying_offer(ask: Ask) -> Any:
    """End the process that plans, once."""
    path = Path(ask.config)
    if not path.exists():
        path.touch()
        os._exit(1)
    raise NeverFitsError("planned after all")


def hanging_offer(limit_s: float, _ask: Ask) -> Any:
    """Plan for ever, with less time than usual."""
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    signal.pause()


def broken_offer(_ask: Ask) -> Any:
    """Fail for a reason that says nothing of the job."""
    raise InfrastructureError("no memory")


def planner(offerer: Any = dying_offer) -> Planning:
    """Make a planner."""
    return Planning(Skills(offerer=offerer, config_of=lambda _m, text: text))


class Line:
    """Offers of a service whose planner answers when a test says so. wanted: jobs that wait for options."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[Any] = []
        self.planned: list[tuple[str, Callable[[Any], None]]] = []
        self.notes: list[tuple[str, str, str]] = []
        self.wanted = {f"job-{number}" for number in range(10)}
        loop: Any = SimpleNamespace(ask=self.ask, send=lambda kind, **_fields: self.sent.append(kind) or Future())
        workers: Any = SimpleNamespace(submit=lambda work, *words: work(*words))
        planning: Any = SimpleNamespace(offer=lambda ask, told, died: self.planned.append((ask.job_id, told, died)))
        self.commands: set[str] = set()
        monkeypatch.setattr("argosy.server.offers.brief_of", lambda _store, job: self.brief(job))
        self.offers = Offers(Store(folder / "s"), loop, planning, ground, workers)
        self.offers.note = lambda *words: self.notes.append(words)
        self.later: list[tuple[str, float]] = []
        monkeypatch.setattr(self.offers, "_later", lambda *words: self.later.append(words))

    def brief(self, job: str) -> Any:
        """Say what a job is."""
        return SimpleNamespace(job=SimpleNamespace(kind="run" if job in self.commands else "train"), config="")

    def ask(self, question: Any) -> "Future[Any]":
        """Answer from a state that has these jobs."""
        asked = {job: SimpleNamespace(asked=job in self.wanted, state="waiting") for job in self.wanted}
        answer: Future[Any] = Future()
        answer.set_result(question(SimpleNamespace(jobs=asked)))
        return answer


class TestOffers:
    def test_the_planner_has_one_job_at_a_time(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The others wait as names, each once, in the order in which they came."""
        line = Line(tmp_path, monkeypatch)
        for job in ("job-1", "job-2", "job-3", "job-2"):
            line.offers.ask(job)
        assert ([name for name, *_ in line.planned], line.offers.waiting) == (["job-1"], 3)
        line.planned[0][1](NeverFitsError("too big"))
        assert ([name for name, *_ in line.planned], line.offers.waiting) == (["job-1", "job-2"], 2)
        assert line.sent == [OptionsRefused]

    def test_a_command_waits_for_nobody(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It needs no planner, so it does not stand behind jobs that do."""
        line = Line(tmp_path, monkeypatch)
        line.commands = {"job-2"}
        for job in ("job-1", "job-2", "job-3"):
            line.offers.ask(job)
        assert ([name for name, *_ in line.planned], line.offers.waiting) == (["job-1", "job-2"], 2)

    def test_what_ended_meanwhile_is_not_planned(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A job that nobody wants planned any more is passed over."""
        line = Line(tmp_path, monkeypatch)
        line.wanted -= {"job-2"}
        for job in ("job-1", "job-2", "job-3"):
            line.offers.ask(job)
        line.planned[0][1](NeverFitsError("too big"))
        assert [name for name, *_ in line.planned] == ["job-1", "job-3"]

    def test_a_failure_says_nothing_of_the_job(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is planned again after longer and longer; the job says why, until it is planned."""
        line = Line(tmp_path, monkeypatch)
        for _ in range(2):
            line.offers.ask("job-1")
            line.planned[-1][1](InfrastructureError("no memory"))
        assert (line.sent, line.later) == ([], [("job-1", 5.0), ("job-1", 10.0)])
        assert line.offers.trouble("job-1") == "it could not be planned, and is planned again in 10 s: no memory"
        line.offers.ask("job-1")
        line.planned[-1][1](NeverFitsError("too big"))
        assert (line.sent, line.offers.trouble("job-1")) == ([OptionsRefused], "")

    def test_a_planner_that_dies_is_told_of_its_job(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """People hear which job was planned when the process died, and that it is planned again."""
        line = Line(tmp_path, monkeypatch)
        line.offers.ask("job-1")
        line.planned[0][2]()
        text = "the process that planned it died; it is planned again"
        assert (line.notes, line.offers.trouble("job-1")) == ([("job.note", "job-1", text)], text)

    def test_one_timer_waits_for_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Jobs whose time has come are asked again; the others go on waiting."""
        line = Line(tmp_path, monkeypatch)
        Offers._later(line.offers, "job-1", 1e6)
        Offers._later(line.offers, "job-2", -1.0)
        line.offers._ring()
        assert line.offers.waiting == 1
        assert [job for _, job in line.offers._late] == ["job-1"]
        timer = line.offers._timer
        assert timer is not None
        timer.cancel()


class TestPlanning:
    def test_run_gets_whole_nodes_of_allowed_classes(self) -> None:
        """An option for each class that has enough."""
        job: Any = read_any_job(RUN_JOB.format(nodes=2), "j")
        assert [option.name for option in run_offering("j", job, ground()).options] == ["north/chip-a"]
        with pytest.raises(NeverFitsError, match="needs 2 nodes of one class; the fleet has 1 of north/chip-a"):
            run_offering("j", job, ground(nodes=1))

    def test_a_dry_run_says_what_went_wrong(self, monkeypatch: Any) -> None:
        """A planner that fails is no refusal of the job."""
        planning = planner()

        def broken(_ask: Ask, told: Any) -> None:
            told(RuntimeError("a bug"))

        monkeypatch.setattr(planning, "offer", broken)
        ask = Ask(job_id="", job=read_any_job(TRAIN, "j"), config="", ground=ground())
        with pytest.raises(InfrastructureError, match="a bug"):
            wait(options_of(planning, ask))

    @pytest.mark.slow
    def test_a_planner_that_takes_too_long_is_ended(self, tmp_path: Path) -> None:
        """Others wait for it, so its process ends as if it had died; three times, then it is told."""
        planning, deaths = planner(partial(hanging_offer, 0.2)), []
        answer: Future[Any] = Future()
        try:
            ask = Ask(job_id="j", job=read_any_job(TRAIN, "j"), config=str(tmp_path), ground=ground())
            planning.offer(ask, answer.set_result, lambda: deaths.append(1))
            assert isinstance(answer.result(60), BrokenProcessPool)
        finally:
            planning.close()
        assert len(deaths) == TRIES - 1

    @pytest.mark.slow
    def test_a_planner_that_dies_is_asked_again(self, tmp_path: Path) -> None:
        """Its process is started anew, for all that were on their way; what it then says counts."""
        planning, deaths, told = planner(), [], []
        answers: list[Future[Any]] = [Future() for _ in range(2)]
        try:
            for number, answer in enumerate(answers):
                ask = Ask(job_id="j", job=read_any_job(TRAIN, "j"), config=str(tmp_path / "died"), ground=ground())
                planning.offer(ask, answer.set_result, lambda number=number: deaths.append(number))
            told = [str(answer.result(60)) for answer in answers]
        finally:
            planning.close()
        assert told == ["planned after all"] * 2
        assert sorted(deaths) == [0, 1]

    @pytest.mark.slow
    def test_a_job_says_what_keeps_it_from_being_planned(self, tmp_path: Path) -> None:
        """Whoever asks why it waits reads that planning failed, and when it is tried again."""

        async def story() -> str:
            skills = Skills(offerer=broken_offer, config_of=lambda _m, text: text)
            async with served(tmp_path, skills=skills) as service:
                job = (await service.http.post("/v1/jobs", json={"document": TRAIN})).json()["id"]
                async for told in service.whole.service.feed.follow("0", 0.1):
                    if told is not None and told.kind == "job.note":
                        break
                return (await service.http.get(f"/v1/jobs/{job}/explain")).json()["text"]

        assert wait(story()).endswith("; it could not be planned, and is planned again in 5 s: no memory")


class TestBackPressure:
    def test_too_many_to_plan_are_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A training job is not taken in while so many wait for the planner; a command needs none."""
        monkeypatch.setattr(jobs, "TO_PLAN_MAX", 3)
        nothing: Any = None
        intake = Intake(Store(tmp_path / "s"), nothing, tmp_path, lambda _m, text: text, chips=tuple, to_plan=lambda: 3)
        with pytest.raises(InfrastructureError, match="3 jobs wait for the planner, the most that may; try again"):
            wait(intake.submit(Submission(document=TRAIN), "m", ""))

    def test_too_many_dry_runs_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each has a copy of the state, so few are worked on and few may wait."""
        monkeypatch.setattr(dryrun, "WAITING_MAX", 0)
        nothing: Any = None
        with pytest.raises(InfrastructureError, match="0 dry runs are under way, the most that may be"):
            wait(Tryout(nothing, nothing).run(Submission(document=TRAIN), "m"))


class TestDryRun:
    def test_the_state_is_written_out_once(self) -> None:
        """As long as nothing happened, all dry runs copy from the same bytes."""
        copies, state = Copies(), State()
        first = copies.of(state)
        assert copies.of(state) is first
        state.seq += 1
        assert copies.of(state) is not first

    @pytest.mark.slow
    def test_it_refuses_as_handing_in_would(self, tmp_path: Path) -> None:
        """The queue is told before what the planner has to say."""

        async def story() -> None:
            async with served(tmp_path) as service:
                body = {"document": RUN_JOB.format(nodes=3) + "queue: none\n"}
                tried = (await service.http.post("/v1/jobs/dry-run", json=body)).json()
                handed = (await service.http.post("/v1/jobs", json=body)).json()
                assert (tried["state"], tried["text"]) == ("refused", handed["detail"])
                assert handed["detail"] == "no queue none; a job names one of default as its `queue`"

        wait(story())

    @pytest.mark.slow
    def test_many_at_once_are_all_answered(self, tmp_path: Path) -> None:
        """More than are worked on at a time wait for their turn, and leave nothing behind."""

        async def story() -> None:
            async with served(tmp_path) as service:
                body = {"document": RUN_JOB.format(nodes=3)}
                for _ in range(dryrun.AT_ONCE + 1):
                    answer = await service.http.post("/v1/jobs/dry-run", json=body)
                    assert answer.json()["state"] == "refused"
                assert (await service.http.get("/v1/jobs")).json()["jobs"] == []

        wait(story())
