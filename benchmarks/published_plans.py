"""Turns a published run into a plan, by the planner's own layouts, templates and drafts.

Nothing is timed here, nor are wires, rings, memory or pipelines worked out: those are `argosy.plan`'s, with the run's
program in place of the trainer's. Two things are the run's own: its cut, for the planner might cut better, and where a
program sums gradients only when all backwards are over (`at_the_end`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from argosy.contracts.fleet import Chip, ChipClass
from argosy.contracts.plan import Exchange, Plan
from argosy.fleet.catalogue import load_catalogue
from argosy.plan.costs.curves import CURVES, Curve, curve_of
from argosy.plan.costs.memory import GB
from argosy.plan.costs.setting import Setting
from argosy.plan.pipelines.boundaries import boundary_wires
from argosy.plan.pipelines.layouts import Layout
from argosy.plan.pipelines.layouts import Run as Places
from argosy.plan.pipelines.partition import Cut
from argosy.plan.pipelines.places import stage_times
from argosy.plan.pipelines.templates import Template, joined
from argosy.plan.search.drafts import Draft, Group
from argosy.plan.search.plans import sketch
from argosy.plan.timing.timeline import steady
from published_rows import Run

# Chips of a node, and of a rack whose chips all share one scale-up link, of which 64 of 72 are used.
NODE_CHIPS, RACK_CHIPS = 8, 64
RACKS = ("gb200", "gb300")
# What is tried: starts of a product, and shares of the peak no finer than this.
STARTS_MS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08)
FIT_STEP_MIN = 0.006
# Network ports of the published machines, Gb/s a chip: A100s (Selene, MegaScale, llm-foundry) 200, H100s and later 400,
# FlagPerf's H800s 200.
PORT_GBPS = {"a100-sxm-40gb": 200.0, "a100-sxm-80gb": 200.0, "a800-sxm-80gb": 200.0, "h800-sxm": 200.0}
PLAIN_PORT_GBPS = 400.0
CHIP_TABLE = load_catalogue().chips


def predict_s(run: Run, curve: Curve | None = None) -> float:
    """Time one step of a published run in seconds; curve: in place of the planner's own for its chips."""
    curves = CURVES if curve is None else (curve, *CURVES)
    return steady(plan_of(run, curves)).step_ms / 1e3


def peak_bytes(run: Run) -> float:
    """Give what the fullest chip of a published run holds, by the planner's memory model."""
    (replica,) = plan_of(run, CURVES).replicas
    return max(stage.memory_gb for stage in replica.stages) * GB


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


def plan_of(run: Run, curves: tuple[Curve, ...] = CURVES) -> Plan:
    """Make the plan of a run, with one of its like replicas."""
    setting = Setting(run.shape, run.sequence, "bf16", program=run.program, curves=curves)
    plan = fitting(sketch(draft_of(run, setting)))
    return plan if run.modern else at_the_end(plan, run.pp)


def draft_of(run: Run, setting: Setting) -> Draft:
    """Make the draft of a run."""
    template = template_of(setting, layout_of(run), cut_of(run))
    return Draft(
        setting=setting,
        model=run.name,
        fleet=run.chip,
        groups=(Group(template=template, count=run.dp // run.ep, microbatches=run.microbatches),),
        schedule=template.layout.schedule,
        zero_stage=run.zero_stage,
        links=(),
    )


def layout_of(run: Run) -> Layout:
    """Make the layout of a run."""
    return Layout(
        runs=(Places(chip_class=chip_class(run), places=run.pp, tp=run.tp),),
        cp=run.cp,
        ep=run.ep,
        microbatch_size=run.microbatch,
        recomputes=(run.recompute,),
        schedule=schedule_of(run),
        virtual_stages=run.chunks,
        microbatches=run.microbatches,
        count=run.dp // run.ep,
        zero_stage=run.zero_stage,
        shards=run.dp * run.cp,
    )


def template_of(setting: Setting, layout: Layout, cut: Cut) -> Template:
    """Make the template of a layout that is cut so."""
    return joined(setting, layout, cut, stage_times(setting, layout, cut), boundary_wires(layout, (), {}))


def schedule_of(run: Run) -> str:
    """Name the schedule of a run: interleaved where it has virtual stages, else 1F1B where micro-batches suffice."""
    return "interleaved" if run.chunks > 1 else "1f1b" if run.microbatches >= run.pp else "gpipe"


def chip_class(run: Run) -> ChipClass:
    """Make the class of a run's chips: nodes of eight, or racks, with a network port a chip."""
    chip: Chip = CHIP_TABLE[run.chip]
    node_chips = RACK_CHIPS if run.chip in RACKS else NODE_CHIPS
    return ChipClass(
        name=f"published/{chip.name}",
        site="published",
        chip=chip,
        chips_per_node=node_chips,
        nodes=-(-run.chips // node_chips),
        nic_gbps=node_chips * PORT_GBPS.get(run.chip, PLAIN_PORT_GBPS),
    )


def cut_of(run: Run) -> Cut:
    """Cut the layers over all virtual stages, evenly; layers that don't go in go to the middle first."""
    parts = run.pp * run.chunks
    each, rest = divmod(run.shape.num_layers, parts)
    before = (parts - rest) // 2
    sizes = [each + (before <= part < before + rest) for part in range(parts)]
    ends = tuple(sum(sizes[: part + 1]) for part in range(parts))
    return Cut(ends=ends, ways=(0,) * parts, counts=(0,) * parts)


def fitting(plan: Plan) -> Plan:
    """State no memory limit: whatever the model says, what ran did fit."""
    (replica,) = plan.replicas
    stages = tuple(replace(stage, memory_limit_gb=0.0) for stage in replica.stages)
    return replace(plan, replicas=(replace(replica, stages=stages),))


def at_the_end(plan: Plan, places: int) -> Plan:
    """Let each place sum its gradients in one exchange when its last backward is over.

    That is the backward of its first stage's first unit. What several places of a pipeline hold, a tied embedding, is
    ready then anyway.
    """
    (replica,) = plan.replicas
    firsts = [plan.units(stage)[0] for stage in replica.stages[:places]]
    own: dict[int, Exchange] = {}
    for exchange in plan.exchanges:
        if len(exchange.members) == 1:
            home = exchange.members[0][1] % places
            before = own[home].wire_bytes if home in own else 0.0
            sent = before + exchange.wire_bytes
            own[home] = replace(exchange, unit=firsts[home], members=((0, home),), wire_bytes=sent)
    shared = (exchange for exchange in plan.exchanges if len(exchange.members) > 1)
    return replace(plan, exchanges=(*shared, *own.values()))
