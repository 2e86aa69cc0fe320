"""Queues on wires: when a transfer starts and when its last byte arrives.

The event-level timeline and the trainer's emulated clock both use these few lines, so that what is predicted and what
is played follow one rule. First come, first served; a wire's delay is pipelined, it never occupies the queue. Must not
know plans or ranks.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Wire

BITS_PER_BYTE = 8
MS_PER_GBIT = 1e6  # bits that one Gb/s moves in a millisecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """So many bytes that want over a wire from ready_ms on.

    lane: who shares the queue on a private wire, e.g. the members of an exchange; all lanes of a shared wire are one
    queue. order: who goes first among those ready at the same time, lowest first. hops: how many one-way delays the
    last byte pays.
    """

    wire: str
    ready_ms: float
    payload_bytes: float
    lane: Hashable = None
    order: int = 0
    hops: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """When a transfer's first byte entered its wire and when its last byte arrived."""

    start_ms: float
    end_ms: float


class Queue:
    """One first-come-first-served queue of a wire; feed it in order of readiness.

    free_ms: when the last byte of all that was served has left the sender.
    """

    __slots__ = ("free_ms", "wire")

    def __init__(self, wire: Wire, free_ms: float = 0.0) -> None:
        self.wire = wire
        self.free_ms = free_ms

    def serve(self, ready_ms: float, payload_bytes: float, hops: int = 1) -> Served:
        """Send bytes as soon as they are ready and the wire is free."""
        start_ms = max(ready_ms, self.free_ms)
        self.free_ms = start_ms + send_ms(self.wire, payload_bytes)
        return Served(start_ms=start_ms, end_ms=self.free_ms + hops * self.wire.one_way_ms)


def send_ms(wire: Wire, payload_bytes: float) -> float:
    """Time that bytes occupy a wire, its delay not counted: bytes x 8 / rate."""
    if wire.gbps <= 0:
        raise BadInputError(f"wire {wire.name!r} carries {wire.gbps} Gb/s; a wire that is used needs more than 0")
    return payload_bytes * BITS_PER_BYTE / (wire.gbps * MS_PER_GBIT)


def find_wire(wires: Sequence[Wire], name: str) -> Wire:
    """Look up a wire by name."""
    for wire in wires:
        if wire.name == name:
            return wire
    known = ", ".join(wire.name for wire in wires) or "none"
    raise BadInputError(f"no wire {name!r} in the plan; it has: {known}")


def schedule(transfers: Sequence[Transfer], wires: Sequence[Wire]) -> tuple[Served, ...]:
    """Serve transfers on wires that are idle at first; answers in the order of `transfers`.

    Each queue serves by (ready_ms, order, position). The work is O(n log n).

    >>> link = Wire(name="link", gbps=8, one_way_ms=1, shared=True)
    >>> schedule([Transfer(wire="link", ready_ms=0, payload_bytes=2e6)], [link])
    (Served(start_ms=0, end_ms=3.0),)
    """
    by_name = {wire.name: wire for wire in wires}
    queues: dict[tuple[str, Hashable], Queue] = {}
    ends: dict[int, Served] = {}
    for _, _, index in sorted([(one.ready_ms, one.order, index) for index, one in enumerate(transfers)]):
        transfer = transfers[index]
        queue = queue_of(transfer, by_name, queues)
        ends[index] = queue.serve(transfer.ready_ms, transfer.payload_bytes, transfer.hops)
    return tuple(ends[index] for index in range(len(transfers)))


def queue_of(transfer: Transfer, wires: Mapping[str, Wire], queues: dict[tuple[str, Hashable], Queue]) -> Queue:
    """Find the queue a transfer waits in, making it at first use."""
    wire = wires.get(transfer.wire) or find_wire(tuple(wires.values()), transfer.wire)
    key = (wire.name, None if wire.shared else transfer.lane)
    if key not in queues:
        queues[key] = Queue(wire)
    return queues[key]
