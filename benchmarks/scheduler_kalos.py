"""Gangs of the Acme Kalos cluster through the core on 2,048 chips at 90 % load, beside FIFO with backfill.

319 jobs of up to 1,024 GPUs over 90 days (Acme trace, CC BY 4.0, by way of a conversion; GPUs = gpu_workers x
gpu_per_worker, length = 0.5 s x num_iteration), their arrivals pressed together until the load is what --load says.
The conversion has no end state: 39.7 % of jobs fail, and take 8.0 % of the GPU time (the cluster's published summary),
so that share is drawn by --seed and each of those ends early. Time limits are the full length and a quarter. FIFO with
backfill is written here on its own: the first in line holds the soonest start that limits promise, and whoever ends
before that, or needs none of those nodes, may pass it. All figures are simulated.
"""

import argparse
import csv
import io
import json
import math
import random
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Node
from argosy.contracts.option import Option, Part, Size
from argosy.contracts.policy import ORDERS, SECOND_US, Policy, Queue
from argosy.contracts.request import Claim, Pool
from argosy.fleet.text_file import read_text_file
from command import start, whole_number
from core_driver import Driver, Request
from gavel_traces import FOLDER

CHIPS_PER_NODE = 8
FAIL_SHARE, FAIL_TIME_SHARE = 0.397, 0.080
LIMIT = 1.25
HOUR_S = 3600.0
NODES_MAX, LOADS = 12_500, (0.01, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """One job: whole nodes, how long it runs, and the limit its owner gave."""

    nodes: int
    run_s: float
    limit_s: float
    arrival_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What waiting was like. wait_max_over_fifo_p99: the longest wait by the p99 of FIFO with backfill."""

    policy: str
    utilisation: float
    wait_mean_h: float
    wait_p50_h: float
    wait_p99_h: float
    wait_max_h: float
    large_wait_mean_h: float
    makespan_h: float
    jct_mean_h: float
    wait_max_over_fifo_p99: float = 0.0


def read_gangs(path: Path, nodes: int, load: float, seed: int) -> list[Gang]:
    """Read the trace, draw who fails, and press arrivals together until the load is reached."""
    rng = random.Random(seed)
    # Failed jobs run so much of their length that they take their share of the time.
    cut = FAIL_TIME_SHARE / (1 - FAIL_TIME_SHARE) * (1 - FAIL_SHARE) / FAIL_SHARE
    gangs = []
    like = "name one like acme_kalos_converted.csv"
    rows = csv.DictReader(io.StringIO(read_text_file(path, "trace", f"; {like}")))
    for row in rows:
        try:
            chips = int(row["gpu_workers"]) * float(row["gpu_per_worker"])
            length_s, arrival_s = 0.5 * float(row["num_iteration"]), float(row["arrival_time"])
        except (KeyError, ValueError, TypeError) as error:
            raise BadInputError(f"{path.name}:{rows.line_num}: {error!r} is missing or no number; {like}") from error
        if not (math.isfinite(chips + length_s + arrival_s) and chips > 0 and length_s > 0):
            raise BadInputError(f"{path.name}:{rows.line_num}: GPUs and iterations above 0 are needed; {like}")
        run_s = length_s * (cut if rng.random() < FAIL_SHARE else 1.0)
        size = min(nodes, math.ceil(chips / CHIPS_PER_NODE))
        gangs.append(Gang(nodes=size, run_s=run_s, limit_s=length_s * LIMIT, arrival_s=arrival_s))
    if len({gang.arrival_s for gang in gangs}) < 2:
        raise BadInputError(f"{path.name} has no two jobs that come one after the other; {like}")
    gangs.sort(key=lambda gang: gang.arrival_s)
    work = sum(gang.nodes * gang.run_s for gang in gangs)
    first = gangs[0].arrival_s
    scale = work / (load * nodes * (gangs[-1].arrival_s - first))
    return [replace(gang, arrival_s=(gang.arrival_s - first) * scale) for gang in gangs]


def fifo_with_backfill(gangs: list[Gang], nodes: int) -> list[float]:
    """Give each gang's start under FIFO with backfill (EASY: only the first in line is promised a start)."""
    starts = [-1.0] * len(gangs)
    running: list[tuple[float, float, int]] = []
    waiting: list[int] = []
    todo = list(range(len(gangs)))
    while todo or waiting:
        ends = [end for end, _, _ in running]
        times = [gangs[todo[0]].arrival_s] if todo else []
        now_s = min(ends + times)
        running = [item for item in running if item[0] > now_s]
        while todo and gangs[todo[0]].arrival_s <= now_s:
            waiting.append(todo.pop(0))
        for index in _startable(gangs, waiting, running, nodes, now_s):
            waiting.remove(index)
            starts[index] = now_s
            gang = gangs[index]
            running.append((now_s + gang.run_s, now_s + gang.limit_s, gang.nodes))
    return starts


def _startable(
    gangs: list[Gang], waiting: list[int], running: list[tuple[float, float, int]], nodes: int, now_s: float
) -> list[int]:
    """List who starts now: those at the head that fit, then those that do not delay the first that does not."""
    free = nodes - sum(size for _, _, size in running)
    held = [(limit, size) for _, limit, size in running]
    found: list[int] = []
    line = list(waiting)
    while line and gangs[line[0]].nodes <= free:
        gang = gangs[line[0]]
        free -= gang.nodes
        held.append((now_s + gang.limit_s, gang.nodes))
        found.append(line.pop(0))
    if not line:
        return found
    head, shadow_s, spare = gangs[line[0]], math.inf, free
    for limit_s, size in sorted(held):
        spare += size
        if spare >= head.nodes:
            shadow_s, spare = limit_s, spare - head.nodes
            break
    for index in line[1:]:
        gang = gangs[index]
        in_time = now_s + gang.limit_s <= shadow_s
        if gang.nodes <= free and (in_time or gang.nodes <= spare):
            free -= gang.nodes
            spare -= 0 if in_time else gang.nodes
            found.append(index)
    return found


def through_the_core(gangs: list[Gang], nodes: int, order: str) -> tuple[list[float], list[float]]:
    """Give each gang's first start and its end under an order of the core's, everything else as it comes."""
    pool = Pool(name="kalos", kind="a800", site="kalos", chips_per_node=CHIPS_PER_NODE)
    fleet = tuple(
        Node(name=f"node-{index}", site="kalos", chip_class="kalos", chips=CHIPS_PER_NODE, rack=index // 4)
        for index in range(nodes)
    )
    requests = []
    for index, gang in enumerate(gangs):
        part = Part(chip_class="kalos", nodes=gang.nodes, topology="any")
        option = Option(name="whole", job="", ladder=(Size(parts=(part,), tokens_per_second=1e3, efficiency=1.0),))
        claim = Claim(
            name=f"{index}",
            queue="all",
            time_limit_us=round(gang.limit_s * SECOND_US),
            work_tokens=round(gang.limit_s * 1e3),
        )
        requests.append(
            Request(claim=claim, options=(option,), work=gang.run_s * 1e3, arrival_us=round(gang.arrival_s * SECOND_US))
        )
    driver = Driver(policy=Policy(queues=(Queue(name="all", order=order),)), pools=(pool,), nodes=fleet)
    driver.run(requests)
    lives = list(driver.lives.values())
    return [(life.started_us or 0) / SECOND_US for life in lives], [(life.ended_us or 0) / SECOND_US for life in lives]


def summary(policy: str, gangs: list[Gang], starts: list[float], ends: list[float], nodes: int) -> Result:
    """Sum up waits and use. large: gangs of at least a quarter of the fleet."""
    waits = np.array([max(0.0, s - gang.arrival_s) for s, gang in zip(starts, gangs, strict=True)]) / HOUR_S
    large = np.array([gang.nodes >= nodes // 4 for gang in gangs])
    span_s = max(ends)
    return Result(
        policy=policy,
        utilisation=round(sum(gang.nodes * gang.run_s for gang in gangs) / (nodes * span_s), 4),
        wait_mean_h=round(float(waits.mean()), 3),
        wait_p50_h=round(float(np.percentile(waits, 50)), 3),
        wait_p99_h=round(float(np.percentile(waits, 99)), 3),
        wait_max_h=round(float(waits.max()), 3),
        large_wait_mean_h=round(float(waits[large].mean()) if large.any() else 0.0, 3),
        makespan_h=round(span_s / HOUR_S, 2),
        jct_mean_h=round(float(np.mean([e - g.arrival_s for e, g in zip(ends, gangs, strict=True)])) / HOUR_S, 3),
    )


def compare(gangs: list[Gang], nodes: int, orders: list[str]) -> list[Result]:
    """Run FIFO with backfill, then the core under each order."""
    starts = fifo_with_backfill(gangs, nodes)
    ends = [start + gang.run_s for start, gang in zip(starts, gangs, strict=True)]
    results = [summary("fifo with backfill", gangs, starts, ends, nodes)]
    for order in orders:
        results.append(summary(f"core, {order}", gangs, *through_the_core(gangs, nodes, order), nodes))
    p99_h = results[0].wait_p99_h
    return [replace(item, wait_max_over_fifo_p99=round(item.wait_max_h / max(p99_h, 1e-9), 3)) for item in results]


def main() -> None:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--trace", type=Path, default=FOLDER / "scheduler" / "acme_kalos_converted.csv")
    parser.add_argument("--nodes", type=whole_number, default=256, help=f"of 8 chips, {NODES_MAX:,} at most")
    parser.add_argument("--load", type=float, default=0.9, help=f"from {LOADS[0]:g} to {LOADS[1]:g}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--order", choices=ORDERS, action="append")
    args = parser.parse_args()
    if args.nodes > NODES_MAX or not LOADS[0] <= args.load <= LOADS[1]:
        parser.error(f"--nodes goes up to {NODES_MAX:,}, --load from {LOADS[0]:g} to {LOADS[1]:g}")
    gangs = read_gangs(args.trace, args.nodes, args.load, args.seed)
    results = compare(gangs, args.nodes, args.order or ["best_effort"])
    if args.json:
        chips = args.nodes * CHIPS_PER_NODE
        print(json.dumps({"chips": chips, "load": args.load, "runs": [asdict(item) for item in results]}))
        return
    print("policy               busy  wait: mean    p50    p99    max  large mean (h, simulated)  max / FIFO's p99")
    for item in results:
        print(
            f"{item.policy:20} {item.utilisation:5.3f} {item.wait_mean_h:11.2f} {item.wait_p50_h:6.2f}"
            f" {item.wait_p99_h:6.2f} {item.wait_max_h:6.2f} {item.large_wait_mean_h:11.2f}"
            f" {item.wait_max_over_fifo_p99:32.2f}"
        )


if __name__ == "__main__":
    start(main)
