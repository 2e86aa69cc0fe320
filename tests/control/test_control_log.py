"""The log: records and snapshots as bytes, replay, stories, and what happens to nonsense."""

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.event import NodeSeen, PassDue, StopAsked, TermBegan
from argosy.control import log
from argosy.control.core import step
from argosy.control.snapshot import restore, snapshot
from argosy.control.state import State
from argosy.control.story import job_story, node_story
from argosy.control.transitions import BrokenStateError
from support.cores import Core, policy, queue, size

H = "north/h800"


def busy_core():
    """Make a core that lived a little: starts, a failure, an eviction, an end."""
    core = Core(policy(queue("own", guarantee={"h800": 32}), queue("poor")), north_h800=(6, 3, 6))
    job = core.submit(size(H, 4), queue="poor", time_limit_us=3_600_000_000)
    core.down(core.held(job)[0])
    core.wait(10)
    core.submit(size(H, 4), queue="own")
    core.end(core.submit(size(H, 1), queue="poor"))
    return core.wait(60)


class TestReplay:
    def test_decisions_applied_give_the_same_state(self):
        """All records, read back from bytes and applied to nothing, give the state byte for byte."""
        core = busy_core()
        again = State()
        log.replay(again, [log.read_record(log.write_record(record)) for record in core.records])
        assert snapshot(again) == snapshot(core.state)

    def test_a_snapshot_restores_and_goes_on_the_same(self):
        """A restored state decides the next events as the original does."""
        core = busy_core()
        again = restore(snapshot(core.state))
        for kind in (PassDue, PassDue):
            event = kind(seq=core.state.seq + 1, now_us=core.now_us, term=1)
            assert step(again, event) == step(core.state, event)
        assert snapshot(again) == snapshot(core.state)

    def test_deciding_again_gives_the_same_records(self):
        """Every event handled anew gives the recorded decisions."""
        core, anew = busy_core(), State()
        assert all(log.decide_again(anew, record) for record in core.records)

    def test_records_of_other_code_are_applied_never_decided_again(self, monkeypatch):
        """A record carries the version that decided it; under another one it is applied as it stands."""
        core = busy_core()
        lines = [log.write_record(record) for record in core.records]
        monkeypatch.setattr(log, "CODE_VERSION", log.CODE_VERSION + 1)
        monkeypatch.setattr(log, "step", None)
        again = State()
        assert all(log.decide_again(again, log.read_record(line)) for line in lines)
        assert snapshot(again) == snapshot(core.state)

    def test_nonsense_is_refused_by_name(self):
        """Bytes that are no record or snapshot are bad input, not a crash."""
        for read in (log.read_record, restore):
            with pytest.raises(BadInputError, match="not a"):
                read(b"{}nonsense")


class TestOrderOfEvents:
    def test_numbers_follow_and_time_does_not_go_back(self):
        """A gap in numbers or a step back in time is a broken log."""
        core = Core(north_h800=2)
        with pytest.raises(BrokenStateError, match="does not follow"):
            step(core.state, PassDue(seq=99, now_us=0, term=1))
        core.now_us = 10
        core.send(PassDue)
        with pytest.raises(BrokenStateError, match="back in time"):
            step(core.state, PassDue(seq=core.state.seq + 1, now_us=5, term=1))

    def test_an_old_leader_changes_nothing(self):
        """After a new term began, an event of the old one is refused and logged as such."""
        core = Core(north_h800=2)
        core.send(TermBegan, term=2)
        core.send(NodeSeen, node="north-h800-1", observed="down", term=1)
        assert core.observed("north-h800-1") == "up"
        assert "written under term 1; 2 leads" in core.refusals()[-1]

    def test_events_about_nothing_are_refused(self):
        """Unknown jobs and nodes are named and change nothing."""
        core = Core(north_h800=2)
        core.send(StopAsked, job="job-7")
        core.send(NodeSeen, node="atlantis-1", observed="up")
        assert "no such job" in core.refusals()[-3:][0]


def first_start(core: Core) -> int:
    """Find the record in which the first attempt began."""
    began = (any(type(change).__name__ == "AttemptBegan" for change in record.changes) for record in core.records)
    return list(began).index(True)


class TestStories:
    def test_a_job_s_story_begins_and_ends(self):
        """The story of a job holds its submission, start and end, and nothing of others."""
        core = Core(north_h800=2)
        job = core.submit(size(H, 1))
        core.submit(size(H, 1))
        core.end(job)
        story = job_story(core.records, job.id)
        assert (story[0].event, story[-1].event) == ("JobSubmitted", "NodesReleased")
        assert {getattr(change, "job", job.id) for chapter in story for change in chapter.did} == {job.id}

    def test_a_node_s_story_tells_who_held_it(self):
        """The story of a node holds its coming, its holder and its release; a log cut short, what is left of them."""
        core = Core(north_h800=2)
        core.end(core.submit(size(H, 2)))
        number = core.state.nodes.number["north-h800-2"]
        lived = ["NodeAdded", "NodeObserved", "AttemptBegan", "NodesLeft", "NodesFreed"]
        for cut, kinds in ((0, lived), (first_start(core), lived[2:])):
            story = node_story(core.records[cut:], "north-h800-2", number)
            assert [type(change).__name__ for chapter in story for change in chapter.did] == kinds
