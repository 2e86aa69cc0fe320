"""How fast the timeline is: one step of deep pipelines, many micro-batches and thousands of replicas.

    python benchmarks/timeline.py [--json]

All times are seconds or milliseconds of CPU. cold_s: the first call of a process without compiled code on disk;
cached_s: the first call of one that finds it; warm_ms: any later call, of a plan that was not timed before.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from argosy.contracts.plan import SCHEDULES, Exchange, Plan, Replica, Send, Stage, Wire
from argosy.plan.timing.timeline import steady
from command import start

LAYERS = 128
REPEATS = 5


def pipeline(places: int, microbatches: int, virtual: int, uneven: float) -> Replica:
    """Make a replica whose stages all differ. uneven: makes it differ from others."""
    stages = places * virtual
    edges = [LAYERS * s // stages for s in range(stages + 1)]
    made = []
    for s, (first, end) in enumerate(itertools.pairwise(edges)):
        units = end - first + (s == 0) + (s == stages - 1)
        forward_ms = units * (1 + 0.013 * (s % 7) + uneven)
        made.append(
            Stage(
                first_layer=first,
                end_layer=end,
                chip_class="site/chip",
                forward_ms=forward_ms,
                backward_ms=2.1 * forward_ms,
                backward_shares=(1 / units,) * units,
                update_ms=3.0,
            )
        )
    sends = (Send(wire="network", payload_bytes=1e6),) * (stages - 1)
    return Replica(stages=tuple(made), microbatches=microbatches, microbatch_size=1, sends=sends)


def plan(schedule: str, places: int, microbatches: int, replicas: int = 1, uneven: float = 0.0) -> Plan:
    """Make a plan of like replicas that exchange every layer over a shared link."""
    virtual = 2 if schedule == "interleaved" else 1
    one = pipeline(places, microbatches, virtual, uneven)
    held = {layer: s for s, stage in enumerate(one.stages) for layer in range(stage.first_layer, stage.end_layer)}
    exchanges = [
        Exchange(unit=layer, members=tuple((r, s) for r in range(replicas)), wire="link", wire_bytes=2e7)
        for layer, s in held.items()
    ]
    return Plan(
        model="benchmark",
        num_layers=LAYERS,
        fleet="benchmark",
        sequence_length=1,
        global_batch_size=one.sequences * replicas,
        replicas=(one,) * replicas,
        schedule=schedule,
        virtual_stages=virtual,
        wires=(
            Wire(name="network", gbps=100, one_way_ms=0.01),
            Wire(name="link", gbps=800, one_way_ms=0.25, shared=True, long_link=True),
        ),
        exchanges=tuple(exchanges) if replicas > 1 else (),
        barrier_ms=1.0,
    )


def warm_ms(schedule: str, places: int, microbatches: int, replicas: int = 1) -> float:
    """Time some plans that were not timed before; the least of them."""
    found = []
    for repeat in range(REPEATS):
        fresh = plan(schedule, places, microbatches, replicas, uneven=0.001 * (repeat + 1))
        began_s = time.process_time()
        steady(fresh)
        found.append((time.process_time() - began_s) * 1e3)
    return min(found)


def first_call_s(cache: str) -> float:
    """Time the first call in a process of its own that keeps compiled code in `cache`."""
    script = (
        "import time, timeline; p = timeline.plan('1f1b', 8, 64); t = time.process_time(); timeline.steady(p); "
        "print(time.process_time() - t)"
    )
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=here,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def main(arguments: Sequence[str]) -> int:
    """Time all cases and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as cache:
        result: dict[str, object] = {"cold_s": first_call_s(cache), "cached_s": first_call_s(cache)}
    steady(plan("1f1b", 4, 8))
    cases = [
        *((schedule, 64, 4096, 1) for schedule in SCHEDULES),
        *((schedule, 64, 2**30, 1) for schedule in SCHEDULES),
        ("1f1b", 16, 256, 3000),
    ]
    result["cases"] = [
        {"schedule": s, "places": p, "microbatches": m, "replicas": r, "warm_ms": warm_ms(s, p, m, r)}
        for s, p, m, r in cases
    ]
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    start(lambda: main(sys.argv[1:]))
