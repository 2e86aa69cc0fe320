"""How an agent refuses what is old: a command counts only if its term and generation are the newest it has seen.

A stop closes its generation: a launch of the same generation that arrives later, held up on the way, is refused. Pure
state of one agent process; it must not know how commands arrive, except that none sent to a former process reaches it.
"""

from dataclasses import dataclass, field

ATTEMPTS_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a command is judged by. stops: it ends the generation rather than runs it."""

    term: int
    attempt: str
    generation: int
    stops: bool = False


@dataclass(slots=True)
class Fence:
    """What an agent remembers: the highest term, and the newest generation of each attempt, closed or not."""

    term: int = 0
    generations: dict[str, int] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)

    def refusal(self, stamp: Stamp) -> str:
        """Judge a command and remember it: empty when it is to be obeyed, else why it is refused."""
        if stamp.term < self.term:
            return f"term {stamp.term} is over; {self.term} leads"
        self.term = stamp.term
        newest = self.generations.get(stamp.attempt, -1)
        if stamp.generation < newest:
            return f"generation {stamp.generation} of {stamp.attempt} is over; {newest} is current"
        if not stamp.stops and stamp.generation <= self.closed.get(stamp.attempt, -1):
            return f"generation {stamp.generation} of {stamp.attempt} was stopped"
        self.generations.pop(stamp.attempt, None)  # what was used last is forgotten last
        self.generations[stamp.attempt] = stamp.generation
        if stamp.stops:
            self.closed[stamp.attempt] = stamp.generation
        if len(self.generations) > ATTEMPTS_MAX:
            oldest = next(iter(self.generations))
            del self.generations[oldest]
            self.closed.pop(oldest, None)
        return ""
