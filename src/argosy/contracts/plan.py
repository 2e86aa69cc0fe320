"""How a job splits over chips: replicas of pipeline stages, what crosses which wire, and what is predicted of it.

A Plan is all that the event-level timeline, the trainer and the emulated clock know of one another: the planner fills
in times and bytes, the others read them. Pure data; nothing here plans or checks.

Units of a model are counted as -1 = embedding, 0..num_layers-1 = decoder layers, num_layers = final norm and output
head.
"""

from dataclasses import dataclass, field

EMBEDDING = -1
SCHEDULES = ("1f1b", "gpipe", "interleaved", "zero-bubble")
"""Orders of forward and backward that are known to the timeline."""
TRAINER_SCHEDULES = ("1f1b", "gpipe", "interleaved", "zero-bubble")
"""Those that the trainer runs."""
TRAINER_PROGRAM = "argosy"
"""What the own trainer is called beside the programs that plans may be for."""
GRADIENT_BYTES = 4
"""Of one parameter's gradient as it is summed: fp32, whatever the training precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Consecutive layers on one TP group.

    first_layer..end_layer (end not included). chip_class: ChipClass.name. recompute: none, selective or full.
    forward_ms, backward_ms: one micro-batch through this stage, tensor-parallel exchange included, recompute in
    backward. backward_shares: part of backward_ms for each unit held, ascending unit order, sums to 1; backward runs
    them from last to first. weight_share: part of backward_ms that makes weights' gradients, which a zero-bubble
    schedule runs apart. update_ms: the optimizer's step. ep: ranks that share the experts, each with micro-batches of
    its own. recompute_layers: how many of its layers, from the first, recompute so; None: all. memory_gb,
    memory_limit_gb: predicted on the fullest rank, all its virtual stages together; what the chip has. ranks: by EP, CP
    and TP index, TP innermost, once bound; virtual stages of one place have the same.
    """

    first_layer: int
    end_layer: int
    chip_class: str
    forward_ms: float
    backward_ms: float
    backward_shares: tuple[float, ...]
    update_ms: float = 0.0
    weight_share: float = 0.5
    tp: int = 1
    cp: int = 1
    ep: int = 1
    recompute: str = "none"
    recompute_layers: int | None = None
    memory_gb: float = 0.0
    memory_limit_gb: float = 0.0
    ranks: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """How many ranks it runs on."""
        return self.tp * self.cp * self.ep


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One boundary between two stages: payload_bytes each way per micro-batch over a wire."""

    wire: str
    payload_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One whole copy of the model. sends[s] joins stage s and s+1; len(sends) == len(stages) - 1.

    All its stages have the same ep. With v virtual stages there are v x p stages, in the order of the layers, on p
    places: stage s runs on place s mod p.
    """

    stages: tuple[Stage, ...]
    microbatches: int
    microbatch_size: int
    sends: tuple[Send, ...] = ()

    @property
    def sequences(self) -> int:
        """Sequences of the global batch that this replica takes; every EP rank has micro-batches of its own."""
        return self.microbatches * self.microbatch_size * self.stages[0].ep


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
class Gather:
    """The all-gather of a unit's updated parameters among some of its holders, each of which updated a shard.

    payload_bytes: what one direction of the wire carries for it ((n-1)/n x parameter bytes). hops: one-way delays that
    the algorithm pays.
    """

    members: tuple[tuple[int, int], ...]
    wire: str
    payload_bytes: float
    hops: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The gradient sync of one unit among all (replica, stage) that hold it.

    wire_bytes: what one direction of the wire carries for it (ring all-reduce: 2 (n-1)/n x gradient bytes; with
    ZeRO-1 the reduce-scatter's half; by phases the sums of the sites). gather_bytes: with ZeRO-1, what the parameter
    all-gather after the update carries over the same wire; else 0. With ZeRO-2 and 3 every micro-batch scatters its
    gradients, with ZeRO-3 it gathers weights too: those are in the stages' times, and here wire_bytes is 0, with ZeRO-3
    gather_bytes as well. hops: one-way delays that the algorithm pays, where it sends anything.
    inside_ms: what phases inside sites add to an exchange across them, after the wire is free again; 0 for one flat
    ring through all. gathers: with ZeRO-1 by phases, one for each site of several holders, whose shards it gathers;
    then gather_bytes is 0, for nothing crosses after the update. Where neither gathers anything, as by phases with one
    holder a site, nothing is sharded.
    """

    unit: int
    members: tuple[tuple[int, int], ...]
    wire: str
    wire_bytes: float
    gather_bytes: float = 0.0
    hops: int = 2
    inside_ms: float = 0.0
    gathers: tuple[Gather, ...] = ()

    @property
    def phased(self) -> bool:
        """Whether it runs by phases: inside every site, across, and inside again."""
        return self.inside_ms > 0 or bool(self.gathers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """Where one rank sits, once bound. chip: local index on the node."""

    rank: int
    node: str
    chip: int
    replica: int
    stage: int
    tp_index: int = 0
    cp_index: int = 0
    ep_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdup:
    """One thing that keeps the chips from computing all the time: what, and the share of the step it takes."""

    what: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AloneRate:
    """What a class's chips would do alone with their share of the batch.

    by_arithmetic: the model does not fit on them, so without any bubble or exchange. emulated: chips are.
    """

    chip_class: str
    tokens_per_second: float
    by_arithmetic: bool = False
    emulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the planner expects. mfu counts forward and backward without recompute.

    reference_tokens_per_second: what each class would do alone with its best plan, all together; reference_name says
    so in words, reference_parts by class where there are several. efficiency: throughput over the reference, which a
    plan may surpass.
    exchange_share: time that gradients occupy the long link / the step if nothing of it overlapped. exchange_hidden:
    the part of that time that does not lengthen the step. gap: by what part the step may be longer than the least that
    any plan on these chips could take, against a proven lower bound; None where none was worked out. power_kw: of the
    chips in use at their rated power; None where one is unknown. memory_gb: on the fullest rank; None where it was not
    worked out. emulated: times are of emulated chips.
    """

    step_ms: float
    tokens_per_second: float
    mfu: float
    reference_tokens_per_second: float
    reference_name: str
    efficiency: float
    cost_per_trillion_tokens: float | None = None
    exchange_share: float = 0.0
    exchange_hidden: float = 1.0
    holdups: tuple[Holdup, ...] = ()
    reference_parts: tuple[AloneRate, ...] = ()
    gap: float | None = None
    power_kw: float | None = None
    memory_gb: float | None = None
    emulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One way to run a job on a fleet.

    program: whose times and memory these are: argosy is the own trainer, megatron-core stands for other frameworks.
    schedule: one of SCHEDULES. virtual_stages: stages a place, of every replica. zero_stage: what is sharded over the
    ranks that hold the same layers: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 weights too.
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
    program: str = TRAINER_PROGRAM
    placement: tuple[RankPlace, ...] = field(default=())
    version: int = 1

    @property
    def world_size(self) -> int:
        """How many ranks the plan runs on."""
        return sum(stage.width for replica in self.replicas for stage in self.places(replica))

    def places(self, replica: Replica) -> tuple[Stage, ...]:
        """Give the first stage of each place of a replica: those stages that have ranks of their own."""
        return replica.stages[: len(replica.stages) // self.virtual_stages]

    def stages_at(self, replica: Replica, place: int) -> tuple[Stage, ...]:
        """List the virtual stages that a place of a replica runs, ascending."""
        return replica.stages[place :: len(self.places(replica))]

    def parts_ms(self, stage: Stage) -> tuple[float, float, float]:
        """Give how long forward, backward and what the schedule runs apart for the weights take a micro-batch."""
        weights_ms = stage.backward_ms * stage.weight_share if self.schedule == "zero-bubble" else 0.0
        return stage.forward_ms, stage.backward_ms - weights_ms, weights_ms

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
