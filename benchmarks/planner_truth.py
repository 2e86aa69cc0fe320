"""How true the timeline is: drawn plans of 2 to 16 ranks, timed by it and run by the emulated trainer.

    python benchmarks/planner_truth.py [--json] [--plans 20] [--seed 1] [--only N]

Plans are drawn from a seed, not planned: any schedule that the trainer runs, pipelines within a site and across two,
uneven layers and micro-batches, like and unlike replicas, ZeRO 0 and 1, sums across sites in one ring or by phases.
The virtual clock should be within 0.5 % of the timeline (it is exact when ranks do what the timeline says), the wall of
a machine that nobody else uses within 5 %: real arithmetic and real messages of up to 16 processes on its cores. All
times are emulated.
"""

import argparse
import itertools
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from argosy.cli.choosing import Choice
from argosy.cli.jobs import load_model
from argosy.contracts.plan import TRAINER_SCHEDULES, Exchange, Gather, Plan, Prediction, Replica, Send, Stage, Wire
from argosy.network.exchanges import by_phases
from argosy.plan.bind import bind
from argosy.plan.timing.timeline import simulate
from command import start, whole_number
from emulated_runs import Chips, Run, inputs, measure, wall_summary, wall_text

LAYERS = 12
RANKS_MAX = 16
# Of one sequence through one layer, forward; the arithmetic behind it takes about a tenth of that on one core.
LAYER_MS = (4.0, 8.0)
# Shorter work of many processes wakes later than it should, by more than a few percent of it.
FORWARD_MS_MIN = 10.0
SITES = {"north": ("north/h800-sxm", 1.0), "south": ("south/ascend-910b3", 1.6)}
NETWORK_GBPS, LINK_GBPS, LINK_MS = 10.0, 1.0, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipe:
    """One drawn replica. sites: of its places. layers: of its stages."""

    sites: tuple[str, ...]
    layers: tuple[int, ...]
    microbatches: int
    size: int


def drawn_plan(schedule: str, dice: random.Random) -> Plan:
    """Draw a plan: its replicas, the time of everything, and what they exchange."""
    virtual = 2 if schedule == "interleaved" else 1
    pipes = drawn_pipes(dice, schedule, virtual)
    layer_ms = dice.uniform(*LAYER_MS)
    replicas = tuple(replica_of(dice, pipe, layer_ms) for pipe in pipes)
    plan = Plan(
        model="benchmark",
        num_layers=LAYERS,
        fleet="benchmark",
        sequence_length=64,
        global_batch_size=sum(replica.sequences for replica in replicas),
        replicas=replicas,
        schedule=schedule,
        virtual_stages=virtual,
        zero_stage=dice.choice((0, 0, 1)),
        wires=(
            *(Wire(name=site, gbps=NETWORK_GBPS, one_way_ms=0.02) for site in SITES),
            Wire(name="share of the link", gbps=LINK_GBPS, one_way_ms=LINK_MS, long_link=True),
            Wire(name="link", gbps=LINK_GBPS, one_way_ms=LINK_MS, shared=True, long_link=True),
        ),
        barrier_ms=0.5,
        emulated=True,
    )
    return with_prediction(replace(plan, exchanges=tuple(drawn_exchanges(dice, plan))))


def drawn_pipes(dice: random.Random, schedule: str, virtual: int) -> list[Pipe]:
    """Draw replicas until the ranks are used up, like ones and unlike ones."""
    pipes: list[Pipe] = []
    wanted = dice.randint(2, RANKS_MAX)
    while (left := wanted - sum(len(pipe.sites) for pipe in pipes)) >= virtual:
        fits = [pipe for pipe in pipes if len(pipe.sites) <= left]
        if fits and dice.random() < 0.4:
            pipes.append(dice.choice(fits))
            continue
        places = dice.randint(virtual, min(6, LAYERS // virtual, left))
        edges = [0, *sorted(dice.sample(range(1, LAYERS), places * virtual - 1)), LAYERS]
        north = dice.choice((0, places, dice.randint(0, places)))
        microbatches = dice.randint(1 if schedule == "gpipe" else places, places + 6)
        if virtual > 1:
            microbatches = places * dice.randint(1, 2)
        if schedule == "zero-bubble":
            # What torch can deal into rounds.
            microbatches -= microbatches % (microbatches // places)
        pipes.append(
            Pipe(
                sites=("north",) * north + ("south",) * (places - north),
                layers=tuple(end - start for start, end in itertools.pairwise(edges)),
                microbatches=microbatches,
                size=dice.choice((1, 1, 2)),
            )
        )
    return pipes


def replica_of(dice: random.Random, pipe: Pipe, layer_ms: float) -> Replica:
    """Give a drawn replica its times; embedding and head weigh half a layer each."""
    stages = []
    for s, (first, count) in enumerate(zip(itertools.accumulate((0, *pipe.layers)), pipe.layers, strict=False)):
        chip_class, slower = SITES[pipe.sites[s % len(pipe.sites)]]
        weights = [*([0.5] if s == 0 else []), *[1.0] * count, *([0.5] if s == len(pipe.layers) - 1 else [])]
        forward_ms = max(FORWARD_MS_MIN, sum(weights) * layer_ms * slower * pipe.size)
        stages.append(
            Stage(
                first_layer=first,
                end_layer=first + count,
                chip_class=chip_class,
                forward_ms=forward_ms,
                backward_ms=2 * forward_ms,
                backward_shares=tuple(weight / sum(weights) for weight in weights),
                update_ms=dice.uniform(1, 6),
                weight_share=dice.uniform(0.3, 0.6),
            )
        )
    payload_bytes = dice.uniform(1e4, 4e5)
    ends = itertools.pairwise(pipe.sites[s % len(pipe.sites)] for s in range(len(stages)))
    sends = tuple(Send(wire=a if a == b else "share of the link", payload_bytes=payload_bytes) for a, b in ends)
    return Replica(stages=tuple(stages), microbatches=pipe.microbatches, microbatch_size=pipe.size, sends=sends)


def drawn_exchanges(dice: random.Random, plan: Plan) -> list[Exchange]:
    """Let all holders of a unit exchange its gradients, within a site or over the link, in one ring or by phases."""
    unit_bytes = dice.uniform(1e5, 3e6)
    exchanges = []
    for unit in range(-1, LAYERS + 1):
        members = tuple(
            (r, s)
            for r, replica in enumerate(plan.replicas)
            for s, stage in enumerate(replica.stages)
            if unit in plan.held_units(stage)
        )
        if len(members) < 2:
            continue
        at = [plan.replicas[r].stages[s].chip_class.split("/")[0] for r, s in members]
        flat = Exchange(
            unit=unit,
            members=members,
            wire="link" if len(set(at)) > 1 else at[0],
            wire_bytes=unit_bytes,
            gather_bytes=unit_bytes if plan.zero_stage else 0.0,
            hops=2 * (len(members) - 1),
        )
        if len(set(at)) > 1 and dice.random() < 0.5:
            of_site = {
                site: [m for m, where in zip(members, at, strict=True) if where == site] for site in sorted(set(at))
            }
            inside = [gather_inside(some, unit_bytes, site) for site, some in of_site.items() if len(some) > 1]
            flat = by_phases(flat, unit_bytes, inside, plan.wires, sites=2, gathered=1.0 if plan.zero_stage else 0.0)
        exchanges.append(flat)
    return exchanges


def gather_inside(members: Sequence[tuple[int, int]], unit_bytes: float, site: str) -> Gather:
    """State the ring gather of a unit inside a site, over the site's wire."""
    hops = len(members) - 1
    return Gather(members=tuple(members), wire=site, payload_bytes=unit_bytes * hops / len(members), hops=hops)


def with_prediction(plan: Plan) -> Plan:
    """Time a plan by the timeline."""
    step_ms = simulate(plan, detail=False).step_ms
    rate = plan.global_batch_size * plan.sequence_length / step_ms * 1e3
    told = Prediction(
        step_ms=step_ms,
        tokens_per_second=rate,
        mfu=0.0,
        reference_tokens_per_second=rate,
        reference_name="none",
        efficiency=1.0,
        emulated=True,
    )
    return replace(plan, prediction=told)


def run(plan: Plan, folder: Path) -> Run:
    """Run a plan by the emulated trainer and set its clocks beside the timeline."""
    parts = [
        Chips(chip=name.split("/")[1], count=RANKS_MAX, tflops=0.001, site=site) for site, (name, _) in SITES.items()
    ]
    given = inputs(folder, parts, layers=LAYERS, batch=plan.global_batch_size, gbps=LINK_GBPS)
    shape, config = load_model(given.job, given.job_source)
    choice = Choice(shape=shape, config=config, plan=bind(plan, given.nodes), plans=(plan,))
    return measure(given, choice)


def row(found: Run, plan: Plan) -> dict[str, object]:
    """Give what is told of a run."""
    return {
        **asdict(found),
        "sites": len({stage.chip_class for replica in plan.replicas for stage in replica.stages}),
        "exchanges": len(plan.exchanges),
        "by_phases": sum(exchange.phased for exchange in plan.exchanges),
        "virtual_error": found.virtual_error,
        "wall_error": found.wall_error,
    }


def main(arguments: Sequence[str]) -> int:
    """Draw plans, run them and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--plans", type=whole_number, default=20, help="how many to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="run only the N-th, counted from 0")
    options = parser.parse_args(arguments)
    rows, runs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for index in range(options.plans):
            schedule = TRAINER_SCHEDULES[index % len(TRAINER_SCHEDULES)]
            plan = drawn_plan(schedule, random.Random(f"{options.seed}/{index}"))
            if options.only is not None and options.only != index:
                continue
            found = run(plan, Path(folder))
            runs.append(found)
            rows.append({"index": index, **row(found, plan)})
            print(
                f"{index}: {found.ranks} ranks, ~{found.predicted_ms:.0f} ms, virtual {found.virtual_error:.1e}, "
                f"{wall_text(found)}  {found.plan}",
                file=sys.stderr,
                flush=True,
            )
    result = {
        "seed": options.seed,
        "plans": len(rows),
        "virtual_error_max": max((each.virtual_error for each in runs), default=None),
        **wall_summary(runs),
        "emulated": True,
        "cases": rows,
    }
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    start(lambda: main(sys.argv[1:]))
