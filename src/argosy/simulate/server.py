"""A simulated server: it drives the core, keeps its log, and turns heartbeats into events and commands into messages.

It may crash at any instant and lose everything but the log. What heartbeats say is compared with the state, so lost
messages only cost time. Must not decide anything itself.
"""

from collections.abc import Callable
from typing import Any

from argosy.contracts.command import AnyCommand, Launch, RequestOptions, RunPass, Stop, WakeAt
from argosy.contracts.event import (
    AttemptEnded,
    AttemptRunning,
    NodeSeen,
    NodesReleased,
    OptionsOffered,
    PassDue,
    TermBegan,
    TimeReached,
)
from argosy.contracts.option import Option
from argosy.control import core
from argosy.control.state import AttemptState, State
from argosy.simulate.agents import Agent, Beat, Message
from argosy.simulate.keeping import Kept
from argosy.simulate.world import MILLISECOND_US, SECOND_US, Network, World

DOWN_AFTER_US = 26 * SECOND_US
WATCH_US = 4 * SECOND_US
PASS_DELAY_US = 100 * MILLISECOND_US


class Server:
    """The driver of one core. disk_full: appends fail; up: it runs. broken: rules found broken, in words."""

    def __init__(self, world: World, network: Network, seed: int, options: Callable[[str], tuple[Option, ...]]) -> None:
        self.world, self.network, self.options = world, network, options
        self.agents: dict[str, Agent] = {}
        self.state = State(seed)
        self.kept = Kept(self.state)
        self.term, self.up, self.disk_full = 0, True, False
        self.broken: list[str] = []
        self.events = 0
        self._pass_asked = self._void = False
        self._boots: dict[str, int] = {}
        self._heard_us: dict[str, int] = {}
        self._last: dict[str, Beat] = {}
        self._session = 0
        world.after(WATCH_US, self._watch)

    def send(self, kind: Any, **fields: Any) -> bool:
        """Append one event and do what the core says; False when the log could not be written."""
        if not self.up or (self.disk_full and self._void):
            return False
        event = kind(seq=self.state.seq + 1, now_us=self.world.now_us, term=self.term, **fields)
        record = core.step(self.state, event)
        if self.disk_full:
            # What was not written did not happen: the state in memory is void. Until the log takes lines again there
            # is no use in deciding more.
            self._rebuild()
            self._void = True
            return False
        self._void = False
        self.kept.add(record, self.state)
        self.events += 1
        for command in record.commands:
            self._do(command)
        self.kept.after_event(record)
        return True

    def start(self, term: int) -> None:
        """Lead from now on: rebuild the state, take a new term, and send again what may have been lost."""
        self._rebuild()
        self.up, self.term = True, term
        self._session += 1
        self._pass_asked = False
        self._boots.clear()
        self._last.clear()
        self._heard_us = dict.fromkeys(self.agents, self.world.now_us)
        if not self.send(TermBegan):
            # Whoever can't write that it leads does not lead.
            self.crash()
            self.world.after(2 * SECOND_US, lambda: self.start(term))
            return
        self._ask_pass()
        if self.state.timers:
            self._wake(self.state.timers[0][0])
        for job in list(self.state.jobs.values()):
            if job.asked and job.state != "ended":
                self._plan(job.id)

    def crash(self) -> None:
        """Lose everything but the log; commands on their way to the network are lost too."""
        self.up = False
        self._session += 1

    def hear(self, beat: Beat) -> None:
        """Compare a heartbeat with the state: events for what changed, messages again for what got lost."""
        if not self.up:
            return
        name, nodes = beat.node, self.state.nodes
        last = self._last.get(name)
        if last is not None and (beat.boot, beat.sent_us) < (last.boot, last.sent_us):
            return
        self._heard_us[name], self._last[name] = self.world.now_us, beat
        agent, term, lease_us = self.agents[name], self.term, self._lease_us()
        self.network.send(name, lambda: agent.renew(beat.boot, beat.sent_us, term, lease_us))
        known = self._boots.get(name)
        number = nodes.number[name]
        if known != beat.boot or nodes.observed[number] != "up":
            # After a crash nobody knows whether the process is another one: what it runs tells.
            fenced = known is not None and known != beat.boot
            if not self.send(NodeSeen, node=name, observed="up", fenced=fenced):
                return
            self._boots[name] = beat.boot
        self._compare(beat, number)

    def _compare(self, beat: Beat, number: int) -> None:
        """Follow up on the attempts that a node has, should have, or should not have."""
        nodes = self.state.nodes
        holder = nodes.holder[number]
        attempt = self.state.attempts.get(holder)
        for name, generation in beat.running.items():
            stale = name != holder or (attempt is not None and generation < attempt.generation)
            if stale and not (name == holder and nodes.leaving[number]):
                self._stop(beat.node, name, generation, self.world.now_us)
        if holder and nodes.leaving[number]:
            left = nodes.left_generation[number]
            if holder not in beat.running and beat.closed.get(holder, -1) >= left:
                self.send(NodesReleased, attempt=holder, generation=left, nodes=(beat.node,))
            elif self.world.now_us >= nodes.leave_by_us[number]:
                self._stop(beat.node, holder, left, self.world.now_us)
        elif attempt is not None:
            self._follow(beat, attempt)

    def _follow(self, beat: Beat, attempt: AttemptState) -> None:
        """Follow a live attempt on one of its nodes: started, ended, or its launch lost."""
        job = self.state.jobs[attempt.job]
        generation, outcome = beat.exits.get(attempt.id, (-1, ""))
        name = f"{attempt.id}:{attempt.generation}"
        if generation == attempt.generation and job.state in ("preparing", "running"):
            self.send(
                AttemptEnded,
                attempt=attempt.id,
                generation=generation,
                outcome=outcome,
                evidence=f"{name} {beat.node} {outcome}",
            )
        elif beat.running.get(attempt.id) == attempt.generation:
            members = self.state.nodes.names(attempt.all_nodes())
            beats = [self._last.get(member) for member in members]
            if job.state == "preparing" and all(
                last and last.running.get(attempt.id) == attempt.generation for last in beats
            ):
                self.send(AttemptRunning, attempt=attempt.id, generation=attempt.generation)
        elif job.state == "preparing":
            self._launch(attempt, beat.node)
        elif job.state == "running":
            evidence = f"{name} {beat.node} lost its ranks"
            self.send(
                AttemptEnded,
                attempt=attempt.id,
                generation=attempt.generation,
                outcome="infrastructure",
                evidence=evidence,
            )

    def _do(self, command: AnyCommand) -> None:
        """Turn one command into messages or calls."""
        if isinstance(command, Launch):
            attempt = self.state.attempts.get(command.attempt)
            if attempt is not None and attempt.generation == command.generation:
                for names in command.nodes:
                    for name in names:
                        self._launch(attempt, name)
        elif isinstance(command, Stop):
            for name in command.nodes:
                self._stop(name, command.attempt, command.generation, command.by_us)
        elif isinstance(command, RunPass):
            self._ask_pass()
        elif isinstance(command, WakeAt):
            self._wake(command.at_us)
        elif isinstance(command, RequestOptions):
            self._plan(command.job)

    def _launch(self, attempt: AttemptState, name: str) -> None:
        lead = self.state.nodes.names(attempt.all_nodes())[0] == name
        runs_us = (40 + sum(map(ord, attempt.job)) * 7 % 400) * SECOND_US
        self._post(name, attempt.id, attempt.generation, lead=lead, runs_us=runs_us)

    def _stop(self, name: str, attempt: str, generation: int, by_us: int) -> None:
        self._post(name, attempt, generation, stops=True, by_us=by_us)

    def _post(self, name: str, attempt: str, generation: int, **more: Any) -> None:
        agent = self.agents[name]
        boot, until_us = self._boots.get(name, 0), self._heard_us.get(name, self.world.now_us) + self._lease_us()
        message = Message.stamped(self.term, attempt, generation, boot=boot, until_us=until_us, **more)
        self.network.send(name, lambda: agent.obey(message))

    def _lease_us(self) -> int:
        return State.us(self.state.policy.lease_s)

    def _plan(self, job: str) -> None:
        session = self._session

        def answer() -> None:
            alive = job in self.state.jobs and self.state.jobs[job].state != "ended"
            wanted = alive and session == self._session
            if wanted and not self.send(OptionsOffered, job=job, options=self.options(job)):
                self._plan(job)

        self.world.after(self.world.dice.between(10, 3000) * MILLISECOND_US, answer)

    def _ask_pass(self) -> None:
        """Have one pass run soon, however many ask."""
        if not self._pass_asked:
            self._pass_asked = True
            session = self._session
            self.world.after(PASS_DELAY_US, lambda: self._pass(session))

    def _pass(self, session: int) -> None:
        if session == self._session:
            self._pass_asked = False
            if not self.send(PassDue):
                self._ask_pass()

    def _wake(self, at_us: int) -> None:
        session = self._session
        self.world.at(at_us, lambda: self._time(session))

    def _time(self, session: int) -> None:
        due = session == self._session and self.state.timers and self.state.timers[0][0] <= self.world.now_us
        if due and not self.send(TimeReached):
            self._wake(self.world.now_us + SECOND_US)

    def _watch(self) -> None:
        """See nodes go down that have been silent too long."""
        self.world.after(WATCH_US, self._watch)
        if not self.up:
            return
        for name, heard_us in list(self._heard_us.items()):
            number = self.state.nodes.number.get(name)
            silent = self.world.now_us - heard_us >= DOWN_AFTER_US
            if number is not None and silent and self.state.nodes.observed[number] in ("up", "suspect"):
                self.send(NodeSeen, node=name, observed="down")

    def _rebuild(self) -> None:
        """Rebuild the state from snapshot and log."""
        self.state = self.kept.rebuilt()
