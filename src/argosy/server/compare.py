"""What is, beside what should be, on one node: events for what changed, orders for what is missing.

Works from the state and from what the agents last said that they hold, so nothing that was said once has to be
remembered. Runs in the loop's thread, changes nothing, and must not know how words travel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from argosy.contracts.event import AttemptEnded, AttemptRunning, NodeSeen, NodesReleased
from argosy.contracts.job import HangSpec
from argosy.contracts.policy import SECOND_US
from argosy.contracts.talk import ENDED, RUNNING, STOPPED, AnyOrder, Forget, Held, StopAttempt
from argosy.control.state import AttemptState, State
from argosy.engine.verdict import judge, judge_silence
from argosy.server.launching import Muster, Wanted

DOUBT_US = 3 * SECOND_US
"""How long a failure that may be a mere symptom waits for a better one."""
SPARE = 64
GRACE_S = 5.0
GRACE_WAIT_US = 10 * SECOND_US
"""How long a stop waits for the grace of its job to be looked up; then GRACE_S has to do."""

HeldOf = Callable[[str], Mapping[str, Held]]
"""What a node's agent last said that it holds, by attempt."""


@dataclass(slots=True, kw_only=True)
class Found:
    """What a comparison came to. musters: generations to work out the orders of. touch: nodes to compare again now.

    A generation without nodes stands for the grace of its job alone.

    again: nothing to do yet, but soon.
    """

    events: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)
    orders: list[AnyOrder] = field(default_factory=list)
    musters: list[Wanted] = field(default_factory=list)
    touch: set[str] = field(default_factory=set)
    again: bool = False

    @property
    def settled(self) -> bool:
        """Whether all is as it should be."""
        return not (self.events or self.orders or self.musters or self.again)


class Comparer:
    """Compares nodes with the state. musters: by attempt and generation; graces_s: by attempt.

    Both are there as far as they are worked out, which they are not after a restart.
    """

    def __init__(
        self, held_of: HeldOf, musters: Mapping[tuple[str, int], Muster], graces_s: Mapping[str, float]
    ) -> None:
        self._held_of, self._musters, self._graces_s = held_of, musters, graces_s
        self._doubts: dict[tuple[str, int], int] = {}
        self._asked_us: dict[str, int] = {}

    def compare(self, state: State, node: str, *, fenced: bool, now_us: int) -> Found:
        """Compare one node. fenced: its kernel was started anew since it was last heard."""
        if len(self._doubts) + len(self._asked_us) > 2 * len(state.attempts) + SPARE:
            self._prune(state)
        found = Found()
        number = state.nodes.number.get(node)
        if number is None:
            return found
        nodes, held = state.nodes, self._held_of(node)
        if nodes.observed[number] != "up" or fenced:
            found.events.append((NodeSeen, {"node": node, "observed": "up", "fenced": fenced}))
        holder, leaving = nodes.holder[number], nodes.leaving[number]
        for one in held.values():
            if one.attempt != holder:
                found.orders.append(_unwanted(state, one))
        if holder and leaving:
            self._leave(state, number, held.get(holder), now_us, found)
        elif attempt := state.attempts.get(holder):
            self._follow(state, attempt, node, now_us, found)
        return found

    def _prune(self, state: State) -> None:
        """Drop what is remembered of attempts that are over."""
        self._doubts = {key: at_us for key, at_us in self._doubts.items() if key[0] in state.attempts}
        self._asked_us = {name: at_us for name, at_us in self._asked_us.items() if name in state.attempts}

    def _leave(self, state: State, number: int, held: Held | None, now_us: int, found: Found) -> None:
        """See an attempt off a node that it has to leave."""
        nodes = state.nodes
        holder, left = nodes.holder[number], nodes.left_generation[number]
        if held is not None and held.state == STOPPED and held.generation >= left:
            fields = {"attempt": holder, "generation": held.generation, "nodes": (nodes.name[number],)}
            found.events.append((NodesReleased, fields))
            return
        job_grace_s = self._graces_s.get(holder)
        if job_grace_s is None and now_us - self._asked_us.setdefault(holder, now_us) < GRACE_WAIT_US:
            job = holder.rpartition(".")[0]
            found.musters.append(Wanted(attempt=holder, generation=left, job=job, option="", size=0, nodes=()))
            return
        self._asked_us.pop(holder, None)
        least_s = GRACE_S if job_grace_s is None else job_grace_s
        grace_s = max(least_s, (nodes.leave_by_us[number] - now_us) / SECOND_US)
        found.orders.append(_stop(state, holder, left, "it is to leave this node", grace_s))

    def _follow(self, state: State, attempt: AttemptState, node: str, now_us: int, found: Found) -> None:
        """Follow the current generation of an attempt on one of its nodes."""
        job = state.jobs[attempt.job]
        if job.state not in ("preparing", "running"):
            return
        members = state.nodes.names(attempt.all_nodes())
        key = (attempt.id, attempt.generation)
        muster = self._musters.get(key)
        if muster is None:
            # Also of one that runs: after a restart they tell when it counts as hung.
            found.musters.append(wanted_of(state, attempt))
        order = muster.order if muster else members
        together = {
            name: one
            for name in order
            if (one := self._held_of(name).get(attempt.id)) is not None and one.generation == attempt.generation
        }
        if self._ended(attempt, job.state, together, len(order), now_us, found):
            return
        mine = together.get(node)
        if job.state == "preparing":
            if len(together) == len(order) and all(one.state in (RUNNING, ENDED) for one in together.values()):
                found.events.append((AttemptRunning, {"attempt": attempt.id, "generation": attempt.generation}))
            elif mine is None and node in order:
                self._start(state, node, together, muster, found)
            elif muster and node == order[0] and mine is not None and mine.meeting is not None:
                found.touch |= {name for name in order if name not in together}
        elif mine is None and node in order:
            found.events.append(_lost(attempt, node, "holds none of its ranks any more"))

    def _start(
        self,
        state: State,
        node: str,
        together: Mapping[str, Held],
        muster: Muster | None,
        found: Found,
    ) -> None:
        """Have a node start its ranks, once it is known where they meet."""
        if muster is None:
            return
        first = together.get(muster.order[0])
        meeting = first.meeting if first else None
        if node == muster.order[0] or meeting is not None:
            found.orders.append(muster.start(node, state.term, None if node == muster.order[0] else meeting))
        else:
            found.again = True

    def _ended(
        self,
        attempt: AttemptState,
        job_state: str,
        together: Mapping[str, Held],
        count: int,
        now_us: int,
        found: Found,
    ) -> bool:
        """See whether a generation has ended, well or badly."""
        key = (attempt.id, attempt.generation)
        for name, one in together.items():
            if one.state == STOPPED and not one.blame:
                found.events.append(_lost(attempt, name, one.text or "its ranks were stopped there"))
                return True
        muster = self._musters.get(key)
        verdict = judge(together, count) or judge_silence(together, count, muster.hang if muster else HangSpec())
        if verdict is None:
            return False
        if not verdict.certain and now_us - self._doubts.setdefault(key, now_us) < DOUBT_US:
            found.again = True
            return True
        self._doubts.pop(key, None)
        fields = {"attempt": attempt.id, "generation": attempt.generation}
        if verdict.outcome == "done" and job_state == "preparing":
            found.events.append((AttemptRunning, fields))
        ending = {"outcome": verdict.outcome, "evidence": verdict.evidence, "text": verdict.text}
        found.events.append((AttemptEnded, fields | ending))
        return True


def wanted_of(state: State, attempt: AttemptState) -> Wanted:
    """Say what generation of an attempt is to run, and where."""
    return Wanted(
        attempt=attempt.id,
        generation=attempt.generation,
        job=attempt.job,
        option=attempt.rung.option,
        size=attempt.rung.size,
        nodes=state.nodes.names(attempt.all_nodes()),
    )


def _unwanted(state: State, held: Held) -> AnyOrder:
    """End what a node holds and nobody wants there; once it has ended, it need not be told any more."""
    if held.state == STOPPED:
        name = f"{held.attempt}:{held.generation}:forget"
        return Forget(id=name, term=state.term, attempt=held.attempt, generation=held.generation)
    return _stop(state, held.attempt, held.generation, "it is not wanted on this node", GRACE_S)


def _stop(state: State, attempt: str, generation: int, reason: str, grace_s: float) -> StopAttempt:
    name = f"{attempt}:{generation}:stop"
    return StopAttempt(
        id=name, term=state.term, attempt=attempt, generation=generation, reason=reason, grace_s=round(grace_s, 3)
    )


def _lost(attempt: AttemptState, node: str, text: str) -> tuple[Any, dict[str, Any]]:
    fields = {
        "attempt": attempt.id,
        "generation": attempt.generation,
        "outcome": "infrastructure",
        "evidence": f"{attempt.id}:{attempt.generation} {node} lost",
        "text": f"{node}: {text}",
    }
    return AttemptEnded, fields
