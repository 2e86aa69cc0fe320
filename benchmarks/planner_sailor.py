"""Plans Sailor's clusters from its profiles under its rules; times plans by its arithmetic, extended to several kinds.

    python benchmarks/planner_sailor.py [--json] [--model OPT-350 --chips A100-40=32,V100-16=96 [--batch N]]

Rules: every stage of a replica has the same data-parallel degree; tensor parallelism only within a node and only where
it was timed; memory as Sailor's simulator counts it; the whole batch is trained; gradients are summed across kinds of
chips too. `plan` is in Sailor's JSON form; see sailor_evaluator.py for how several pipelines are timed.

`iterations_per_s`, `plan`, `sums`: gradients summed by the better of two rules, three phases (our extension) or one
ring over all holders of a layer; `*_iterations_per_s`: the same plan by each. `one_ring`: the best found for that rule.
`single_pipeline`: the best plan found whose replicas are all alike, which Sailor's simulator times without extension.
search_s is the second of two searches for both rules, search_cpu_s its CPU time, cold_search_s the first.
bound_gap: how far a plan's step is above a proven least one by the same rule (loose where sums go in three phases).
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from argosy.contracts.errors import ArgosyError, BadInputError
from argosy.plan.costs.profiles import known
from argosy.plan.mix.bound import bound_s
from argosy.plan.mix.mix import Mix, plan_alike, plan_mix
from argosy.plan.mix.tables import Sums
from command import COUNT_MAX, start, whole_number
from sailor_data import Setting, load_setting, reference_folder
from sailor_evaluator import Timing, check, evaluate, read_plan
from sailor_problem import mix_problem, sailor_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A cluster, with what Sailor's plan reaches there (iterations/s by its simulator) and our aim; 0 where unknown."""

    model: str
    pool: tuple[tuple[str, int], ...]
    sailor: float = 0.0
    target: float = 0.0
    batch: int = 0

    @property
    def name(self) -> str:
        """Name the model and the chips."""
        return f"{self.model} {' + '.join(f'{count} {chip}' for chip, count in self.pool)}"


def mixed(a100: int, v100: int) -> tuple[tuple[str, int], ...]:
    """Give a pool of A100-40 and V100-16."""
    return (("A100-40", a100), ("V100-16", v100))


CASES = (
    Case(model="OPT-350", pool=mixed(32, 96), sailor=0.1700, target=0.200),
    Case(model="OPT-350", pool=mixed(80, 240), sailor=0.3609, target=0.415),
    Case(model="OPT-350", pool=mixed(128, 384), sailor=0.5229, target=0.59),
    Case(model="OPT-350", pool=mixed(1024, 3072), sailor=1.405, target=1.70),
    Case(model="GPT-Neo-2.7", pool=mixed(32, 96), sailor=0.0263, target=0.0263 * 1.2),
    Case(model="GPT-Neo-2.7", pool=mixed(80, 240), sailor=0.0583, target=0.0583 * 1.2),
    Case(model="GPT-Neo-2.7", pool=mixed(128, 384), sailor=0.0892, target=0.0892 * 1.2),
)


def solve(case: Case, data: str) -> dict[str, Any]:
    """Plan one case and time the plans."""
    setting = load_setting(reference_folder(data), case.model, case.batch)
    pool = dict(case.pool)
    problem = mix_problem(setting, pool)
    seconds, used = [], []
    for _ in range(2):
        begun, cpu = time.perf_counter(), time.process_time()
        ring, phased = plan_mix(problem, "one_ring"), plan_mix(problem, "three_phases")
        seconds.append(time.perf_counter() - begun)
        used.append(time.process_time() - cpu)
    begun = time.perf_counter()
    alike = plan_alike(problem)
    alike_s = time.perf_counter() - begun
    ring = min(ring, alike, key=lambda mix: mix.step_s("one_ring"))
    alike = ring if len(ring.parts) == 1 else alike
    sooner = phased.step_s("three_phases") < ring.step_s("one_ring") * (1 - 1e-9)
    sums: Sums = "three_phases" if sooner else "one_ring"
    best = phased if sums == "three_phases" else ring
    timing, row = _timed(case, setting, best)
    best_s = timing.iteration_s if sums == "three_phases" else timing.one_ring_s
    ring_timing, ring_row = _timed(case, setting, ring)
    alike_timing, alike_row = _timed(case, setting, alike)
    return {
        "name": case.name,
        "iterations_per_s": 1 / best_s,
        "sums": sums,
        "one_ring_iterations_per_s": 1 / timing.one_ring_s,
        "three_phases_iterations_per_s": 1 / timing.iteration_s,
        "search_s": seconds[-1],
        "search_cpu_s": used[-1],
        "cold_search_s": seconds[0],
        "bound_gap": best_s / bound_s(problem, sums) - 1,
        "sailor_iterations_per_s": case.sailor or None,
        "target_iterations_per_s": case.target or None,
        "sync_s": timing.sync_s,
        "planner_error": best.step_s(sums) / best_s - 1,
        **row,
        "one_ring": {
            "iterations_per_s": 1 / ring_timing.one_ring_s,
            "three_phases_iterations_per_s": 1 / ring_timing.iteration_s,
            "bound_gap": ring_timing.one_ring_s / bound_s(problem, "one_ring") - 1,
            "planner_error": ring.step_s("one_ring") / ring_timing.one_ring_s - 1,
            **ring_row,
        },
        "single_pipeline": {
            "iterations_per_s": 1 / alike_timing.one_ring_s,
            "search_s": alike_s,
            **alike_row,
        },
    }


def _timed(case: Case, setting: Setting, mix: Mix) -> tuple[Timing, dict[str, Any]]:
    """Write a mix as a plan, hold it against the rules and time it."""
    pool = dict(case.pool)
    plan = sailor_plan(mix, setting, pool)
    form = read_plan(json.dumps(plan), "our plan")
    problems = check(form, setting, pool)
    if problems:
        raise RuntimeError(f"{case.name}: the plan breaks the rules: {'; '.join(problems)}")
    summary = [
        {
            "replicas": part.replicas,
            "microbatches": part.microbatches,
            "microbatch_size": part.pipeline.microbatch_size,
            "stages": [
                f"{case.pool[carrier.chip_class][0]} TP{carrier.tp} layers {first}..{end - 1}"
                for first, end, carrier in zip(
                    part.pipeline.starts, part.pipeline.ends, part.pipeline.carriers, strict=True
                )
            ],
        }
        for part in mix.parts
    ]
    return evaluate(form, setting), {"summary": summary, "plan": plan}


def parse_pool(text: str) -> tuple[tuple[str, int], ...]:
    """Read `A100-40=32,V100-16=96`."""
    pool: dict[str, int] = {}
    for item in text.split(","):
        name, _, count = item.strip().partition("=")
        if not name or not count.strip().isdecimal() or not 1 <= int(count) <= COUNT_MAX or name in pool:
            raise BadInputError(
                f"--chips {text!r}: expected NAME=COUNT,... with counts of 1 to {COUNT_MAX:,}, each name once"
            )
        pool[name] = int(count)
    return tuple(pool.items())


def main(arguments: Sequence[str]) -> int:
    """Plan all cases, or the one asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--data", default="", help="folder with Sailor's data")
    parser.add_argument("--model", default="", help="plan this model; with --chips")
    parser.add_argument("--chips", default="", help="on this pool: A100-40=32,V100-16=96")
    parser.add_argument("--batch", type=whole_number, default=0, help="by default the model's training config's")
    options = parser.parse_args(arguments)
    try:
        if options.batch and not options.chips:
            raise BadInputError("--batch goes with --chips, as in --chips A100-40=32,V100-16=96 --batch 1024")
        cases: tuple[Case, ...] = CASES
        if options.chips:
            cases = (Case(model=options.model or "OPT-350", pool=parse_pool(options.chips), batch=options.batch),)
        elif options.model:
            known(options.model, {case.model for case in CASES}, "model of these cases (--chips plans others)")
            cases = tuple(case for case in CASES if case.model == options.model)
        solved = []
        for case in cases:
            solved.append(solve(case, options.data))
            _report(solved[-1])
    except ArgosyError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        print(json.dumps({"cases": solved}))
    return 0


def _report(row: dict[str, Any]) -> None:
    target, ring, single = row["target_iterations_per_s"], row["one_ring"], row["single_pipeline"]
    aim = f", aim {target:.4f} {'met' if row['iterations_per_s'] >= target else 'MISSED'}" if target else ""
    print(
        f"{row['name']}: {row['iterations_per_s']:.4f} it/s{aim} (this plan with one ring "
        f"{row['one_ring_iterations_per_s']:.4f}; best with one ring {ring['iterations_per_s']:.4f}, of replicas all "
        f"alike {single['iterations_per_s']:.4f}), gap {row['bound_gap']:.1%} (one ring {ring['bound_gap']:.1%}), "
        f"search {row['search_s']:.2f} s ({row['search_cpu_s']:.2f} of CPU; cold {row['cold_search_s']:.2f})",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    start(lambda: main(sys.argv[1:]))
