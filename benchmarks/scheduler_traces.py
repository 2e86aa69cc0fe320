"""Gavel's traces run through the core: how long jobs take under each order of a queue, in Gavel's rules and in ours.

Rules `gavel`: rounds of 360 s, a switch costs nothing, any number of switches, chips are dealt at the ends of rounds
alone. `fifo_perf` is Gavel's own baseline as its simulator runs it: an allocation is kept for at least 1,920 s, and
until a job comes or ends. Rules `production`: every start takes 60 s, rounds are of 1,800 s, a job gives way to others
at most five times in its life (then it moves to better chips at most), and what falls free is dealt at once. All
figures are simulated. `lp_bound_h` is the soonest end of all jobs by linear program, where all arrive at once;
`slowdown_worst` the longest time a job took by what it takes alone on its best chips. Prints a table, or JSON.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Node
from argosy.contracts.option import Option, Part, Size
from argosy.contracts.policy import SECOND_US, Policy, Queue, Reclaim, Round
from argosy.contracts.request import Claim, Pool
from argosy.control.choose import Ways, end_bound_s
from command import start
from core_driver import Driver, Life, Request
from gavel_traces import GAVEL, Rates, Row, read_rates, read_trace

SCALE = 1000
"""Thousandths of steps are the core's tokens, so that whole numbers are fine enough."""
ROUND_S = 360.0
KEPT_US = 1920 * SECOND_US
HOUR_US = 3600 * SECOND_US
POLICIES = ("fifo_perf", "fifo", "shortest_remaining", "fair", "makespan")
RULES = ("gavel", "production")
CHIPS_MAX = 100_000
PHYSICAL = {"v100": 8, "p100": 16, "k80": 24}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One trace under one policy. makespan_h: from the clock's start, as Gavel counts.

    left_out: jobs that no chip there is can run.
    """

    trace: str
    policy: str
    rules: str
    makespan_h: float
    jct_mean_h: float
    jct_p99_h: float
    starts_per_job: float
    utilisation: float
    slowdown_worst: float
    jobs: int
    lp_bound_h: float | None
    left_out: int = 0


def queue_of(policy: str, rules: str) -> Queue:
    """Give the queue whose order is the policy, under some rules."""
    order = "fifo" if policy == "fifo_perf" else policy
    if rules == "gavel":
        return Queue(name="all", order=order, round=Round(every_s=ROUND_S))
    return Queue(name="all", order=order, round=Round(every_s=5 * ROUND_S, start_s=60.0, exchanges_at_most=5))


def runnable(rows: list[Row], rates: Rates, chips: dict[str, int]) -> tuple[list[Row], list[str]]:
    """Part a trace into the jobs that some chip kind runs, and words about the others, which are left out."""
    kept, left_out = [], []
    for index, row in enumerate(rows):
        if speeds_of(row, rates, chips):
            kept.append(row)
        else:
            most = ", ".join(f"{count} {kind}" for kind, count in chips.items())
            left_out.append(f"job {index} left out: none of {most} runs {row.job_type} on {row.chips} chips")
    if not kept:
        raise BadInputError(f"no job of the trace can run on --chips; {left_out[0] if left_out else 'it has none'}")
    return kept, left_out


def speeds_of(row: Row, rates: Rates, chips: dict[str, int]) -> dict[str, float]:
    """Give the chip kinds that run a job, with its steps a second there."""
    speeds = {kind: rates[kind].get((row.job_type, row.chips), 0.0) for kind in chips}
    return {kind: speed for kind, speed in speeds.items() if speed > 0 and row.chips <= chips[kind]}


def requests_of(rows: list[Row], rates: Rates, chips: dict[str, int]) -> list[Request]:
    """Turn a trace into jobs with one option for each chip kind that runs them."""
    found = []
    for index, row in enumerate(rows):
        options = tuple(
            Option(
                name=kind,
                job="",
                ladder=(
                    Size(
                        parts=(Part(chip_class=kind, nodes=row.chips, topology="any"),),
                        tokens_per_second=speed * SCALE,
                        efficiency=1.0,
                    ),
                ),
            )
            for kind, speed in speeds_of(row, rates, chips).items()
        )
        claim = Claim(name=f"{index}", queue="all", priority=round(row.priority), work_tokens=round(row.steps * SCALE))
        arrival_us = round(row.arrival_s * SECOND_US)
        found.append(Request(claim=claim, options=options, work=row.steps * SCALE, arrival_us=arrival_us))
    return found


def fleet_of(chips: dict[str, int]) -> tuple[tuple[Pool, ...], tuple[Node, ...]]:
    """Make a fleet whose nodes have one chip each."""
    pools = tuple(Pool(name=kind, kind=kind, site="here", chips_per_node=1) for kind in chips)
    nodes = tuple(
        Node(name=f"{kind}-{index}", site="here", chip_class=kind, chips=1)
        for kind, count in chips.items()
        for index in range(count)
    )
    return pools, nodes


@dataclass(slots=True)
class Ticks:
    """When chips may be dealt in Gavel's rules: on the ticks of its rounds, or while nothing runs.

    kept_us: an allocation is kept at least so long, and until a job came or ended.
    """

    kept_us: int = 0
    tick_us: int = 0
    dealt_us: int = -(10**18)
    changes: int = -1

    def __call__(self, driver: Driver) -> int:
        """Give the time of the next deal."""
        round_us, now_us = round(ROUND_S * SECOND_US), driver.now_us
        if not driver.running:
            self.tick_us = now_us
        # Gavel takes a first allocation, at time 0, for none.
        least_us = max(now_us, self.dealt_us + self.kept_us if self.dealt_us else now_us)
        next_us = self.tick_us + -(-(least_us - self.tick_us) // round_us) * round_us
        if self.kept_us and self.changes == driver.changes and now_us > self.dealt_us:
            return now_us + round_us
        if next_us == now_us:
            self.dealt_us, self.changes = now_us, driver.changes
        return next_us


def run_trace(name: str, rows: list[Row], rates: Rates, chips: dict[str, int], policy: str, rules: str) -> Run:
    """Run one trace; jobs that no chip runs are left out and counted."""
    rows, left_out = runnable(rows, rates, chips)
    pools, nodes = fleet_of(chips)
    driver = Driver(
        policy=Policy(queues=(queue_of(policy, rules),), reclaim=Reclaim(pin_s=3600.0)),
        pools=pools,
        nodes=nodes,
        start_us=0 if rules == "gavel" else 60 * SECOND_US,
    )
    if rules == "gavel":
        driver.gate = Ticks(KEPT_US if policy == "fifo_perf" else 0)
    requests = requests_of(rows, rates, chips)
    driver.run(requests)
    run = _summary(name, policy, rules, list(driver.lives.values()), chips, requests)
    return replace(run, left_out=len(left_out))


def _summary(
    name: str, policy: str, rules: str, lives: list[Life], chips: dict[str, int], requests: list[Request]
) -> Run:
    """Sum up what became of all jobs."""
    ends = [life.ended_us for life in lives if life.ended_us is not None]
    if len(ends) != len(requests):
        raise RuntimeError(f"{len(requests) - len(ends)} jobs of {name} never ended under {policy}")
    jct_h = np.array([((life.ended_us or 0) - life.arrival_us) / HOUR_US for life in lives])
    alone_h = np.array(
        [r.work / max(s.tokens_per_second for o in r.options for s in o.ladder) / 3600 for r in requests]
    )
    span_us = max(ends) - min(request.arrival_us for request in requests)
    together = len({request.arrival_us for request in requests}) == 1
    return Run(
        trace=name,
        policy=policy,
        rules=rules,
        makespan_h=round(max(ends) / HOUR_US, 3),
        jct_mean_h=round(float(jct_h.mean()), 3),
        jct_p99_h=round(float(np.percentile(jct_h, 99)), 3),
        starts_per_job=round(float(np.mean([life.starts for life in lives])), 2),
        utilisation=round(sum(life.busy_chip_us for life in lives) / (sum(chips.values()) * span_us), 4),
        slowdown_worst=round(float((jct_h / alone_h).max()), 2),
        jobs=len(lives),
        lp_bound_h=round(requests[0].arrival_us / HOUR_US + lp_bound_h(requests, chips), 3) if together else None,
    )


def lp_bound_h(requests: list[Request], chips: dict[str, int]) -> float:
    """Give how soon after they came all jobs can end, were they cut at will."""
    kinds = list(chips)
    rows = [
        (job, s.parts[0], s.tokens_per_second) for job, r in enumerate(requests) for o in r.options for s in o.ladder
    ]
    owner = np.array([job for job, _, _ in rows], np.int64)
    rate = np.array([speed for _, _, speed in rows])
    work = np.array([request.work for request in requests])
    takes = np.zeros((len(rows), len(kinds)))
    for index, (_, part, _) in enumerate(rows):
        takes[index, kinds.index(part.chip_class)] = part.nodes
    nobody = np.zeros(len(rows), bool)
    ways = Ways(
        job=owner,
        takes=takes,
        speed=rate,
        pace=rate / work[owner],
        stays=nobody,
        fixed=nobody,
        kept=nobody,
        left_s=work,
        had=work,
        room=np.array([float(count) for count in chips.values()]),
        round_s=ROUND_S,
    )
    return end_bound_s(ways) / 3600


def read_chips(text: str) -> dict[str, int]:
    """Read `v100=8,p100=16`."""
    found = {}
    for item in text.split(","):
        kind, _, count = item.partition("=")
        if not kind.strip() or not count.isdecimal() or not 1 <= int(count) <= CHIPS_MAX:
            allowed = f"write kinds and counts up to {CHIPS_MAX:,}, such as v100=8,p100=16,k80=24"
            raise BadInputError(f"--chips {text}: got {item}; {allowed}")
        if kind.strip() in found:
            raise BadInputError(f"--chips {text}: {kind.strip()} is there twice; write each kind once")
        found[kind.strip()] = int(count)
    return found


def main() -> None:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--trace", type=Path, action="append", help="a trace in Gavel's format; default: the two kept")
    parser.add_argument("--chips", default="v100=8,p100=16,k80=24")
    parser.add_argument("--policy", choices=POLICIES, action="append")
    parser.add_argument("--rules", choices=RULES, action="append")
    parser.add_argument("--throughputs", type=Path, default=GAVEL / "simulation_throughputs.json.gz")
    args = parser.parse_args()
    traces = args.trace or [GAVEL / "static_100.trace", GAVEL / "continuous_96.trace"]
    try:
        chips, rates = read_chips(args.chips), read_rates(args.throughputs)
        unknown = sorted(set(chips) - set(rates))
        if unknown:
            raise BadInputError(f"--chips: no throughputs for {', '.join(unknown)}; there are {', '.join(rates)}")
        rows = [(path.stem, read_trace(path)) for path in traces]
        for _, trace in rows:
            for text in runnable(trace, rates, chips)[1]:
                print(text, file=sys.stderr)
        runs = [
            run_trace(name, trace, rates, chips, policy, rules)
            for name, trace in rows
            for rules in args.rules or RULES
            for policy in args.policy or POLICIES
            if not (policy == "fifo_perf" and rules == "production")
        ]
        if not runs:
            raise BadInputError("--policy fifo_perf is Gavel's own baseline; it runs under --rules gavel alone")
    except (BadInputError, OSError) as error:
        parser.error(str(error))
    if args.json:
        print(json.dumps({"chips": chips, "runs": [asdict(run) for run in runs]}))
        return
    print(
        f"{'trace':16} {'rules':10} {'policy':18} makespan  mean JCT   p99 JCT  starts  busy  LP bound (h, simulated)"
    )
    for run in runs:
        bound = f"{run.lp_bound_h:8.2f}" if run.lp_bound_h else "       -"
        print(
            f"{run.trace:16} {run.rules:10} {run.policy:18} {run.makespan_h:8.2f} {run.jct_mean_h:9.2f}"
            f" {run.jct_p99_h:9.2f} {run.starts_per_job:7.2f} {run.utilisation:5.2f} {bound}"
        )


if __name__ == "__main__":
    start(main)
