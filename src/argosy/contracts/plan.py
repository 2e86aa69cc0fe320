"""How a job splits over chips: replicas of pipeline stages, what crosses which wire, and what is predicted of it.

A Plan is all that the event-level timeline, the trainer and the emulated clock know of one another: the planner fills
in times and bytes, the others read them. Pure data; nothing here plans or checks.

Units of a model are counted as -1 = embedding, 0..num_layers-1 = decoder layers, num_layers = final norm and output
head.
"""

from dataclasses import dataclass, field

EMBEDDING = -1
SCHEDULES = ("1f1b", "gpipe")
"""Orders of forward and backward that are known to the timeline and the trainer."""
GRADIENT_BYTES = 4
"""Of one parameter's gradient as it is summed: fp32, whatever the training precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Consecutive layers on one TP group.

    first_layer..end_layer (end not included). chip_class: ChipClass.name. recompute: none, selective or full.
    forward_ms, backward_ms: one micro-batch through this stage, tensor-parallel exchange included, recompute in
    backward. backward_shares: part of backward_ms for each unit held, ascending unit order, sums to 1; backward runs
    them from last to first. update_ms: the optimizer's step. memory_gb, memory_limit_gb: predicted on the fullest
    rank; what the chip has. ranks: one per TP index, once bound.
    """

    first_layer: int
    end_layer: int
    chip_class: str
    forward_ms: float
    backward_ms: float
    backward_shares: tuple[float, ...]
    update_ms: float = 0.0
    tp: int = 1
    cp: int = 1
    ep: int = 1
    recompute: str = "none"
    memory_gb: float = 0.0
    memory_limit_gb: float = 0.0
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One boundary between two stages: payload_bytes each way per micro-batch over a wire."""

    wire: str
    payload_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One whole copy of the model. sends[s] joins stage s and s+1; len(sends) == len(stages) - 1."""

    stages: tuple[Stage, ...]
    microbatches: int
    microbatch_size: int
    sends: tuple[Send, ...] = ()

    @property
    def sequences(self) -> int:
        """Sequences of the global batch that this replica takes."""
        return self.microbatches * self.microbatch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One medium.

    one_way_ms: its delay. shared: transfers of all users queue on it (the long link); else each pair has its own.
    """

    name: str
    gbps: float
    one_way_ms: float
    shared: bool = False
    long_link: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The gradient sync of one unit among all (replica, stage) that hold it.

    wire_bytes: what one direction of the wire carries for it (ring all-reduce: 2 (n-1)/n x gradient bytes; with
    ZeRO-1 the reduce-scatter's half). gather_bytes: with ZeRO-1, what the parameter all-gather after the update
    carries; else 0. hops: one-way delays that the algorithm pays.
    """

    unit: int
    members: tuple[tuple[int, int], ...]
    wire: str
    wire_bytes: float
    gather_bytes: float = 0.0
    hops: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """Where one rank sits, once bound. chip: local index on the node."""

    rank: int
    node: str
    chip: int
    replica: int
    stage: int
    tp_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdup:
    """One thing that keeps the plan from its bound: what, and the share of the step it takes."""

    what: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the planner expects. mfu counts forward and backward without recompute. efficiency = throughput / bound.

    bound_tokens_per_second: the sum of what each class would do alone with its best plan; bound_name says so in words.
    exchange_share: time that gradients occupy the long link / the step if nothing of it overlapped. exchange_hidden:
    the part of that time that does not lengthen the step. emulated: times are of emulated chips.
    """

    step_ms: float
    tokens_per_second: float
    mfu: float
    bound_tokens_per_second: float
    bound_name: str
    efficiency: float
    cost_per_trillion_tokens: float | None = None
    exchange_share: float = 0.0
    exchange_hidden: float = 1.0
    holdups: tuple[Holdup, ...] = ()
    emulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One way to run a job on a fleet.

    schedule: one of SCHEDULES. zero_stage: 0 or 1 (optimizer state sharded over the ranks that hold the same layers).
    reduce_dtype: of gradients on the wire. bucket_bytes: units with smaller gradients travel together with their
    neighbours; exchanges are timed unit by unit all the same. barrier_ms: the all-reduce of the gradient norm that ends
    every step's backward. sum over replicas of microbatches x microbatch_size == global_batch_size.
    """

    model: str
    num_layers: int
    fleet: str
    sequence_length: int
    global_batch_size: int
    replicas: tuple[Replica, ...]
    precision: str = "fp32"
    schedule: str = "1f1b"
    virtual_stages: int = 1
    zero_stage: int = 0
    reduce_dtype: str = "fp32"
    bucket_bytes: int = 4 * 2**20
    tied_embeddings: bool = False
    wires: tuple[Wire, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    barrier_ms: float = 0.0
    prediction: Prediction | None = None
    emulated: bool = False
    placement: tuple[RankPlace, ...] = field(default=())
    version: int = 1

    @property
    def world_size(self) -> int:
        """How many ranks the plan runs on."""
        return sum(stage.tp for replica in self.replicas for stage in replica.stages)

    def units(self, stage: Stage) -> tuple[int, ...]:
        """List the units a stage computes, ascending: its layers, the embedding on the first, the head on the last."""
        first = (EMBEDDING,) if stage.first_layer == 0 else ()
        last = (self.num_layers,) if stage.end_layer == self.num_layers else ()
        return (*first, *range(stage.first_layer, stage.end_layer), *last)

    def held_units(self, stage: Stage) -> tuple[int, ...]:
        """List the units whose parameters a stage holds, ascending: those it computes, and a tied embedding's copy.

        The copy stands on a last stage that is not the first too, whose head reads it.
        """
        units = self.units(stage)
        copied = self.tied_embeddings and units[-1] == self.num_layers and units[0] != EMBEDDING
        return (EMBEDDING, *units) if copied else units
