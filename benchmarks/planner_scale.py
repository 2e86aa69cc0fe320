"""How long the planner searches, and how much memory it takes, from a thousand chips to a hundred thousand.

    python benchmarks/planner_scale.py [--json] [--case NAME]

Each case runs in a process of its own. cold_s: the first search in it, compiled code read from its cache or made;
search_s: the second; both wall time, search_cpu_s the second's CPU time. peak_rss_gb: of the whole process, imports
included. The top level repeats the largest case. No plan is checked here but for what `check_plan` checks.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.contracts.fleet import Fleet, LongLink, Nics, NodeGroup, Site
from argosy.contracts.job import DataSpec, Job, TrainSpec
from argosy.contracts.plan import Plan
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.classes import chip_classes
from argosy.model.config import read_config
from argosy.model.named import config_text
from argosy.plan.planner import plan_job
from argosy.plan.timing.check import check_plan
from command import start

HERE = Path(__file__).parent
KIB_PER_GB = 1e9 / 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question. model: a named one or a file beside this script. nodes: (site, chip, nodes of eight), in order.

    links: Gb/s and km between any two sites.
    """

    name: str
    model: str
    sequence_length: int
    batch: int
    nodes: tuple[tuple[str, str, int], ...]
    gbps: float = 3200.0
    km: float = 50.0


CASES = (
    Case(
        name="llama-3-70b on 1,024 chips of 4 classes",
        model="llama-3-70b",
        sequence_length=8192,
        batch=1024,
        nodes=(
            ("north", "h100-sxm", 32),
            ("north", "a800-sxm-80gb", 32),
            ("south", "h800-sxm", 32),
            ("south", "ascend-910b3", 32),
        ),
    ),
    Case(
        name="llama-3.1-405b on 10,000 chips of 3 classes",
        model="llama-3.1-405b",
        sequence_length=8192,
        batch=2048,
        nodes=(("north", "h100-sxm", 600), ("north", "h800-sxm", 300), ("south", "ascend-910c", 350)),
    ),
    Case(
        name="moe-1t on 100,000 chips of 6 kinds in 4 sites",
        model="models/moe-1t.json",
        sequence_length=4096,
        batch=16384,
        gbps=51200.0,
        km=20.0,
        nodes=(
            ("east", "h100-sxm", 2000),
            ("east", "a800-sxm-80gb", 1500),
            ("west", "h800-sxm", 2000),
            ("west", "a800-sxm-80gb", 500),
            ("north", "mi300x", 1500),
            ("north", "ascend-910b3", 1000),
            ("south", "ascend-910b3", 2000),
            ("south", "ascend-910c", 2000),
        ),
    ),
)


def fleet_of(case: Case) -> Fleet:
    """Build a case's fleet: nodes of eight chips with eight cards of 400 Gb/s, all sites joined."""
    sites = list(dict.fromkeys(site for site, _, _ in case.nodes))
    return Fleet(
        name=case.name,
        sites=tuple(Site(name=site) for site in sites),
        nodes=tuple(
            NodeGroup(site=site, chip=chip, chips_per_node=8, count=count, nics=Nics(count=8, gbps=400.0))
            for site, chip, count in case.nodes
        ),
        long_links=tuple(
            LongLink(between=(one, other), km=case.km, gbps=case.gbps)
            for index, one in enumerate(sites)
            for other in sites[index + 1 :]
        ),
    )


def job_of(case: Case) -> Job:
    """Build a case's job."""
    train = TrainSpec(sequence_length=case.sequence_length, global_batch_size=case.batch, steps=1000)
    return Job(name="scale", model=case.model, data=DataSpec(files=("none",)), train=train)


def ask(case: Case) -> tuple[Plan, ...]:
    """Plan a case anew; nothing of an earlier search is kept but compiled code."""
    model = str(HERE / case.model) if case.model.endswith(".json") else case.model
    fleet = fleet_of(case)
    classes = chip_classes(fleet, load_catalogue())
    return plan_job(job_of(case), read_config(*config_text(model)), classes, fleet.long_links, fleet=fleet.name)


def measure(case: Case) -> dict[str, Any]:
    """Search twice and say what it took."""
    seconds, cpu = [], []
    for _ in range(2):
        begun, begun_cpu = time.perf_counter(), time.process_time()
        plans = ask(case)
        seconds.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - begun_cpu)
    for plan in plans:
        check_plan(plan)
    return {
        "name": case.name,
        "chips": 8 * sum(count for _, _, count in case.nodes),
        "search_s": seconds[1],
        "search_cpu_s": cpu[1],
        "cold_s": seconds[0],
        "peak_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_GB,
        **told(plans[0]),
    }


def told(plan: Plan) -> dict[str, Any]:
    """Describe a plan in a few figures."""
    assert plan.prediction is not None
    return {
        "step_ms": plan.prediction.step_ms,
        "mfu": plan.prediction.mfu,
        "gap": plan.prediction.gap,
        "chips_used": plan.world_size,
        "replicas": len(plan.replicas),
    }


def in_process(case: Case) -> dict[str, Any]:
    """Measure a case in a fresh process."""
    command = [sys.executable, __file__, "--json", "--case", case.name, "--here"]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print them."""
    parser = argparse.ArgumentParser(description="How long the planner searches.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--case", help="only the case whose name has this in it")
    parser.add_argument("--here", action="store_true", help="measure the case in this process and print it alone")
    options = parser.parse_args(arguments)
    chosen = [case for case in CASES if (options.case or "") in case.name]
    if not chosen:
        parser.error(f"--case {options.case!r}: there are {', '.join(case.name for case in CASES)}")
    if options.here:
        print(json.dumps(measure(chosen[0])))
        return 0
    cases = [in_process(case) for case in chosen]
    largest = max(cases, key=lambda case: case["chips"])
    top = {key: largest[key] for key in ("chips", "search_s", "cold_s", "peak_rss_gb")}
    if options.json:
        print(json.dumps({**top, "cases": cases}, indent=1))
        return 0
    for case in cases:
        print(
            f"{case['name']}: {case['search_s']:.2f} s (cold {case['cold_s']:.2f} s, "
            f"CPU {case['search_cpu_s']:.2f} s), {case['peak_rss_gb']:.2f} GB; "
            f"step {case['step_ms']:.0f} ms, MFU {case['mfu']:.1%}"
        )
    return 0


if __name__ == "__main__":
    start(main)
