"""What holds a plan back: its step timed again with one limit eased at a time, and how full its memory is.

Asks the timeline; changes nothing but what is eased. Must not choose, nor know how plans are found.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from argosy.contracts.plan import Plan, Stage, Wire
from argosy.plan.costs.memory import reserve_gb
from argosy.plan.folding import fold
from argosy.plan.timing.timeline import steady


@dataclass(frozen=True, slots=True, kw_only=True)
class Eased:
    """One limit that was eased. what: in words; step_ms: the step then; gain: the part of the step that it saves."""

    what: str
    step_ms: float
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The fullest stage of a class. replicas: how many have it; stage: counted from 1, of `stages`.

    memory_gb: reserve_gb is within it, for the allocator's gaps and the runtime.
    """

    chip_class: str
    stage: int
    stages: int
    replicas: int
    memory_gb: float
    limit_gb: float
    reserve_gb: float = 0.0

    @property
    def spare_gb(self) -> float:
        """What its chips have left beside all that, 10^9 bytes."""
        return self.limit_gb - self.memory_gb


def eased_limits(plan: Plan) -> tuple[Eased, ...]:
    """Time a plan with each of its limits eased, those that help most first; others are left as they are."""
    folded = fold(replace(plan, placement=())).plan
    # Like replicas do like things, so one of each takes as long as all; the wires already carry all of them.
    shown = replace(folded, global_batch_size=sum(replica.sequences for replica in folded.replicas))
    base_ms = steady(shown).step_ms
    found = []
    for what, change in RELIEFS.items():
        eased = change(shown)
        if eased != shown:
            step_ms = steady(eased).step_ms
            found.append(Eased(what=what, step_ms=step_ms, gain=1 - step_ms / base_ms))
    return tuple(sorted(found, key=lambda eased: -eased.gain))


def rooms(plan: Plan) -> tuple[Room, ...]:
    """Find the fullest stage of each class."""
    folded = fold(plan)
    found: dict[str, Room] = {}
    for replica, count in zip(folded.plan.replicas, folded.counts, strict=True):
        for index, stage in enumerate(plan.places(replica)):
            room = Room(
                chip_class=stage.chip_class,
                stage=index + 1,
                stages=len(plan.places(replica)),
                replicas=count,
                memory_gb=stage.memory_gb,
                limit_gb=stage.memory_limit_gb,
                reserve_gb=reserve_gb(stage.memory_gb, emulated=plan.emulated),
            )
            known = found.get(stage.chip_class)
            if known is None or fullness(room) > fullness(known):
                found[stage.chip_class] = room
    return tuple(found.values())


def fullness(room: Room) -> float:
    """Give the part of a chip's memory that is in use."""
    return room.memory_gb / room.limit_gb if room.limit_gb else 0.0


def with_wires(plan: Plan, wanted: Callable[[Wire], bool], change: Callable[[Wire], Wire]) -> Plan:
    """Change some of a plan's wires."""
    return replace(plan, wires=tuple(change(wire) if wanted(wire) else wire for wire in plan.wires))


def with_stages(plan: Plan, change: Callable[[Stage], Stage]) -> Plan:
    """Change every stage of a plan."""
    replicas = (replace(replica, stages=tuple(change(stage) for stage in replica.stages)) for replica in plan.replicas)
    return replace(plan, replicas=tuple(replicas))


def twice_as_fast(wire: Wire) -> Wire:
    """Double a wire's rate."""
    return replace(wire, gbps=2 * wire.gbps)


def at_once(wire: Wire) -> Wire:
    """Take a wire's delay away."""
    return replace(wire, one_way_ms=0.0)


RELIEFS: dict[str, Callable[[Plan], Plan]] = {
    "long links twice as fast": lambda plan: with_wires(plan, lambda wire: wire.long_link, twice_as_fast),
    "long links without delay": lambda plan: with_wires(plan, lambda wire: wire.long_link, at_once),
    "networks inside sites twice as fast": lambda plan: with_wires(plan, lambda w: not w.long_link, twice_as_fast),
    "no gradients to exchange": lambda plan: replace(plan, exchanges=()),
    "no optimizer's step": lambda plan: with_stages(plan, lambda stage: replace(stage, update_ms=0.0)),
}
