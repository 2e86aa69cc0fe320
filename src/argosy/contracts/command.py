"""What the core wants done: every output of `control.core.step`; whoever drives it turns these into deeds.

Commands leave after the log's record is committed. Each carries the term and an id (`SEQ.INDEX`), so an agent can
refuse what is old (`contracts.fencing`) and one sent twice does no harm. Pure data.
"""

import msgspec


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """What every command carries. id: `SEQ.INDEX` of the record it came from."""

    id: str
    term: int


class RequestOptions(Command, frozen=True, kw_only=True, tag="request_options"):
    """Ask the planner for ways to run the job. nodes: where it holds nodes it would like to keep, their names."""

    job: str
    reason: str
    nodes: tuple[str, ...] = ()


class Launch(Command, frozen=True, kw_only=True, tag="launch"):
    """Run this generation of an attempt on these nodes, one tuple of names for each part of the option's size."""

    attempt: str
    generation: int
    job: str
    option: str
    size: int
    nodes: tuple[tuple[str, ...], ...]


class Stop(Command, frozen=True, kw_only=True, tag="stop"):
    """End all ranks of the attempt up to this generation on these nodes.

    by_us: by then it must have checkpointed and left; the current time means at once. Agents answer NodesReleased.
    """

    attempt: str
    generation: int
    nodes: tuple[str, ...]
    reason: str
    by_us: int


class WakeAt(Command, frozen=True, kw_only=True, tag="wake_at"):
    """Send TimeReached once the clock is past this."""

    at_us: int


class RunPass(Command, frozen=True, kw_only=True, tag="run_pass"):
    """Send one PassDue soon; several of these ask for one pass."""


class Tell(Command, frozen=True, kw_only=True, tag="tell"):
    """Tell people what was decided and why. about: a job, a node or the fleet."""

    about: str
    text: str


AnyCommand = RequestOptions | Launch | Stop | WakeAt | RunPass | Tell
