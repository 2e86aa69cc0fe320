"""How long one pass of the scheduler takes on a large fleet: 12,500 nodes, 100,000 chips, 10,000 waiting jobs.

Four sites, six chip kinds, quota tree with borrowing, fair share, topology levels, mixed and cross-site options,
elastic jobs, reservations, spares, maintenance windows and reclaim are all on. Cases: an empty fleet, 50 % busy, 95 %
busy with 200 gangs that may reclaim, and 1,000 changes folded before each pass. Prints a table, or JSON with --json.

Times are of the pass alone, in CPU milliseconds of this process, after compilation (`compile_ms` is all cases once
on a small fleet, with whatever must be compiled or read). Beside them: `fold_ms`, the changes folded before;
`follow_up_ms`, the pass right after, once what started runs; `explain_ms`, putting one job's reason into words, which
the pass leaves to whoever asks (of 200 jobs). Arrays of options are kept from pass to pass, so they are brought up to
date before a restored state is timed. `caps` are the product's own bounds on one pass: what they leave is for the next.
"""

import argparse
import gc
import json
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from argosy.contracts.event import (
    AttemptRunning,
    FleetDescribed,
    JobSubmitted,
    NodeSeen,
    NodesReleased,
    PassDue,
    PolicyChanged,
    StopAsked,
    TermBegan,
)
from argosy.contracts.fleet import Node
from argosy.contracts.option import Option, Part, Size
from argosy.contracts.policy import SECOND_US, Policy, Queue, Window
from argosy.contracts.request import Claim, Pool
from argosy.control.change import AttemptBegan, JobMoved, Record
from argosy.control.core import step
from argosy.control.explain import explain, noted_of
from argosy.control.line import STARTS_MAX
from argosy.control.settle import RECLAIMS_MAX
from argosy.control.snapshot import restore, snapshot
from argosy.control.state import State
from command import start, whole_number

T = TypeVar("T")

SITES = ("north", "south", "east", "west")
KINDS = ("h800", "a910", "h100", "mi300", "v100", "l40")
CHIPS_PER_NODE = 8
RACK, SPINE = 4, 32
HOUR_US = 3600 * SECOND_US
ASKED = 200
GANGS = (1, 1, 1, 2, 2, 4, 4, 8, 16, 32, 64)


@dataclass
class Bench:
    """A core filled for one case, and how to feed it."""

    state: State
    rng: np.random.Generator
    now_us: int = 0
    pools: list[Pool] = field(default_factory=list)
    owned: dict[str, int] = field(default_factory=dict)

    def send(self, kind: type, **fields: object) -> Record:
        """Send one event."""
        return step(self.state, kind(seq=self.state.seq + 1, now_us=self.now_us, term=1, **fields))


def fleet(nodes: int) -> tuple[list[Pool], list[Node]]:
    """Every kind in two of the sites, so that there are twelve pools."""
    pools, found = [], []
    pairs = [(SITES[(i + j * 2) % 4], kind) for i, kind in enumerate(KINDS) for j in range(2)]
    counts = [nodes // len(pairs) + (index < nodes % len(pairs)) for index in range(len(pairs))]
    racks = 0
    for (site, kind), count in zip(pairs, counts, strict=True):
        pools.append(Pool(name=f"{site}/{kind}", kind=kind, site=site, chips_per_node=CHIPS_PER_NODE))
        for index in range(count):
            place = {"rack": racks + index // RACK, "spine": (racks + index // RACK) // (SPINE // RACK)}
            name = f"{site}-{kind}-{index}"
            found.append(Node(name=name, site=site, chip_class=f"{site}/{kind}", chips=CHIPS_PER_NODE, **place))
        racks += count // RACK + SPINE
    return pools, found


def rules(chips: dict[str, int]) -> Policy:
    """Four departments of six teams; teams own half of the fleet, departments three quarters."""
    queues = []
    for department in range(4):
        name = f"dept{department}"
        queues.append(Queue(name=name, guarantee={kind: count * 3 // 16 for kind, count in chips.items()}))
        for team in range(6):
            own = {kind: count // 48 for kind, count in chips.items()}
            extra = {"order": "strict"} if team == 5 else {"borrow": {"*": 20_000}} if team == 4 else {}
            queues.append(Queue(name=f"{name}-{team}", parent=name, guarantee=own, weight=1.0 + team % 3, **extra))
    windows = tuple(
        Window(site=site, rack=rack, from_us=6 * HOUR_US, to_us=9 * HOUR_US)
        for site in SITES
        for rack in range(0, 4000, 97)
    )
    return Policy(queues=tuple(queues), spares=dict.fromkeys(SITES, 4), maintenance=windows)


def make(nodes: int, seed: int) -> Bench:
    """Make a fleet that is up, with its policy."""
    bench = Bench(State(seed), np.random.default_rng(seed))
    pools, found = fleet(nodes)
    bench.pools = pools
    chips: dict[str, int] = {}
    for node in found:
        kind = node.chip_class.split("/")[1]
        chips[kind] = chips.get(kind, 0) + node.chips
    bench.send(TermBegan)
    bench.send(FleetDescribed, pools=tuple(pools), nodes=tuple(found))
    bench.send(PolicyChanged, policy=rules(chips))
    for node in found:
        bench.send(NodeSeen, node=node.name, observed="up")
    return bench


def submit(bench: Bench, count: int, sizes: tuple[int, ...] = GANGS, queues: tuple[int, ...] = tuple(range(6))) -> None:
    """Hand in jobs of mixed sizes, kinds, levels, options and time limits."""
    rng = bench.rng
    for index in range(count):
        gang = int(rng.choice(sizes))
        pool = int(rng.integers(len(bench.pools)))
        twin = pool ^ 1
        near = (
            "rack"
            if gang <= RACK and rng.random() < 0.3
            else "spine"
            if gang <= SPINE and rng.random() < 0.5
            else "site"
        )
        ladder = [_size(bench, ((pool, gang),), near)]
        elastic = gang >= 4 and rng.random() < 0.3
        if elastic:
            ladder += [_size(bench, ((pool, gang // 2),), near), _size(bench, ((pool, gang // 4),), near)]
        options = [Option(name="one", job="", ladder=tuple(ladder))]
        if rng.random() < 0.3:
            other = int(rng.integers(len(bench.pools)))
            options.append(Option(name="other", job="", ladder=(_size(bench, ((other, gang),), "site", 0.8),)))
        if gang >= 16 and rng.random() < 0.3:
            halves = ((pool, gang // 2), (twin, gang // 2))
            options.append(Option(name="cross-site", job="", ladder=(_size(bench, halves, "site", 0.9),)))
        queue = f"dept{index % 4}-{int(rng.choice(queues))}"
        limit_us = int(rng.choice((1, 2, 4, 8, 24, 72))) * HOUR_US if rng.random() < 0.8 else None
        claim = Claim(
            name=f"j{index}", queue=queue, priority=int(rng.integers(3)), time_limit_us=limit_us, elastic=elastic
        )
        bench.send(JobSubmitted, claim=claim, options=tuple(options))


def _size(bench: Bench, parts: tuple[tuple[int, int], ...], near: str, speed: float = 1.0) -> Size:
    nodes = sum(count for _, count in parts)
    made = tuple(Part(chip_class=bench.pools[pool].name, nodes=count, topology=near) for pool, count in parts)
    return Size(parts=made, tokens_per_second=nodes * speed, efficiency=speed)


def fill(bench: Bench, share: float) -> None:
    """Start jobs until so much of the fleet is busy, then let nothing wait."""
    total = len(bench.state.nodes)
    while _busy(bench.state) < share * total:
        before = _busy(bench.state)
        submit(bench, 400)
        launched(bench, bench.send(PassDue))
        if _busy(bench.state) == before:
            break
    for job in list(bench.state.jobs.values()):
        if job.state in ("waiting", "reserved"):
            bench.send(StopAsked, job=job.id)
    for attempt in sorted(bench.state.attempts.values(), key=lambda item: -item.began_us):
        if _busy(bench.state) <= share * total:
            break
        bench.send(StopAsked, job=attempt.job)
        released(bench, attempt.id, attempt.generation, attempt.all_nodes())


def launched(bench: Bench, record: Record) -> None:
    """Let everything launched run."""
    for change in record.changes:
        if isinstance(change, AttemptBegan) and change.attempt in bench.state.attempts:
            bench.send(AttemptRunning, attempt=change.attempt, generation=1)


def released(bench: Bench, attempt: str, generation: int, numbers: tuple[int, ...]) -> None:
    """Let agents confirm that nodes are free."""
    names = bench.state.nodes.names(numbers)
    bench.send(NodesReleased, attempt=attempt, generation=generation, nodes=names)


def _busy(state: State) -> int:
    return sum(1 for holder in state.nodes.holder if holder)


def churn(bench: Bench, changes: int) -> None:
    """Fold changes in: jobs end, come and go, nodes blink."""
    running = [a for a in bench.state.attempts.values() if bench.state.jobs[a.job].state == "running"]
    for attempt in running[: changes // 4]:
        numbers = attempt.all_nodes()
        bench.send(StopAsked, job=attempt.job)
        released(bench, attempt.id, attempt.generation, numbers)
    submit(bench, changes // 4)
    for number in range(changes // 8):
        name = bench.state.nodes.name[(number * 97) % len(bench.state.nodes)]
        if not bench.state.nodes.holder[bench.state.nodes.number[name]]:
            bench.send(NodeSeen, node=name, observed="suspect")
            bench.send(NodeSeen, node=name, observed="up")


def cases(nodes: int, jobs: int, seed: int) -> Iterator[tuple[str, Bench, int]]:
    """Each case: its name, a filled core, and changes to fold in before each pass."""
    bench = make(nodes, seed)
    submit(bench, jobs)
    yield "empty fleet", bench, 0
    bench = make(nodes, seed + 1)
    fill(bench, 0.5)
    submit(bench, jobs)
    yield "50 % busy", bench, 0
    bench = make(nodes, seed + 2)
    fill(bench, 0.95)
    submit(bench, jobs - 200, queues=(0, 1, 2, 5))
    submit(bench, 200, sizes=(4, 8), queues=(3, 4))
    bench.now_us += HOUR_US
    yield "95 % busy, 200 reclaiming gangs", bench, 0
    bench = make(nodes, seed + 3)
    fill(bench, 0.95)
    submit(bench, jobs)
    yield "1,000 changes before each pass", bench, 1000


def measure(name: str, bench: Bench, changes: int, passes: int) -> dict[str, object]:
    """Time passes: each on the state that a snapshot brings back, or with changes between."""
    times: list[float] = []
    folds: list[float] = []
    seconds: list[float] = []
    frozen = snapshot(bench.state) if not changes else b""
    for _ in range(passes):
        if changes:
            bench.now_us += 60 * SECOND_US
        else:
            bench.state = restore(frozen)
            bench.state.shapes.count()
        gc.collect()
        if changes:
            folds.append(timed(lambda: churn(bench, changes))[0])
        taken_ms, record = timed(lambda: bench.send(PassDue))
        times.append(taken_ms)
        placed = sum(isinstance(c, AttemptBegan) for c in record.changes)
        evicted = sum(isinstance(c, JobMoved) and c.reason == "preempted" for c in record.changes)
        explained, each_ms = reasons(bench)
        launched(bench, record)
        if not changes:
            seconds.append(timed(lambda: bench.send(PassDue))[0])
    return {
        "name": name,
        "median_ms": round(float(np.median(times)), 2),
        "p99_ms": round(float(np.quantile(times, 0.99)), 2),
        "placed": placed,
        "evicted": evicted,
        "explained": explained,
        "explain_ms": round(each_ms, 3),
        "fold_ms": round(float(np.median(folds)), 2) if folds else None,
        "follow_up_ms": round(float(np.median(seconds)), 2) if seconds else None,
    }


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Do something and give its CPU milliseconds."""
    begun = time.process_time()
    result = work()
    return (time.process_time() - begun) * 1e3, result


def reasons(bench: Bench) -> tuple[int, float]:
    """Count the waiting jobs that the pass has a reason for, and give the CPU milliseconds to tell one of them."""
    waiting = [job for job in bench.state.jobs.values() if job.state in ("waiting", "reserved")]
    noted = sum(noted_of(bench.state, job) is not None for job in waiting)
    asked = waiting[:: max(1, len(waiting) // ASKED)]
    begun = time.process_time()
    told = [explain(bench.state, job.id) for job in asked]
    each_ms = (time.process_time() - begun) * 1e3 / max(1, len(told))
    return noted if all(why is not None and why.text for why in told) else 0, each_ms


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=whole_number, default=12_500)
    parser.add_argument("--jobs", type=whole_number, default=10_000)
    parser.add_argument("--passes", type=whole_number, default=15)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begun = time.process_time()
    for _, bench, _ in cases(48, 40, 0):
        bench.send(PassDue)
    compile_ms = (time.process_time() - begun) * 1e3
    rows = [
        measure(name, bench, changes, options.passes)
        for name, bench, changes in cases(options.nodes, options.jobs, options.seed)
    ]
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    result = {
        "cases": rows,
        "chips": options.nodes * CHIPS_PER_NODE,
        "queued_jobs": options.jobs,
        "peak_rss_gb": round(peak_gb, 3),
        "compile_ms": round(compile_ms, 1),
        "caps": {"starts": STARTS_MAX, "reclaims": RECLAIMS_MAX, "holds_per_pool": Policy().reservations},
    }
    if options.json:
        print(json.dumps(result))
        return
    for row in rows:
        print(
            f"{row['name']:34} median {row['median_ms']:8.2f} ms   p99 {row['p99_ms']:8.2f} ms   "
            f"placed {row['placed']}, evicted {row['evicted']}, explained {row['explained']}; "
            f"fold {row['fold_ms']} ms, follow-up {row['follow_up_ms']} ms, one reason {row['explain_ms']} ms"
        )
    print(f"{result['chips']:,} chips, {options.jobs:,} jobs, peak {peak_gb:.2f} GB")


if __name__ == "__main__":
    start(main)
