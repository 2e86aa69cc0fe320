"""How right and how fast location is on a simulated job of 100,000 ranks with TP, PP and DP groups.

    python benchmarks/locate.py [--json] [--ranks N] [--seeds N]

Each fault is put at a place drawn by a seed; the answer counts as right only if it names that culprit and nothing else.
locate_s: from traces in memory to findings, in seconds; cpu_s: of those, on the processor. peak_gb: the process's
largest memory, the traces included. small_right: the same faults in jobs of 1,024 ranks, at `--seeds` places each.
"""

import argparse
import json
import random
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from argosy.health.finding import Finding
from argosy.health.locate import locate
from argosy.health.traces import Collective, LinkProbe, Liveness, RankState, RankTraceOfGroups
from locate_job import HOST_RANKS, Job, run, timed, traces_of

SHAPES = {100_000: (8, 10, 1_250), 1_024: (8, 4, 32)}
Case = tuple[list[RankTraceOfGroups], Liveness]


@dataclass(frozen=True)
class Fault:
    """One kind of fault: how it is made, and what must be found as (class, culprit)."""

    name: str
    make: Callable[[Job, random.Random], tuple[Case, set[tuple[str, str]]]]


def stopped_job(job: Job) -> Case:
    """Run a job into its faults and take what it leaves."""
    return traces_of(job, run(job)), job.liveness()


def step_of(job: Job, stage: int, draw: random.Random, *kinds: str) -> int:
    """Draw a step of some kinds, or of any, out of a stage's first half, so that a second half is still to come."""
    program = job.program(stage)
    steps = [place for place, op in enumerate(program[: len(program) // 2]) if op.kind in kinds or not kinds]
    return draw.choice(steps)


def place(job: Job, draw: random.Random, replicas: range | None = None) -> tuple[int, int, int]:
    """Draw a rank's place."""
    return draw.randrange(job.pp), draw.choice(replicas or range(job.dp)), draw.randrange(job.tp)


def hang(job: Job, draw: random.Random, replicas: range | None = None) -> set[tuple[str, str]]:
    """Let one rank do something else than enter its next collective."""
    where = place(job, draw, replicas)
    # of two faults the other would hide one that comes after the replicas' exchange
    kinds = () if replicas is None or len(replicas) == job.dp else ("tp", "send", "receive")
    job.halts[where] = step_of(job, where[0], draw, *kinds)
    return {("process.hang", f"rank {job.rank(where)}")}


def dead_node(job: Job, draw: random.Random, replicas: range | None = None) -> set[tuple[str, str]]:
    """Let one host go with all its ranks and their traces."""
    where = place(job, draw, replicas)
    step = step_of(job, where[0], draw, "tp")
    ranks = job.on_host(job.rank(where))
    for rank in ranks:
        job.halts[job.place(rank)] = step
        job.silent.add(rank)
        job.states[rank] = RankState(state="unreachable", host=job.host(rank))
    return {("node.down", job.host(ranks[0]))}


def mute_node(job: Job, draw: random.Random, replicas: range | None = None) -> set[tuple[str, str]]:
    """Let one host vanish without anybody asking after it: all there is are the traces of the others."""
    (_, host) = dead_node(job, draw, replicas).pop()
    ranks = sorted(job.states)
    job.states.clear()
    job.asked = False
    return {("node.down", f"host of ranks {ranks[0]}-{ranks[-1]}")} if host else set()


def mismatch(job: Job, draw: random.Random, replicas: range | None = None) -> set[tuple[str, str]]:
    """Let one rank put another size, type or operation into a collective of its TP group."""
    where = place(job, draw, replicas)
    step = step_of(job, where[0], draw, "tp")
    job.poisoned.add(("tp", (where[0], where[1], 0), step))
    other = draw.choice([("all_reduce", "BFloat16", 4_096), ("all_reduce", "Float", 8_388_608), ("broadcast", "", -1)])
    job.odd[job.rank(where), step] = Collective(sequence=0, operation=other[0], dtype=other[1], size=other[2])
    return {("user.collective_mismatch", f"rank {job.rank(where)}")}


def stopped_inside(job: Job, draw: random.Random, replicas: range | None = None) -> set[tuple[str, str]]:
    """Stop one process after it entered a collective that all entered."""
    where = place(job, draw, replicas)
    job.poisoned.add(("tp", (where[0], where[1], 0), step_of(job, where[0], draw, "tp")))
    rank = job.rank(where)
    job.states[rank] = RankState(state="stopped", host=job.host(rank))
    return {("process.stopped", f"rank {rank}")}


def cut_link(job: Job, draw: random.Random, replicas: range | None = None) -> set[tuple[str, str]]:
    """Cut a link between two hosts of a DP group: all its members are inside, and only a probe tells."""
    stage, first, slice_ = place(job, draw, replicas)
    second = (first + job.dp // 2) % job.dp
    job.poisoned.add(("dp", (stage, 0, slice_), step_of(job, stage, draw, "dp")))
    ends = job.rank((stage, first, slice_)), job.rank((stage, second, slice_))
    job.probes += [LinkProbe(first=rank, second=rank + HOST_RANKS, gbytes_s=48.0) for rank in (0, HOST_RANKS)]
    job.probes.append(LinkProbe(first=ends[0], second=ends[1], ok=False))
    return {("process.link_stall", " - ".join(sorted(map(job.host, ends))))}


def slow_link(job: Job, draw: random.Random) -> tuple[Case, set[tuple[str, str]]]:
    """Let the transfers of one DP group take five times as long; a probe between two of its hosts tells which link."""
    stage, first, slice_ = place(job, draw)
    ends = job.rank((stage, first, slice_)), job.rank((stage, (first + 1) % job.dp, slice_))
    job.probes += [LinkProbe(first=rank, second=rank + HOST_RANKS, gbytes_s=48.0) for rank in (0, 8, 16)]
    job.probes.append(LinkProbe(first=ends[0], second=ends[1], gbytes_s=6.0))
    traces = list(timed(job, slow_groups=[f"dp {stage}.0.{slice_}"]))
    return (traces, job.liveness()), {("network.slow", " - ".join(sorted(map(job.host, ends))))}


def slow_rank(job: Job, draw: random.Random) -> tuple[Case, set[tuple[str, str]]]:
    """Let one rank come late to everything; its TP group passes the delay on."""
    rank = job.rank(place(job, draw))
    return (list(timed(job, slow_rank=rank)), job.liveness()), {("process.slow_rank", f"rank {rank}")}


def healthy(job: Job, _: random.Random) -> tuple[Case, set[tuple[str, str]]]:
    """Let all be well."""
    return (list(timed(job)), job.liveness()), set()


def stopping(*faults: Callable[..., set[tuple[str, str]]]) -> Callable[..., tuple[Case, set[tuple[str, str]]]]:
    """Make a case of faults that stop the job, each in replicas of its own, so that none hides another."""

    def make(job: Job, draw: random.Random) -> tuple[Case, set[tuple[str, str]]]:
        share = job.dp // len(faults)
        wanted = [fault(job, draw, range(n * share, (n + 1) * share)) for n, fault in enumerate(faults)]
        return stopped_job(job), set[tuple[str, str]]().union(*wanted)

    return make


FAULTS = (
    Fault("hang", stopping(hang)),
    Fault("mismatch", stopping(mismatch)),
    Fault("dead node", stopping(dead_node)),
    Fault("node without a word", stopping(mute_node)),
    Fault("stopped inside", stopping(stopped_inside)),
    Fault("cut link", stopping(cut_link)),
    Fault("slow link", slow_link),
    Fault("slow rank", slow_rank),
    Fault("hang and dead node", stopping(hang, dead_node)),
    Fault("mismatch and hang", stopping(mismatch, hang)),
    Fault("two hangs", stopping(hang, hang)),
    Fault("stopped inside and mismatch", stopping(stopped_inside, mismatch)),
    Fault("healthy", healthy),
)


def answers(found: Sequence[Finding]) -> set[tuple[str, str]]:
    """Give what was found as (class, culprit)."""
    return {(each.fault_class, each.culprit.name) for each in found}


def measure(fault: Fault, ranks: int, seed: int) -> dict[str, object]:
    """Make one case and locate it."""
    job = Job(**dict(zip(("tp", "pp", "dp"), SHAPES[ranks], strict=True)))
    (traces, liveness), wanted = fault.make(job, random.Random(seed))
    began, began_cpu = time.perf_counter(), time.process_time()
    found = locate(traces, liveness)
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    right = answers(found) == wanted and len(found) == len(wanted)
    row: dict[str, object] = {
        "fault": fault.name,
        "ranks": ranks,
        "right": right,
        "locate_s": round(took_s, 2),
        "cpu_s": round(cpu_s, 2),
    }
    if not right:
        row |= {
            "wanted": sorted(wanted),
            "found": [(each.fault_class, each.culprit.name) for each in found],
            "seed": seed,
        }
    return row


def main() -> None:
    """Measure every kind of fault and print a row each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ranks", type=int, choices=sorted(SHAPES), default=100_000)
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    locate_warm = measure(FAULTS[0], 1_024, 0)["locate_s"]
    small = [measure(fault, 1_024, seed) for fault in FAULTS for seed in range(arguments.seeds)]
    rows = [measure(fault, arguments.ranks, 0) for fault in FAULTS]
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    result = {
        "ranks": arguments.ranks,
        "n": len(rows),
        "right": sum(bool(row["right"]) for row in rows),
        "small_n": len(small),
        "small_right": sum(bool(row["right"]) for row in small),
        "locate_s_max": max(float(str(row["locate_s"])) for row in rows),
        "cpu_s_max": max(float(str(row["cpu_s"])) for row in rows),
        "first_call_s": locate_warm,
        "peak_gb": round(peak_gb, 2),
        "rows": rows,
        "wrong": [row for row in small if not row["right"]],
    }
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    for row in rows:
        print(f"{row['fault']:30} {'right' if row['right'] else 'WRONG':6} {row['locate_s']:6} s")
    print({key: value for key, value in result.items() if key not in ("rows", "wrong")})
    for row in [*result["wrong"], *(row for row in rows if not row["right"])]:
        print(row)


if __name__ == "__main__":
    main()
