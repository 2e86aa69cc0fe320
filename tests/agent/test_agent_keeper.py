"""What an agent keeps, without a server: orders, what is held, and what the next process finds."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.agent.folder import AttemptFolder, Lease, Standing, Task, attempt_path, service_path, write_whole
from argosy.agent.keeper import FOLDERS_KEPT, KILLED, RESTORED, SERVICES_KEPT, Keeper, Place
from argosy.agent.outgoing import Outgoing
from argosy.contracts.errors import BadInputError
from argosy.contracts.talk import Forget, Held, HeldRank, OrderRefused, ReadLog, StopAttempt
from support.agents import alive
from support.talk_server import start_run, until

ATTEMPT = "job-1.1"


def place_of(state):
    """Say where an agent is."""
    return Place(
        state=state, home=home(state), node="n1", address="127.0.0.1", server="http://s", fork_folder=Path("/none")
    )


def keeper(state, outgoing=None):
    """Make an agent's keeper, as a new process of it does."""
    return Keeper(place_of(state), Outgoing() if outgoing is None else outgoing)


def home(state, service="s1"):
    """Place what is of a service."""
    return service_path(state, service)


def left(state, held=None, generation=0, service="s1"):
    """Leave the folder of a generation as a runner that is gone would."""
    folder = AttemptFolder(attempt_path(home(state, service), ATTEMPT, generation))
    order = start_run("true", generation=generation)
    folder.begin(Task(order=order, node="n1", address="127.0.0.1", state=str(state)))
    if held is not None:
        folder.publish(Standing(held=held))
    return folder


def ended(generation=0, **fields):
    """Say that a generation has ended."""
    ranks = (HeldRank(rank=0, pid=1, code=0),)
    return Held(attempt=ATTEMPT, generation=generation, state="ended", ranks=ranks, **fields)


def stop(generation=0, term=1):
    """Order a stop."""
    return StopAttempt(id="s", term=term, attempt=ATTEMPT, generation=generation, reason="test")


class TestNextProcess:
    def test_it_finds_what_ended(self, tmp_path):
        """The newest generation of each attempt is told as its folder has it."""
        left(tmp_path, ended())
        left(tmp_path, ended(1), generation=1)
        assert keeper(tmp_path).held() == (ended(1),)

    def test_what_was_closed_stays_closed(self, tmp_path):
        """A generation that was stopped never starts again, whatever process gets the order."""
        left(tmp_path, ended())
        keeper(tmp_path).obey(stop())
        outgoing = Outgoing()
        after = keeper(tmp_path, outgoing)
        assert after.held()[0].state == "stopped"
        after.obey(start_run("true"))
        assert outgoing.first(1)[0].text == f"generation 0 of {ATTEMPT} was stopped{RESTORED}"

    def test_an_older_term_is_refused(self, tmp_path):
        """A server that leads no more is not obeyed, also by the next process."""
        keeper(tmp_path).obey(stop(term=5))
        outgoing = Outgoing()
        keeper(tmp_path, outgoing).obey(start_run("true", attempt="job-2.1", term=4))
        assert isinstance(outgoing.first(1)[0], OrderRefused)
        assert outgoing.first(1)[0].text == f"term 4 is over; 5 leads{RESTORED}"

    def test_a_runner_that_died_unseen_is_told(self, tmp_path):
        """What was running when its runner was killed has ended, and nobody else's process is touched."""
        held = Held(attempt=ATTEMPT, generation=0, state="running", ranks=(HeldRank(rank=0, pid=1),))
        left(tmp_path, held)
        found = keeper(tmp_path).held()[0]
        assert (found.state, found.blame, found.text) == ("ended", "infrastructure", KILLED)

    @pytest.mark.slow
    def test_a_start_that_was_cut_short_is_made_up_for(self, tmp_path):
        """An agent that died between writing the task and starting the runner does the latter when it is back."""
        Lease(tmp_path / "lease").extend(1e12)
        left(tmp_path)
        after = keeper(tmp_path)
        until(lambda: after.held()[0].state == "ended", "its end")
        assert after.held()[0].ranks[0].code == 0

    def test_a_start_that_fails_again_is_told(self, tmp_path):
        """A runner that can't be started when the agent is back fails its attempt, not the agent."""
        (left(tmp_path).logs / "runner.log").mkdir()  # in the way of the file, as a full disk would be
        (held,) = keeper(tmp_path).held()
        assert (held.state, held.blame) == ("ended", "infrastructure")
        assert "can't start a runner in" in held.text

    def test_parked_is_closed(self, tmp_path):
        """Ranks that were parked never run again: the generation is closed without being told."""
        left(tmp_path, ended(parked=True, blame="infrastructure", text="parked"))
        outgoing = Outgoing()
        after = keeper(tmp_path, outgoing)
        assert after.held()[0].state == "stopped"
        after.obey(start_run("true"))
        assert "was stopped" in outgoing.first(1)[0].text


class TestStart:
    def test_a_runner_that_said_its_end_is_in_nobodys_way(self, tmp_path, monkeypatch):
        """It takes a moment more to leave; what came next was refused, and began 2 s later when it was sent again."""
        left(tmp_path, ended())
        monkeypatch.setattr(AttemptFolder, "runner_pid", lambda _folder: 77)
        monkeypatch.setattr("argosy.agent.keeper.start_runner", lambda _folder: None)
        outgoing = Outgoing()
        after = keeper(tmp_path, outgoing)
        after.obey(start_run("true", attempt="job-2.1"))
        assert outgoing.first(1) == ()
        assert {one.attempt: one.state for one in after.held()} == {ATTEMPT: "ended", "job-2.1": "starting"}


class TestAnotherService:
    def test_nothing_of_it_is_told_or_counts(self, tmp_path):
        """Attempts, generations and terms of another service's id are as if they had never been."""
        left(tmp_path, ended(7), generation=7, service="old")
        write_whole(home(tmp_path, "old") / "fence", b'{"term": 9, "generations": {"job-1.1": 7}, "closed": {}}')
        outgoing = Outgoing()
        fresh = keeper(tmp_path, outgoing)
        fresh.obey(stop(term=1))
        assert [(one.attempt, one.generation, one.state) for one in fresh.held()] == [(ATTEMPT, 0, "stopped")]
        assert outgoing.first(1) == ()

    @pytest.mark.slow
    def test_what_it_left_running_is_ended_before_anything_starts(self, tmp_path):
        """A runner of another service is ended, with its time to save, and its chips are free only then."""
        Lease(tmp_path / "lease").extend(1e12)
        old = keeper(tmp_path)
        old.obey(start_run("trap 'echo saved; exit 0' TERM; while :; do sleep 0.05; done"))
        until(lambda: old.held()[0].state == "running", "the start")
        outgoing = Outgoing()
        place = replace(place_of(tmp_path), home=home(tmp_path, "s2"))
        fresh = Keeper(place, outgoing)
        fresh.obey(start_run("true"))
        assert outgoing.first(1)[0].text == "job-1.1 of another service still runs on n1"
        until(lambda: fresh.held() == () and not fresh.busy, "its end")
        folder = AttemptFolder(attempt_path(home(tmp_path), ATTEMPT, 0))
        assert folder.log(0).read_text().splitlines()[-1] == "saved"
        fresh.obey(start_run("true"))
        until(lambda: fresh.held()[0].state == "ended", "the end of the next one")

    def test_logs_of_the_last_ones_are_kept(self, tmp_path):
        """Folders of former services go, but for the last few."""
        for number in range(SERVICES_KEPT + 2):
            folder = home(tmp_path, f"old-{number}")
            folder.mkdir(parents=True)
            os.utime(folder, (number, number))
        keeper(tmp_path)
        kept = sorted(path.name for path in (tmp_path / "services").iterdir())
        assert kept == [f"old-{number}" for number in range(2, SERVICES_KEPT + 2)]


class TestLease:
    @pytest.mark.slow
    def test_a_runner_that_is_held_up_beyond_the_lease_is_killed(self, tmp_path, monkeypatch):
        """Where a runner doesn't park its ranks the agent does, and the generation is closed."""
        monkeypatch.setattr("argosy.agent.keeper.LATE_S", 0.5)
        lease = Lease(tmp_path / "lease")
        lease.extend(time.monotonic() + 60.0)
        after = keeper(tmp_path)
        after.obey(start_run("sleep 1000"))
        until(lambda: after.held()[0].state == "running", "the start")
        pid = after.held()[0].ranks[0].pid
        held_up = AttemptFolder(attempt_path(home(tmp_path), ATTEMPT, 0)).runner_pid()
        os.kill(held_up, signal.SIGSTOP)
        lease.extend(time.monotonic())
        try:
            until(lambda: after.held()[0].state == "stopped", "the end")
        except AssertionError:
            os.kill(held_up, signal.SIGKILL)
            raise
        assert (after.held()[0].parked, alive(pid)) == (True, False)


class TestStops:
    def test_a_stop_of_a_later_generation_is_confirmed(self, tmp_path):
        """A stop may overtake the start of its generation; the node confirms it though it holds only an older one."""
        left(tmp_path, ended())
        after = keeper(tmp_path)
        after.obey(stop(generation=1))
        assert [(held.generation, held.state) for held in after.held()] == [(1, "stopped")]

    def test_a_stop_of_an_older_generation_is_refused(self, tmp_path):
        """A late stop of the generation before does no harm to this one."""
        outgoing = Outgoing()
        after = keeper(tmp_path, outgoing)
        after.obey(stop(generation=2))
        after.obey(stop(generation=1))
        assert outgoing.first(1)[0].text == f"generation 1 of {ATTEMPT} is over; 2 is current"
        assert after.held()[0].generation == 2


class TestForgetting:
    def test_what_is_forgotten_is_told_no_more(self, tmp_path):
        """After Forget neither this nor the next process tells of it; its logs stay."""
        folder = left(tmp_path, ended())
        first = keeper(tmp_path)
        first.obey(Forget(id="f", term=1, attempt=ATTEMPT))
        assert first.held() == keeper(tmp_path).held() == ()
        assert folder.logs.exists()

    def test_a_newer_generation_is_not_forgotten(self, tmp_path):
        """A late Forget of an older generation changes nothing."""
        left(tmp_path, ended(1), generation=1)
        after = keeper(tmp_path)
        after.obey(Forget(id="f", term=1, attempt=ATTEMPT, generation=0))
        assert len(after.held()) == 1

    def test_old_folders_go(self, tmp_path):
        """Logs of attempts long over don't fill the disk."""
        for number in range(FOLDERS_KEPT + 3):
            path = home(tmp_path) / "attempts" / f"old-{number}.1" / "0"
            path.mkdir(parents=True)
            (path / "forgotten").touch()
        left(tmp_path, ended())
        keeper(tmp_path).obey(Forget(id="f", term=1, attempt=ATTEMPT))
        assert len(list((home(tmp_path) / "attempts").glob("*/*"))) == FOLDERS_KEPT


class TestTrouble:
    def test_a_start_that_can_not_be_written_is_told(self, tmp_path):
        """A node that can't even make the folder says so, so that the job goes elsewhere."""
        home(tmp_path).mkdir(parents=True)
        (home(tmp_path) / "attempts").write_text("in the way")
        full = keeper(tmp_path)
        full.obey(start_run("true"))
        held = full.held()[0]
        assert (held.state, held.blame) == ("ended", "infrastructure")
        assert "can't write" in held.text

    def test_without_a_fence_on_disk_nothing_starts(self, tmp_path):
        """What the next process would not know of is not started, but told as a failure; a stop is obeyed."""
        (home(tmp_path) / "fence").mkdir(parents=True)
        full = keeper(tmp_path)
        full.obey(start_run("true"))
        assert (full.held()[0].blame, full.held()[0].state) == ("infrastructure", "ended")
        assert not (home(tmp_path) / "attempts").exists()
        full.obey(stop())
        assert full.held()[0].state == "stopped"

    def test_a_name_that_leads_out_is_refused(self, tmp_path):
        """Whatever is ordered of an attempt named by a path is refused, and nothing outside is touched."""
        odd = keeper(tmp_path / "state")
        (tmp_path / "out" / "0").mkdir(parents=True)
        fields = {"id": "x", "term": 1, "attempt": "../../../../out"}
        orders = [Forget(**fields), StopAttempt(**fields, reason="test"), ReadLog(**fields, rank=0)]
        for order in (*orders, start_run("true", attempt="../../../../out")):
            with pytest.raises(BadInputError, match="not a name that a server gives"):
                odd.obey(order)
        assert odd.held() == ()
        assert [path.name for path in (tmp_path / "out").rglob("*")] == ["0"]

    def test_a_damaged_fence_is_a_new_one(self, tmp_path):
        """A file that can't be read costs what it held, no more."""
        home(tmp_path).mkdir(parents=True)
        (home(tmp_path) / "fence").write_text("{")
        keeper(tmp_path).obey(stop())
        assert keeper(tmp_path).held() == ()
