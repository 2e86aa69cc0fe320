"""A pipeline's walk through one step, piece of work by piece of work: the rules that `plan.timing.rounds` compiles.

Follows docs/plan.md ("The rules of a step"). Must not know exchanges, updates or other replicas.
"""

from dataclasses import dataclass

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan, Replica
from argosy.network.wires import find_wire, send_ms
from argosy.plan.timing.schedules import BACKWARD, FORWARD, KINDS, place_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """One replica as the walk sees it.

    works_ms: forward, backward and, where the schedule runs it apart, the weights' part of backward, by stage.
    posts_ms: sending and delay of the boundary behind each stage.
    """

    schedule: str
    microbatches: int
    works_ms: tuple[tuple[float, float, float], ...]
    posts_ms: tuple[tuple[float, float], ...]
    virtual_stages: int = 1

    @property
    def places(self) -> int:
        """On how many places it runs."""
        return len(self.works_ms) // self.virtual_stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """When each place is through with a step, and when the last piece of work of each stage began; ms.

    The last piece is what makes its weights' gradients whole. work: (kind, stage, micro-batch, start, end); empty where
    nobody wants it listed.
    """

    ends_ms: tuple[float, ...]
    last_ms: tuple[float, ...]
    work: tuple[tuple[str, int, int, float, float], ...] = ()


def pipeline_of(plan: Plan, replica: Replica) -> Pipeline:
    """See a replica as a pipeline."""
    wires = {wire.name: wire for wire in plan.wires}
    found = [wires.get(send.wire) or find_wire(plan.wires, send.wire) for send in replica.sends]
    return Pipeline(
        schedule=plan.schedule,
        microbatches=replica.microbatches,
        works_ms=tuple(plan.parts_ms(stage) for stage in replica.stages),
        posts_ms=tuple(
            (send_ms(wire, send.payload_bytes), wire.one_way_ms)
            for wire, send in zip(found, replica.sends, strict=True)
        ),
        virtual_stages=plan.virtual_stages,
    )


def walk(pipeline: Pipeline, begins_ms: tuple[float, ...]) -> Passage:
    """Run forwards and backwards from the places' clocks on.

    Each place works down its own order until it waits for something that has not been sent; what it sends wakes its
    neighbour.
    """
    places = pipeline.places
    shape = (places, pipeline.microbatches, pipeline.virtual_stages)
    orders = [place_order(pipeline.schedule, place, *shape) for place in range(places)]
    nexts, clocks, last = [0] * places, list(begins_ms), [0.0] * len(pipeline.works_ms)
    posts = Posts(pipeline)
    work: list[tuple[str, int, int, float, float]] = []
    awake = list(range(places - 1, -1, -1))
    while awake:
        place = awake.pop()
        order = orders[place]
        while nexts[place] < len(order):
            kind, stage, microbatch = order[nexts[place]]
            arrival = posts.arrival_ms(kind, stage, microbatch)
            if arrival is None:
                break
            start = max(clocks[place], arrival)
            clocks[place] = start + pipeline.works_ms[stage][KINDS.index(kind)]
            work.append((kind, stage, microbatch, start, clocks[place]))
            last[stage] = start
            nexts[place] += 1
            neighbour = posts.send(kind, stage, clocks[place])
            if neighbour is not None:
                awake.append(neighbour % places)
    stuck = [place for place in range(places) if nexts[place] < len(orders[place])]
    if stuck:
        raise BadInputError(f"schedule {pipeline.schedule!r} blocks: places {stuck} wait for one another")
    return Passage(work=tuple(work), ends_ms=tuple(clocks), last_ms=tuple(last))


class Posts:
    """What stages have sent one another: by stage and direction, arrivals in the order of micro-batches.

    Every pair of neighbouring places has a queue of its own in each direction, on the long link too; virtual stages
    share it.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.places = pipeline.places
        self.posts = pipeline.posts_ms
        self.free = {FORWARD: [0.0] * self.places, BACKWARD: [0.0] * self.places}
        self.inbox: dict[tuple[str, int], list[float]] = {
            (kind, stage): [] for kind in (FORWARD, BACKWARD) for stage in range(len(pipeline.works_ms))
        }

    def arrival_ms(self, kind: str, stage: int, microbatch: int) -> float | None:
        """Tell when the input of a piece of work arrives; None while it has not been sent."""
        source = self.neighbour(kind, stage, -1)
        if source is None:
            return 0.0
        inbox = self.inbox[kind, stage]
        return inbox[microbatch] if microbatch < len(inbox) else None

    def send(self, kind: str, stage: int, ready_ms: float) -> int | None:
        """Send on what a piece of work made, never blocking the sender; answers the stage that it goes to, if any."""
        target = self.neighbour(kind, stage, 1)
        if target is None:
            return None
        boundary = min(stage, target)
        sending_ms, delay_ms = self.posts[boundary]
        free = self.free[kind]
        wire = boundary % self.places
        free[wire] = max(free[wire], ready_ms) + sending_ms
        self.inbox[kind, target].append(free[wire] + delay_ms)
        return target

    def neighbour(self, kind: str, stage: int, ahead: int) -> int | None:
        """Find the stage that work goes on to (ahead 1) or comes from (-1); forwards run up, backwards down."""
        if kind not in self.free:
            return None
        found = stage + (ahead if kind == FORWARD else -ahead)
        return found if 0 <= found <= len(self.posts) else None
