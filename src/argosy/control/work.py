"""One step in the making: the event, the changes decided so far (applied at once), and the commands to send after.

Handlers get a Work and nothing else to write to. Must not know any particular event.
"""

from collections.abc import Iterable

from argosy.contracts.command import AnyCommand, Launch, RequestOptions, RunPass, Stop, Tell, WakeAt
from argosy.contracts.event import AnyEvent
from argosy.contracts.policy import SECOND_US
from argosy.control.apply import apply
from argosy.control.change import CODE_VERSION, AnyChange, Record, Refused, Reserved, TimersDone, TimerSet, Unreserved
from argosy.control.state import AttemptState, State
from argosy.control.transitions import illegal

# As tuples, since a union of types is made anew whenever it is written.
HOLDS, TIMERS = (Reserved, Unreserved), (TimerSet, TimersDone)


class Work:
    """What a handler works with."""

    def __init__(self, state: State, event: AnyEvent) -> None:
        self.state, self.event = state, event
        self.changes: list[AnyChange] = []
        self.commands: list[AnyCommand] = []
        self._wants_pass = False
        self._loosed: set[int] = set()

    @property
    def now_us(self) -> int:
        """The event's time."""
        return self.state.now_us

    def change(self, change: AnyChange) -> None:
        """Decide something: it holds from now on."""
        if isinstance(change, HOLDS) and change.job in self.state.reservations:
            self._loosed.update(self.state.reservations[change.job].nodes)
        apply(self.state, change)
        self.changes.append(change)

    def refuse(self, about: str, text: str) -> None:
        """Note that the event is old, unknown or impossible, and that nothing came of it."""
        self.change(Refused(about=about, text=text))

    def later(self, delay_s: float, purpose: str, about: str = "") -> None:
        """Look at something again after a while."""
        self.at(self.now_us + round(delay_s * SECOND_US), purpose, about)

    def at(self, at_us: int, purpose: str, about: str = "") -> None:
        """Look at something again at a time."""
        self.change(TimerSet(at_us=at_us, purpose=purpose, about=about))

    def launch(self, attempt: AttemptState) -> None:
        """Have the current generation of an attempt run."""
        names = tuple(self.state.nodes.names(part) for part in attempt.nodes)
        self.commands.append(
            Launch(
                id=self._id(),
                term=self.state.term,
                attempt=attempt.id,
                generation=attempt.generation,
                job=attempt.job,
                option=attempt.rung.option,
                size=attempt.rung.size,
                nodes=names,
            )
        )

    def stop(self, attempt: AttemptState, numbers: Iterable[int], reason: str, by_us: int) -> None:
        """Have an attempt leave nodes."""
        names = self.state.nodes.names(numbers)
        if names:
            self.commands.append(
                Stop(
                    id=self._id(),
                    term=self.state.term,
                    attempt=attempt.id,
                    generation=attempt.generation,
                    nodes=names,
                    reason=reason,
                    by_us=by_us,
                )
            )

    def ask_options(self, job: str, reason: str, nodes: tuple[int, ...] = ()) -> None:
        """Have the planner find ways to run a job."""
        names = self.state.nodes.names(nodes)
        self.commands.append(RequestOptions(id=self._id(), term=self.state.term, job=job, reason=reason, nodes=names))

    def tell(self, about: str, text: str) -> None:
        """Let people know."""
        self.commands.append(Tell(id=self._id(), term=self.state.term, about=about, text=text))

    def want_pass(self) -> None:
        """Have the pass run soon."""
        self._wants_pass = True

    def record(self) -> Record:
        """Close the step: one request for a pass and one for the next time, whatever asked for them."""
        # Nodes that are held no longer may suit jobs that a pass has looked at already.
        if self._wants_pass or any(self.state.nodes.placeable[number] for number in self._loosed):
            self.commands.append(RunPass(id=self._id(), term=self.state.term))
        if self.state.timers and any(isinstance(change, TIMERS) for change in self.changes):
            self.commands.append(WakeAt(id=self._id(), term=self.state.term, at_us=self.state.timers[0][0]))
        changes, commands = tuple(self.changes), tuple(self.commands)
        return Record(event=self.event, changes=changes, commands=commands, code=CODE_VERSION)

    def _id(self) -> str:
        return f"{self.state.seq}.{len(self.commands)}"


def begin(state: State, event: AnyEvent) -> None:
    """Set number and time of the event that is about to be handled or replayed."""
    if event.seq != state.seq + 1:
        raise illegal(f"event {event.seq} does not follow {state.seq}")
    if event.now_us < state.now_us:
        raise illegal(f"event {event.seq} goes back in time, from {state.now_us} to {event.now_us} us")
    state.seq, state.now_us = event.seq, event.now_us
