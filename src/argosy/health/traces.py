"""What one rank's trace says of its groups, whoever wrote it, and what is known of the ranks and links besides.

Every reader of dumps ends here, and location starts here. Pure data. Must not know any file format, nor judge.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["running", "stopped", "exited", "unreachable", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One collective, or one message, on one rank.

    sequence: counted per group; of messages it means nothing across ranks. operation: of layouts.OPERATIONS where it is
    one of them. state: of layouts.STATES. size: elements where `dtype` is known, else bytes; -1 where unknown or where
    ranks may differ by right. peer: the other rank of a message; None of a collective, -1 where it is not told.
    Times are microseconds of the writer's clock; None where the trace carries none.
    """

    sequence: int
    operation: str
    state: str = "enqueued"
    dtype: str = ""
    size: int = -1
    peer: int | None = None
    enqueued_us: int | None = None
    started_us: int | None = None
    finished_us: int | None = None

    @property
    def words(self) -> str:
        """Say what it is, for a person."""
        size = "" if self.size < 0 else f" of {self.size:,} {self.dtype or 'bytes'}"
        return f"{self.operation.replace('_', '-')}{size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTrace:
    """One group as one rank sees it; made by `group_trace`.

    group: the same text on all members. description: what the group is for; groups with one description are compared.
    members: global ranks, ascending; empty where the trace does not tell. collectives: the last ones, by sequence.
    messages: those to or from one peer that are not finished. enqueued, started: the highest sequence so far; finished:
    the highest below which nothing is open; each 0 for none where sequences count from 1, and -1 where from 0.
    starts_known: the trace tells when the device began, so that an entry on the host proves nothing. ends_known: it
    tells what is finished; where it doesn't, all looks open (see ends.py).
    """

    group: str
    description: str = ""
    members: tuple[int, ...] = ()
    collectives: tuple[Collective, ...] = ()
    messages: tuple[Collective, ...] = ()
    enqueued: int = -1
    started: int = -1
    finished: int = -1
    starts_known: bool = False
    ends_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTraceOfGroups:
    """What one rank did in all its groups.

    host: empty where unknown. phase, step: its progress mark, where it keeps one. stack: the main thread's frames,
    innermost first, as `function (file:line)`. at_us: when the trace was read, by the clock of its own times; without
    it whatever is open counts as stuck, since dumps are taken when something is. notes_messages: messages are traced,
    so that a rank with nothing open does not wait for one.
    """

    rank: int
    groups: tuple[GroupTrace, ...] = ()
    host: str = ""
    phase: str = ""
    step: int = -1
    stack: tuple[str, ...] = ()
    at_us: int | None = None
    notes_messages: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """What is known of one rank's process besides its trace.

    exit_code: below 0 for a signal. at_us: when that was seen. detail: in a person's words.
    """

    state: State = "unknown"
    host: str = ""
    exit_code: int | None = None
    at_us: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProbe:
    """What a probe between two ranks, or the counters of the link between them, said.

    ok: False where it failed. gbytes_s: what it carried; None where that was not measured.
    """

    first: int
    second: int
    ok: bool = True
    gbytes_s: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """What was asked of ranks and links; what is in neither was not asked."""

    ranks: Mapping[int, RankState] = field(default_factory=dict)
    probes: tuple[LinkProbe, ...] = ()


def group_trace(
    group: str,
    collectives: Iterable[Collective],
    *,
    description: str = "",
    members: tuple[int, ...] = (),
    messages: Iterable[Collective] = (),
    enqueued: int | None = None,
    ends_known: bool = True,
) -> GroupTrace:
    """Sum one rank's records of one group up. enqueued: where the writer counts further than its records reach."""
    ordered = tuple(sorted(collectives, key=lambda each: each.sequence))
    open_ = [each.sequence for each in ordered if each.state != "finished"]
    started = [each.sequence for each in ordered if each.state != "enqueued"]
    last = ordered[-1].sequence if ordered else -1
    return GroupTrace(
        group=group,
        description=description,
        members=members,
        collectives=ordered,
        messages=tuple(each for each in messages if each.state != "finished"),
        enqueued=last if enqueued is None else max(last, enqueued),
        started=started[-1] if started else _before(ordered),
        finished=open_[0] - 1 if open_ else last,
        starts_known=any(each.state == "started" or each.started_us is not None for each in ordered),
        ends_known=ends_known,
    )


def _before(ordered: tuple[Collective, ...]) -> int:
    return ordered[0].sequence - 1 if ordered else -1
