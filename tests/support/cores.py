"""A core with a clock and obedient agents, for tests: send events, let commands be obeyed, look at what came of it."""

from argosy.contracts.command import Launch, RunPass, Stop
from argosy.contracts.event import (
    AttemptEnded,
    AttemptRunning,
    FleetDescribed,
    IncidentFound,
    JobSubmitted,
    NodeSeen,
    NodesReleased,
    PassDue,
    PolicyChanged,
    TermBegan,
    TimeReached,
)
from argosy.contracts.fleet import Node
from argosy.contracts.incident import Culprit, Incident
from argosy.contracts.option import Option, Part, Size
from argosy.contracts.policy import SECOND_US, Policy, Queue
from argosy.contracts.request import Claim, Pool
from argosy.control.change import Refused
from argosy.control.core import step
from argosy.control.explain import explain
from argosy.control.state import State
from argosy.control.validate import problems

STEPS_MAX = 100_000


def queue(name, **more):
    """Make a queue; guarantee etc. as keywords."""
    return Queue(name=name, **more)


def policy(*queues, **more):
    """Make a policy whose failures are not gathered, so that tests need no waiting."""
    return Policy(queues=queues or (Queue(name="default"),), **({"gather_s": 0.0} | more))


def fleet(**groups):
    """Pools and nodes from `north_h800=(count, rack, spine)`; a pool is SITE_KIND, its nodes have 8 chips."""
    pools, nodes = [], []
    for name, shape in groups.items():
        site, kind = name.split("_")
        count, rack, spine = shape if isinstance(shape, tuple) else (shape, 4, 16)
        pools.append(Pool(name=f"{site}/{kind}", kind=kind, site=site, chips_per_node=8))
        nodes += [
            Node(
                name=f"{site}-{kind}-{i + 1}",
                site=site,
                chip_class=f"{site}/{kind}",
                chips=8,
                rack=i // rack,
                spine=i // spine,
            )
            for i in range(count)
        ]
    return tuple(pools), tuple(nodes)


def size(pool, nodes, near="site", rate=None, cost=None):
    """One size on one pool; its rate is its node count unless told."""
    part = Part(chip_class=pool, nodes=nodes, topology=near)
    return Size(parts=(part,), tokens_per_second=float(rate or nodes), efficiency=1.0, cost_per_trillion_tokens=cost)


def option(*sizes, name="option"):
    """Make an option of these sizes."""
    return Option(name=name, job="", ladder=sizes)


class Core:
    """The core of one small fleet; every event's outcome is checked against all cross-links."""

    def __init__(self, rules=None, check=True, seed=0, order=tuple, **groups):
        self.state, self.now_us, self.records, self.check = State(seed), 0, [], check
        self.inbox = []
        self.nodes = fleet(**groups)
        self.send(TermBegan, term=1)
        self.send(PolicyChanged, policy=rules or policy())
        self.send(FleetDescribed, pools=order(self.nodes[0]), nodes=order(self.nodes[1]))
        for node in self.nodes[1]:
            self.send(NodeSeen, node=node.name, observed="up")

    def send(self, kind, **fields):
        """Send one event; commands wait in the inbox."""
        fields = {"term": self.state.term or 1} | fields
        record = step(self.state, kind(seq=self.state.seq + 1, now_us=self.now_us, **fields))
        self.records.append(record)
        self.inbox += record.commands
        if self.check:
            assert problems(self.state) == [], record
        return record

    def submit(self, *sizes, queue="default", name="job", options=None, run=True, **claim):
        """Submit a job with one option of these sizes and give its state."""
        claim = Claim(name=name, queue=queue, **claim)
        self.send(JobSubmitted, claim=claim, options=options or (option(*sizes),))
        job = self.state.jobs.get(f"job-{self.state.seq}")
        if run:
            self.run()
        return job

    def run(self):
        """Obey all commands, at once, until none is left; stops with a notice wait for their time."""
        for _ in range(STEPS_MAX):
            ready = [c for c in self.inbox if not (isinstance(c, Stop) and c.by_us > self.now_us)]
            if not ready:
                return self
            passes = [c for c in ready if isinstance(c, RunPass)]
            command = next((c for c in ready if not isinstance(c, RunPass)), None)
            if command is None:
                self.inbox = [c for c in self.inbox if c not in passes]
                self.send(PassDue)
            else:
                self.inbox.remove(command)
                self.obey(command)
        raise AssertionError("the core never comes to rest")

    def obey(self, command):
        """Do what one command says."""
        if isinstance(command, Launch):
            self.send(AttemptRunning, attempt=command.attempt, generation=command.generation)
        elif isinstance(command, Stop):
            alive = tuple(n for n in command.nodes if self.observed(n) == "up")
            if alive:
                self.send(NodesReleased, attempt=command.attempt, generation=command.generation, nodes=alive)

    def wait(self, seconds):
        """Let time pass, with every timer going off and every command obeyed on the way."""
        end_us = self.now_us + round(seconds * SECOND_US)
        for _ in range(STEPS_MAX):
            self.run()
            times = [t[0] for t in self.state.timers[:1]] + [c.by_us for c in self.inbox if isinstance(c, Stop)]
            coming = min((time_us for time_us in times if time_us <= end_us), default=None)
            if coming is None:
                break
            self.now_us = max(self.now_us, coming)
            if self.state.timers and self.state.timers[0][0] <= self.now_us:
                self.send(TimeReached)
        self.now_us = end_us
        return self

    def end(self, job, outcome="done", evidence="", text=""):
        """End a job's current attempt."""
        attempt = self.state.attempts[job.attempt]
        self.send(
            AttemptEnded,
            attempt=attempt.id,
            generation=attempt.generation,
            outcome=outcome,
            evidence=evidence or f"exit {self.state.seq}",
            text=text,
        )
        return self.run()

    def incident(self, job, remedy, nodes=(), evidence="", fault="gpu.ecc"):
        """Report a fault of a job's current attempt."""
        attempt = self.state.attempts[job.attempt]
        found = Incident(
            fault_class=fault, culprit=Culprit(kind="host"), confidence="high", remedy=remedy, advice="look"
        )
        return self.send(
            IncidentFound,
            attempt=attempt.id,
            generation=attempt.generation,
            evidence=evidence or f"fault {self.state.seq}",
            incident=found,
            nodes=tuple(nodes),
        )

    def down(self, *names):
        """See nodes go down."""
        for name in names:
            self.send(NodeSeen, node=name, observed="down")

    def observed(self, name):
        """Say what a node is seen as."""
        return self.state.nodes.observed[self.state.nodes.number[name]]

    def held(self, job):
        """Names of the nodes a job runs on."""
        attempt = self.state.attempts.get(job.attempt)
        return self.state.nodes.names(attempt.all_nodes()) if attempt else ()

    def why(self, job):
        """Why a job waits."""
        return explain(self.state, job.id)

    def refusals(self):
        """Texts of all refusals so far."""
        return [c.text for record in self.records for c in record.changes if isinstance(c, Refused)]

    def count(self, kind):
        """How many changes of a kind were made."""
        return sum(isinstance(change, kind) for record in self.records for change in record.changes)
