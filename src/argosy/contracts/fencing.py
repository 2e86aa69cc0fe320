"""How an agent refuses what is old: a command counts only if its term and generation are the newest it has seen.

Pure state of one agent; it must not know how commands arrive. A command seen before is refused as well, so messages
may be doubled and reordered freely.
"""

from dataclasses import dataclass, field

SEEN_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a command is judged by. generation: -1 for a command that is about no attempt."""

    term: int
    command: str
    attempt: str = ""
    generation: int = -1


@dataclass(slots=True)
class Fence:
    """What an agent remembers: the highest term, each attempt's highest generation, and the last commands."""

    term: int = 0
    generations: dict[str, int] = field(default_factory=dict)
    seen: dict[str, None] = field(default_factory=dict)

    def refusal(self, stamp: Stamp) -> str:
        """Judge a command and remember it: empty when it is to be obeyed, else why it is refused."""
        if stamp.term < self.term:
            return f"term {stamp.term} is over; {self.term} leads"
        newest = self.generations.get(stamp.attempt, -1)
        if stamp.attempt and stamp.generation < newest:
            return f"generation {stamp.generation} of {stamp.attempt} is over; {newest} is current"
        if stamp.command in self.seen:
            return f"command {stamp.command} was obeyed already"
        self.term = stamp.term
        if stamp.attempt:
            self.generations[stamp.attempt] = stamp.generation
        self.seen[stamp.command] = None
        if len(self.seen) > SEEN_MAX:
            del self.seen[next(iter(self.seen))]
        return ""
