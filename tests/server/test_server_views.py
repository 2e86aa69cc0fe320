"""What people see: jobs, queues, nodes, events in words, a job tried out, chip-hours; and the fleet's own changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.event import (
    AttemptRunning,
    FleetDescribed,
    JobSubmitted,
    NodeSeen,
    PassDue,
    PolicyChanged,
    TermBegan,
)
from argosy.contracts.policy_file import read_policy
from argosy.contracts.request import Claim
from argosy.contracts.run_file import read_any_job
from argosy.control.change import Record
from argosy.control.core import step
from argosy.control.state import State
from argosy.server import books, views
from argosy.server.annals import Annals
from argosy.server.planning import run_offering
from argosy.server.store import Store
from argosy.server.telling import deeds, told
from argosy.server.trying import Copies, try_out
from support.serving import RUN_JOB, fleet_of, ground, served, wait, work_until

QUEUES = """queues:
  research: {guarantee: {chip-a: 2}, borrow: yes, lend: yes}
  vision: {guarantee: {chip-a: 2}, borrow: yes, lend: yes}
reclaim: {at_most: 4x requested}
"""


class Core:
    """A core with a fleet of two nodes and two queues that own one each."""

    def __init__(self) -> None:
        self.state, self.records, self.fleet = State(), list[Record](), ground()
        self.tell(TermBegan, term=1)
        self.tell(FleetDescribed, pools=self.fleet.pools(), nodes=tuple(self.fleet.nodes.values()))
        self.tell(PolicyChanged, policy=read_policy(QUEUES, "queues.yaml"))
        for node in self.fleet.nodes:
            self.tell(NodeSeen, node=node, observed="up")

    def tell(self, kind: Any, term: int | None = None, **fields: Any) -> Record:
        """Send an event; every one comes a second after the last."""
        number = self.state.seq + 1
        stamp = {"seq": number, "now_us": number * 1_000_000, "term": term or self.state.term}
        self.records.append(step(self.state, kind(**stamp, **fields)))
        return self.records[-1]

    def submission(self, nodes: int, queue: str) -> JobSubmitted:
        """Make an event that hands a job in."""
        job: Any = read_any_job(RUN_JOB.format(nodes=nodes), "job.yaml")
        claim = Claim(name=f"in-{queue}", queue=queue, owner="mary", kind="run")
        return JobSubmitted(claim=claim, options=run_offering("j", job, self.fleet).options)

    def run(self, nodes: int, queue: str) -> str:
        """Have a job run, or wait; gives its id."""
        event = self.submission(nodes, queue)
        name = f"job-{self.state.seq + 1}"
        self.tell(JobSubmitted, claim=event.claim, options=event.options)
        self.tell(PassDue)
        if self.state.jobs[name].attempt:
            self.tell(AttemptRunning, attempt=f"{name}.1", generation=1)
        return name


class TestViews:
    def test_a_job_shows_what_it_holds(self) -> None:
        """Nodes, chips by kind, and that its queue borrows them."""
        core = Core()
        name = core.run(2, "research")
        shown = views.job_view(core.state, core.state.jobs[name])
        assert (shown.state, shown.nodes, shown.chips) == ("running", ["north-1", "north-2"], {"chip-a": 4})
        assert shown.borrows

    def test_queues_show_who_owns_and_who_borrows(self) -> None:
        """Two of four chips are the other queue's."""
        core = Core()
        core.run(2, "research")
        core.run(1, "vision")
        research, vision = views.queue_views(core.state)
        assert (research.guarantee, research.held, research.borrowed) == ({"chip-a": 2}, {"chip-a": 4}, {"chip-a": 2})
        assert (research.running, vision.waiting, vision.held) == (1, 1, {})

    @pytest.mark.parametrize(("owned", "borrows"), [(2, True), (4, False)])
    def test_what_is_owned_in_normalised_chips_alone_is_not_borrowed(self, owned: int, borrows: bool) -> None:
        """Another queue owns that kind; within its own sum a queue borrows nothing, beyond it does."""
        core = Core()
        queues = QUEUES.replace("research: {guarantee: {chip-a: 2}", f"research: {{guarantee: {{normalised: {owned}}}")
        core.tell(PolicyChanged, policy=read_policy(queues, "queues.yaml"))
        job = core.run(2, "research")
        assert views.job_view(core.state, core.state.jobs[job]).borrows is borrows
        shown = next(queue for queue in views.queue_views(core.state) if queue.name == "research")
        assert shown.guarantee == {"normalised": owned}
        assert shown.borrowed == ({"normalised": 2} if borrows else {})

    def test_without_guarantees_nobody_borrows(self) -> None:
        """A queue that is alone takes nothing from anybody."""
        core = Core()
        core.tell(PolicyChanged, policy=read_policy("queues: {default: {}}", "q"))
        name = core.run(2, "default")
        assert not views.job_view(core.state, core.state.jobs[name]).borrows
        assert views.queue_views(core.state)[0].borrowed == {}

    def test_jobs_are_found_by_id_and_by_name(self) -> None:
        """Of several of a name, the newest; an owner's own before others'."""
        core = Core()
        first, second = core.run(1, "research"), core.run(1, "research")
        found = [views.find_job(core.state, name) for name in (first, "in-research", "nothing")]
        assert [job.id if job else None for job in found] == [first, second, None]
        core.tell(JobSubmitted, claim=Claim(name="in-research", queue="research", owner="eve"))
        theirs, owner = list(core.state.jobs)[-1], core.state.jobs[first].claim.owner
        found = [views.find_job(core.state, "in-research", name) for name in ("eve", owner, "nobody")]
        assert [job.id if job else None for job in found] == [theirs, second if owner else theirs, theirs]

    @pytest.mark.parametrize(
        ("wish", "count"),
        [({}, 3), ({"queue": "vision"}, 1), ({"owner": "eve"}, 0), ({"states": ["running"]}, 2), ({"limit": 2}, 2)],
    )
    def test_lists_are_narrowed(self, wish: dict[str, Any], count: int) -> None:
        """By queue, owner, state and number."""
        core = Core()
        for queue in ("research", "vision", "research"):
            core.run(1, queue)
        assert len(views.job_list(core.state, **wish)[0]) == count

    def test_counts(self) -> None:
        """Jobs and nodes by state, chips there and in use."""
        core = Core()
        core.run(1, "research")
        assert views.counts(core.state) == ({"running": 1}, {"up": 2}, 4, 2)


class TestTryOut:
    def test_whom_it_would_stop_is_told(self) -> None:
        """A queue that wants its own chips back stops the borrower, on the copy alone."""
        core = Core()
        borrower = core.run(2, "research")
        found = try_out(Copies().of(core.state), core.submission(1, "vision"), core.state.now_us)
        assert (found.state, found.why) == ("reserved", "RECLAIMING")
        assert found.preempts == [f"in-research ({borrower})"]
        assert core.state.jobs[borrower].state == "running"
        assert len(core.state.jobs) == 1

    def test_it_starts_where_there_is_room(self) -> None:
        """With the nodes that it would get."""
        found = try_out(Copies().of(Core().state), Core().submission(2, "vision"), 0)
        assert (found.state, found.nodes) == ("preparing", ["north-1", "north-2"])

    def test_a_queue_that_is_not_there_refuses(self) -> None:
        """In the core's words."""
        found = try_out(Copies().of(Core().state), Core().submission(1, "vison"), 0)
        assert (found.state, found.text) == ("refused", "no queue vison; did you mean vision?")


class TestTelling:
    def test_a_life_in_words(self) -> None:
        """From its submission to all ranks at work, each with an id of its own."""
        core = Core()
        core.run(2, "research")
        events = [event for record in core.records for event in told(record, core.state.nodes.name)]
        lines = [f"{event.kind} {event.text}" for event in events]
        assert lines[0] == "term term 1 began"
        assert "node.added north/chip-a" in lines
        assert "policy people changed the rules" in lines
        assert "job.submitted in-research to research, by mary" in lines
        assert "attempt.began on north-1, north-2" in lines
        assert lines[-1] == "job.running "
        assert len({event.id for event in events}) == len(events)

    def test_deeds_of_a_story(self) -> None:
        """A few words each; what nobody needs to know is left out."""
        core = Core()
        core.run(1, "research")
        assert deeds(core.records[-2].changes, core.state.nodes.name) == ["attempt.began: on north-1", "job.preparing"]


class TestAnnals:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        """Give a store in which two jobs ran."""
        core, store = Core(), Store(tmp_path / "s")
        core.records.clear()
        state, annals = core.state, Annals()
        name = core.run(2, "research")
        for record in core.records:
            store.commit((), annals(state, record))
        store.commit((), [("UPDATE attempt SET began_us = 0, running_us = 5000000, ended_us = 3600000000", ())])
        assert name == f"job-{core.records[0].event.seq}"
        return store

    def test_an_attempt_is_kept(self, store: Store) -> None:
        """With its nodes, chips, queue and owner."""
        rows = store.read("SELECT id, queue, owner, nodes, chips FROM attempt")
        ((name, queue, owner, nodes, chips),) = rows
        assert (queue, owner, json.loads(nodes), chips) == ("research", "mary", ["north-1", "north-2"], 4)
        (attempt,) = books.attempts_of(store, name.partition(".")[0], 0)
        assert attempt.measured.start_s == 5.0

    @pytest.mark.parametrize(
        ("from_us", "to_us", "hours"),
        [(0, 10**12, 4.0), (1_800_000_000, 10**12, 2.0), (0, 900_000_000, 1.0), (4 * 10**9, 10**12, 0)],
    )
    def test_chip_hours_are_counted_within_the_span(self, store: Store, from_us: int, to_us: int, hours: float) -> None:
        """Four chips for an hour, as far as they lie within."""
        found = books.hours(store, from_us, to_us, 10**12)
        assert found.chip_hours == pytest.approx(hours)
        assert sum(row.chip_hours for row in found.rows) == pytest.approx(hours)


@pytest.mark.slow
class TestFleetChanges:
    def test_a_fleet_that_lost_nodes_is_asked_about(self, tmp_path: Path) -> None:
        """A wrong file does not strike nodes out; --retire-missing does, for good."""

        async def begin(count: int, **more: Any) -> list[str]:
            async with served(tmp_path, ground(nodes=count), **more) as service:
                nodes = (await service.http.get("/v1/nodes")).json()
                return [node["observed"] for node in nodes]

        assert wait(begin(3)) == ["unknown"] * 3
        with pytest.raises(BadInputError, match="no longer has 2 nodes that this service knows: north-2, north-3"):
            wait(begin(1))
        assert wait(begin(1, retire_missing=True)) == ["unknown", "retired", "retired"]
        assert wait(begin(3)) == ["unknown", "retired", "retired"]

    def test_more_nodes_are_simply_there(self, tmp_path: Path) -> None:
        """A longer file adds them, and a job that waited for them starts."""

        async def story() -> str:
            async with served(tmp_path, ground(nodes=1)) as service:
                job = await service.submit(nodes=1)
            async with served(tmp_path, ground(nodes=2)) as service:
                agents = await fleet_of(service, 2)
                found = await work_until(service, agents, job["id"], "running")
                return str(found["state"])

        assert wait(story()) == "running"

    def test_a_policy_that_drops_a_busy_queue_is_refused(self, tmp_path: Path) -> None:
        """With the queue's name; the old rules stay."""

        async def story() -> None:
            async with served(tmp_path) as service:
                await service.submit()
                body = {"document": "queues: {other: {}}"}
                refused = await service.http.put("/v1/queues", json=body)
                assert refused.status_code == 422
                assert "queues with jobs must stay" in refused.json()["detail"]
                bad = await service.http.put("/v1/queues", json={"document": "queues: {o: {guarantee: {chip-z: 1}}}"})
                assert "the fleet has no chip chip-z; did you mean chip-a?" in bad.json()["detail"]
                assert [queue["name"] for queue in (await service.http.get("/v1/queues")).json()] == ["default"]

        wait(story())
