"""Turns a published run into a plan, priced by the planner's own cost model and timed by its own timeline.

Nothing is timed here: `argosy.plan.cost` says how long a stage takes, `argosy.plan.timeline` how long a step. What the
source's program does differently from Argosy's trainer is said in words of the plan: one exchange at a stage's end
where gradients are summed after all backwards, and a part of the activations a rank where a TP group splits them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from argosy.contracts.fleet import Chip, ChipClass
from argosy.contracts.plan import EMBEDDING, Exchange, Plan, Replica, Send, Stage, Wire
from argosy.fleet.catalogue import load_catalogue
from argosy.network.wires import send_ms
from argosy.plan.cost import UnitCost, gradient_bytes, payload_bytes, unit_cost, update_ms
from argosy.plan.curves import CURVES, Curve, curve_of, wire_efficiency
from argosy.plan.links import SITE_ONE_WAY_MS, ring_bytes, scale_up_gbytes_s
from argosy.plan.memory import GB, ends_gb, place_holding, unit_gb
from argosy.plan.setting import Setting, Way
from argosy.plan.timeline import steady
from published_rows import Run

NODE_CHIPS = 8
SHARDED_SHARE = 0.75
# What is tried: starts of a product, and shares of the peak no finer than this.
STARTS_MS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08)
FIT_STEP_MIN = 0.006
# Network ports of the published machines, Gb/s a chip: A100s (Selene, MegaScale) 200, H100s 400, FlagPerf's H800s 200.
PORT_GBPS = {"a100-sxm-80gb": 200.0, "a800-sxm-80gb": 200.0, "h100-sxm": 400.0, "h800-sxm": 200.0}
CHIP_TABLE = load_catalogue().chips


def predict_s(run: Run, curve: Curve | None = None) -> float:
    """Time one step of a published run in seconds; curve: in place of the planner's own for its chips."""
    curves = CURVES if curve is None else (curve, *CURVES)
    return steady(plan_of(run, curves)).step_ms / 1e3


def peak_bytes(run: Run) -> float:
    """Give what the fullest chip of a published run holds, by the planner's memory model."""
    setting = Setting(run.shape, run.sequence, "bf16", program=run.program)
    way = Way(tp=run.tp, cp=run.cp, ep=run.ep, microbatch_size=run.microbatch, recompute=run.recompute)
    place_class, schedule = chip_class(run), schedule_of(run)
    stages = cuts(run)
    fullest = 0.0
    for place in range(run.pp):
        shards = run.dp * run.cp if run.modern else 1
        holding = place_holding(way, schedule, place, run.pp, run.microbatches, run.chunks, optimizer_shards=shards)
        layers = [setting.kind(layer) for first, end in stages[place :: run.pp] for layer in range(first, end)]
        # The schedule counts micro-batches of one of a place's parts, so a layer holds that part of them.
        kept = sum(
            unit_gb(setting, layer, holding) - unit_gb(setting, layer, replace(holding, held=0)) for layer in layers
        )
        state = sum(unit_gb(setting, layer, replace(holding, held=0)) for layer in layers)
        ends = replace(holding, held=-(-holding.held // run.chunks))
        whole = state + kept / run.chunks + ends_gb(setting, place_class, place == 0, place == run.pp - 1, ends)
        fullest = max(fullest, whole)
    return fullest * GB


def curve_for(run: Run) -> Curve:
    """Give the planner's own curve for a run's chip."""
    return curve_of(CHIP_TABLE[run.chip])


def fit(runs: Sequence[Run]) -> Curve:
    """Find the curve of matrix products with the least mean error on these runs of one kind of chip.

    For each start, the share of the peak by ever finer steps around the best.
    """
    own = curve_for(runs[0])
    best = []
    for start_ms in STARTS_MS:
        share, step = 0.6, 0.1
        while step > FIT_STEP_MIN:
            near = [round(share + step * by, 4) for by in (-2, -1, 0, 1, 2)]
            share = min(near, key=lambda part: mape(runs, replace(own, products=part, start_ms=start_ms)))
            step /= 2
        best.append(replace(own, products=share, start_ms=start_ms))
    return min(best, key=lambda curve: mape(runs, curve))


@lru_cache(maxsize=65536)
def error(run: Run, curve: Curve) -> float:
    """Give a run's absolute relative error."""
    return abs(predict_s(run, curve) / run.measured_s - 1)


def mape(runs: Iterable[Run], curve: Curve) -> float:
    """Give the mean of absolute relative errors."""
    errors = [error(run, curve) for run in runs]
    return sum(errors) / len(errors)


def plan_of(run: Run, curves: tuple[Curve, ...]) -> Plan:
    """Make the plan of a run, with one of its like replicas."""
    setting = Setting(run.shape, run.sequence, "bf16", program=run.program, curves=curves)
    place = chip_class(run)
    way = Way(tp=run.tp, cp=run.cp, ep=run.ep, microbatch_size=run.microbatch, recompute=run.recompute)
    costs: dict[int, UnitCost] = {}
    stages = tuple(
        make_stage(setting, place, way, first, end, run.dp if run.modern else 1, costs) for first, end in cuts(run)
    )
    wire, ports = boundary_wire(run, place), ring_wires(run, place)
    # Programs with TP send each rank's part of the activations over a boundary and gather inside the node.
    sent = payload_bytes(setting, way) / (1 if run.program.sequence_parallel else run.tp)
    if not run.modern:
        stages, sent = waiting(stages, send_ms(wire, sent) + gathering_ms(run, place, sent)), 0.0
    replica = Replica(
        stages=stages,
        microbatches=run.microbatches,
        microbatch_size=run.microbatch,
        sends=(Send(wire=wire.name, payload_bytes=sent),) * (len(stages) - 1),
    )
    return Plan(
        model=run.name,
        num_layers=run.shape.num_layers,
        fleet=run.chip,
        sequence_length=run.sequence,
        global_batch_size=replica.sequences,
        replicas=(replica,),
        precision="bf16",
        schedule=schedule_of(run),
        virtual_stages=run.chunks,
        wires=(wire, *ports),
        exchanges=exchanges(run, setting, stages),
    )


def schedule_of(run: Run) -> str:
    """Name the schedule of a run: interleaved where it has virtual stages, else 1F1B where micro-batches suffice."""
    return "interleaved" if run.chunks > 1 else "1f1b" if run.microbatches >= run.pp else "gpipe"


def chip_class(run: Run) -> ChipClass:
    """Make the class of a run's chips: nodes of eight with a network port a chip."""
    chip: Chip = CHIP_TABLE[run.chip]
    return ChipClass(
        name=f"published/{chip.name}",
        site="published",
        chip=chip,
        chips_per_node=NODE_CHIPS,
        nodes=-(-run.chips // NODE_CHIPS),
        nic_gbps=NODE_CHIPS * PORT_GBPS[run.chip],
    )


def cuts(run: Run) -> list[tuple[int, int]]:
    """Cut the layers over all virtual stages, evenly; layers that don't go in go to the middle first."""
    parts = run.pp * run.chunks
    each, rest = divmod(run.shape.num_layers, parts)
    before = (parts - rest) // 2
    sizes = [each + (before <= part < before + rest) for part in range(parts)]
    ends = [sum(sizes[: part + 1]) for part in range(parts)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def make_stage(
    setting: Setting, place: ChipClass, way: Way, first: int, end: int, shards: int, costs: dict[int, UnitCost]
) -> Stage:
    """Price one stage; costs: of units that were priced before."""
    last = setting.shape.num_layers
    units = (*([EMBEDDING] if first == 0 else []), *range(first, end), *([last] if end == last else []))
    kinds = tuple(setting.kind(unit) for unit in units)
    for kind in set(kinds) - set(costs):
        costs[kind] = unit_cost(setting, place, kind, way)
    backward = sum(costs[kind].backward_ms for kind in kinds)
    return Stage(
        first_layer=first,
        end_layer=end,
        chip_class=place.name,
        forward_ms=sum(costs[kind].forward_ms for kind in kinds),
        backward_ms=backward,
        backward_shares=tuple(costs[kind].backward_ms / backward for kind in kinds),
        weight_share=sum(costs[kind].weight_ms for kind in kinds) / backward,
        update_ms=update_ms(setting, place, kinds, way, shards),
        tp=way.tp,
        cp=way.cp,
        ep=way.ep,
        recompute=way.recompute,
    )


def boundary_wire(run: Run, place: ChipClass) -> Wire:
    """Find the wire between stages: a chip's own port, or the node's link where all of a run is one node."""
    gbps = scale_up_gbytes_s(place) * 8 if run.chips <= NODE_CHIPS else PORT_GBPS[run.chip]
    return Wire(name="boundary", gbps=gbps * wire_efficiency(place), one_way_ms=SITE_ONE_WAY_MS)


def waiting(stages: tuple[Stage, ...], message_ms: float) -> tuple[Stage, ...]:
    """Let each stage wait for the message that it sends, as programs did before they overlapped them."""
    last = len(stages) - 1
    return tuple(
        replace(
            stage,
            forward_ms=stage.forward_ms + message_ms * (index < last),
            backward_ms=stage.backward_ms + message_ms * (index > 0),
        )
        for index, stage in enumerate(stages)
    )


def gathering_ms(run: Run, place: ChipClass, sent: float) -> float:
    """Time the gathering of a message's parts inside a node, which norms cut along the sequence do without."""
    if run.program.sequence_parallel:
        return 0.0
    return (run.tp - 1) * sent / (scale_up_gbytes_s(place) * wire_efficiency(place) * 1e6)


def ring_wires(run: Run, place: ChipClass) -> tuple[Wire, ...]:
    """Make for each place what one TP rank's rings go over, one queue; members in one node share that node's ports."""
    members = min(run.dp * run.cp, max(1, NODE_CHIPS // run.tp))
    inside = run.dp * run.cp == members
    gbps = scale_up_gbytes_s(place) * 8
    gbps = gbps if inside else min(gbps, PORT_GBPS[run.chip] * members)
    gbps *= wire_efficiency(place)
    return tuple(
        Wire(name=ring_name(index), gbps=gbps, one_way_ms=SITE_ONE_WAY_MS, shared=True) for index in range(run.pp)
    )


def ring_name(index: int) -> str:
    """Name the wire of a place's rings."""
    return f"rings of place {index}"


def exchanges(run: Run, setting: Setting, stages: tuple[Stage, ...]) -> tuple[Exchange, ...]:
    """Make the gradient exchanges: unit by unit beside the backward, or a place's all at once when it is over."""
    found: list[Exchange] = []
    for index, stage in enumerate(stages):
        for unit in units_of(setting, stage):
            # A place's last backward is that of its first stage, and there of its first unit.
            home = index if run.modern else index % run.pp
            sent_to = unit if run.modern else units_of(setting, stages[home])[0]
            found.append(
                Exchange(
                    unit=sent_to,
                    members=((0, home),),
                    wire=ring_name(index % run.pp),
                    wire_bytes=sent_bytes(run, setting, unit),
                    hops=0,
                )
            )
    return tuple(exchange for exchange in found if exchange.wire_bytes)


def units_of(setting: Setting, stage: Stage) -> tuple[int, ...]:
    """List a stage's units, ascending."""
    last = setting.shape.num_layers
    ends = [EMBEDDING] if stage.first_layer == 0 else []
    return (*ends, *range(stage.first_layer, stage.end_layer), *([last] if stage.end_layer == last else []))


def sent_bytes(run: Run, setting: Setting, unit: int) -> float:
    """Give what one rank sends for a unit's gradients; experts are summed over replicas alone.

    A sharded optimizer scatters fp32 gradients and gathers 16-bit weights: three quarters of an all-reduce of fp32.
    """
    everywhere, experts = gradient_bytes(setting, unit)
    ranks = run.dp * run.cp
    sent = ring_bytes(ranks, everywhere) / run.tp + ring_bytes(ranks // run.ep, experts) / (run.tp * run.ep)
    return sent * (SHARDED_SHARE if run.modern else 1.0)
