"""What is, beside what should be: events and orders for every way in which a node can differ from the state."""

from typing import Any

from argosy.contracts.event import (
    AttemptEnded,
    AttemptRunning,
    FleetDescribed,
    JobSubmitted,
    NodeSeen,
    NodesReleased,
    PassDue,
    StopAsked,
    TermBegan,
)
from argosy.contracts.request import Claim
from argosy.contracts.run_file import read_any_job
from argosy.contracts.talk import (
    ENDED,
    RUNNING,
    STARTING,
    STOPPED,
    Forget,
    Held,
    HeldRank,
    Meeting,
    StartRun,
    StopAttempt,
)
from argosy.control.core import step
from argosy.control.state import State
from argosy.server.compare import DOUBT_US, GRACE_S, GRACE_WAIT_US, Comparer, wanted_of
from argosy.server.launching import Brief, Muster, muster
from argosy.server.planning import run_offering
from support.serving import RUN_JOB, ground

NODES = ("north-1", "north-2")
MEETING = Meeting(host="127.0.0.1", port=9)


class World:
    """A core with one job of two nodes, and what its agents hold. now_us: the clock."""

    def __init__(self, phase: str = "preparing") -> None:
        self.state, self.now_us = State(), 1_000_000
        self.fleet = ground()
        self.job = read_any_job(RUN_JOB.format(nodes=2), "job.yaml")
        offering = run_offering("j", self.job, self.fleet)
        self.tell(TermBegan)
        self.tell(FleetDescribed, pools=self.fleet.pools(), nodes=tuple(self.fleet.nodes.values()))
        for node in NODES:
            self.tell(NodeSeen, node=node, observed="up")
        self.name = f"job-{self.state.seq + 1}"
        self.tell(JobSubmitted, claim=Claim(name="j", queue="default", kind="run"), options=offering.options)
        self.tell(PassDue)
        self.attempt = self.state.attempts[f"{self.name}.1"]
        self.brief = Brief(job=self.job, config="", bundle="", offerings=(offering,))
        self.musters: dict[tuple[str, int], Muster] = {}
        self.held: dict[str, dict[str, Held]] = {node: {} for node in NODES}
        self.graces_s: dict[str, float] = {self.attempt.id: 5.0}
        self.comparer = Comparer(lambda node: self.held[node], self.musters, self.graces_s)
        if phase == "running":
            self.hold_both(RUNNING)
            self.tell(AttemptRunning, attempt=self.attempt.id, generation=1)

    def tell(self, kind: Any, **fields: Any) -> None:
        """Send the core an event."""
        term = 1 if kind is TermBegan else self.state.term
        step(self.state, kind(seq=self.state.seq + 1, now_us=self.now_us, term=term, **fields))

    def know_orders(self) -> None:
        """Work out the orders of the current generation."""
        wanted = wanted_of(self.state, self.attempt)
        self.musters[wanted.key] = muster(wanted, self.brief, self.fleet)

    def hold(self, node: str, state: str, code: int | None = None, generation: int = 1, **more: Any) -> None:
        """Let a node hold the attempt."""
        ranks = (HeldRank(rank=NODES.index(node), pid=1, code=code),)
        one = Held(attempt=self.attempt.id, generation=generation, state=state, ranks=ranks, **more)
        self.held[node] = {self.attempt.id: one}

    def hold_both(self, state: str, code: int | None = None) -> None:
        """Let both nodes hold the attempt."""
        for node in NODES:
            self.hold(node, state, code)

    def compare(self, node: str, fenced: bool = False) -> Any:
        """Compare a node."""
        return self.comparer.compare(self.state, node, fenced=fenced, now_us=self.now_us)


def kinds(found: Any) -> list[type]:
    """Name the events of a comparison."""
    return [kind for kind, _ in found.events]


class TestStarting:
    def test_orders_are_worked_out_first(self) -> None:
        """Without orders at hand, they are asked for and nothing is sent."""
        found = World().compare("north-1")
        assert [wanted.nodes for wanted in found.musters] == [NODES]
        assert found.orders == []

    def test_node_0_starts_without_a_meeting(self) -> None:
        """It makes the meeting itself."""
        world = World()
        world.know_orders()
        (order,) = world.compare("north-1").orders
        assert isinstance(order, StartRun)
        assert (order.gang.node_rank, order.gang.meeting, order.gang.world_size) == (0, None, 2)

    def test_the_others_wait_for_the_meeting(self) -> None:
        """They are told once node 0 said where; node 0's word has them compared at once."""
        world = World()
        world.know_orders()
        waiting = world.compare("north-2")
        assert (waiting.orders, waiting.again) == ([], True)
        world.hold("north-1", STARTING, meeting=MEETING)
        assert world.compare("north-1").touch == {"north-2"}
        (order,) = world.compare("north-2").orders
        assert (order.gang.node_rank, order.gang.meeting) == (1, MEETING)

    def test_all_have_to_be_at_work(self) -> None:
        """One that still starts holds the rest back; a quick one that has ended does not."""
        world = World()
        world.know_orders()
        world.hold("north-1", RUNNING)
        world.hold("north-2", STARTING)
        assert world.compare("north-1").settled
        world.hold("north-2", ENDED, code=0)
        assert kinds(world.compare("north-1")) == [AttemptRunning]

    def test_a_settled_node_needs_nothing(self) -> None:
        """While ranks run, a comparison brings nothing."""
        world = World("running")
        world.know_orders()
        assert world.compare("north-1").settled

    def test_a_new_server_works_out_the_orders_of_what_runs(self) -> None:
        """Without them it could not tell when a job counts as hung."""
        found = World("running").compare("north-1")
        assert [wanted.nodes for wanted in found.musters] == [NODES]
        assert (found.orders, found.events) == ([], [])


class TestMemory:
    def test_what_is_over_is_forgotten(self) -> None:
        """Doubts about attempts that are gone don't pile up."""
        world = World("running")
        world.comparer._doubts |= {(f"job-{number}.1", 1): 0 for number in range(1_000)}
        world.compare("north-1")
        assert len(world.comparer._doubts) <= 1


class TestEnding:
    def test_done_when_all_nodes_say_so(self) -> None:
        """One node that still runs keeps the attempt going."""
        world = World("running")
        world.know_orders()
        world.hold("north-1", ENDED, code=0)
        assert world.compare("north-1").settled
        world.hold("north-2", ENDED, code=0)
        ((kind, fields),) = world.compare("north-2").events
        assert (kind, fields["outcome"]) == (AttemptEnded, "done")

    def test_a_job_too_quick_to_be_seen_running(self) -> None:
        """It is told to have run, then to have ended."""
        world = World()
        world.hold_both(ENDED, code=0)
        assert kinds(world.compare("north-1")) == [AttemptRunning, AttemptEnded]

    def test_a_mere_symptom_waits_for_a_better_explanation(self) -> None:
        """An exit code without a word counts only after some seconds while others live."""
        world = World("running")
        world.hold("north-1", ENDED, code=1)
        doubtful = world.compare("north-1")
        assert (doubtful.events, doubtful.again) == ([], True)
        world.now_us += DOUBT_US
        ((_, fields),) = world.compare("north-1").events
        assert fields["outcome"] == "user"

    def test_ranks_that_are_gone_are_the_machines_fault(self) -> None:
        """A node that holds nothing of a running attempt lost it."""
        world = World("running")
        world.held["north-1"] = {}
        ((kind, fields),) = world.compare("north-1").events
        assert (kind, fields["outcome"]) == (AttemptEnded, "infrastructure")
        assert fields["text"] == "north-1: holds none of its ranks any more"

    def test_parked_ranks_are_the_machines_fault(self) -> None:
        """A node whose lease ran out stopped its ranks."""
        world = World("running")
        world.hold("north-2", STOPPED, parked=True, blame="infrastructure", text="the lease ran out")
        world.now_us += DOUBT_US
        ((_, fields),) = world.compare("north-2").events
        assert (fields["outcome"], fields["text"]) == ("infrastructure", "north-2: the lease ran out")


class TestLeaving:
    def test_a_stop_is_repeated_until_it_is_confirmed(self) -> None:
        """Each comparison sends it again; `stopped` frees the node."""
        world = World("running")
        world.tell(StopAsked, job=world.name)
        for _ in range(2):
            (order,) = world.compare("north-1").orders
            assert (type(order), order.generation) == (StopAttempt, 1)
        world.hold("north-1", STOPPED)
        ((kind, fields),) = world.compare("north-1").events
        assert (kind, fields["nodes"]) == (NodesReleased, ("north-1",))

    def test_a_stop_waits_for_the_grace_of_its_job(self) -> None:
        """A new server looks it up first; what can't be looked up does not hold the stop up for long."""
        world = World("running")
        grace_s = world.graces_s.pop(world.attempt.id)
        world.tell(StopAsked, job=world.name)
        world.hold_both(RUNNING)
        found = world.compare("north-1")
        assert ([wanted.nodes for wanted in found.musters], found.orders) == ([()], [])
        world.now_us += GRACE_WAIT_US
        (order,) = world.compare("north-1").orders
        assert order.grace_s == GRACE_S
        world.graces_s[world.attempt.id] = grace_s + 60.0
        (order,) = world.compare("north-1").orders
        assert order.grace_s == grace_s + 60.0

    def test_ended_is_still_to_be_stopped(self) -> None:
        """Only a stop closes the generation."""
        world = World("running")
        world.tell(StopAsked, job=world.name)
        world.hold("north-1", ENDED, code=0)
        (order,) = world.compare("north-1").orders
        assert isinstance(order, StopAttempt)

    def test_what_is_over_is_forgotten(self) -> None:
        """Once the node is free, its agent need say no more of it."""
        world = World("running")
        world.tell(StopAsked, job=world.name)
        world.hold("north-1", STOPPED)
        world.tell(NodesReleased, attempt=world.attempt.id, generation=1, nodes=("north-1",))
        (order,) = world.compare("north-1").orders
        assert isinstance(order, Forget)

    def test_what_nobody_wants_there_is_stopped(self) -> None:
        """An attempt that the state does not know of is ended, wherever it came from."""
        world = World()
        world.held["north-2"] = {"job-99.1": Held(attempt="job-99.1", generation=4, state=RUNNING)}
        stops = [order for order in world.compare("north-2").orders if isinstance(order, StopAttempt)]
        assert [(order.attempt, order.generation) for order in stops] == [("job-99.1", 4)]


class TestNodes:
    def test_a_node_that_talks_is_up(self) -> None:
        """One that was down is seen again."""
        world = World("running")
        world.tell(NodeSeen, node="north-1", observed="down")
        assert kinds(world.compare("north-1"))[0] is NodeSeen

    def test_a_new_boot_is_told(self) -> None:
        """No process of before is left."""
        world = World("running")
        (kind, fields), *_ = world.compare("north-1", fenced=True).events
        assert (kind, fields["fenced"]) == (NodeSeen, True)

    def test_an_unknown_node_gets_nothing(self) -> None:
        """A name that the core does not know is passed over."""
        world = World()
        world.held["other"] = {}
        assert world.compare("other").settled
