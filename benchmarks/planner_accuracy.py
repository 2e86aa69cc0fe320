"""How far predicted step times and memory are from measured ones.

    python benchmarks/planner_accuracy.py [--json] [--published FILE] [--data FOLDER]

sailor_clean: 33 measured runs of eth-easl/sailor (three suspects left out), timed from its profiles by two rules that
stand in this benchmark alone (below): they say how good profiles are, not how good the planner is. sailor_simulator:
the same runs by Sailor's arithmetic; sailor_gh200: the clean GH200 runs, which are those whose memory was measured on
one kind of chip, by Sailor's sizes. The rest are published runs (published.csv), planned and timed by the planner
itself, each with its own cut (published_plans.py). One curve a chip kind is fitted (`argosy.plan.costs.curves`: the
share of peak that large matrix products reach, and what each takes to start) on every other row of each set, and
scores the rows between, both ways, so that no row is scored by a curve that saw it; a table with one row of a chip is
scored by the planner's own curve. time_mape_in_sample: the same rows by the planner's own curves, which were fitted on
all of them. flagperf and what follows: rows of other sources, no curve fitted on them and no constant chosen by them,
scored by the planner's own curves. Every row of the table is scored or listed under `skipped` with the reason.
time_mape, memory_mape: means of absolute relative errors; null where nothing was measured. by: whose rules.

Rules for Sailor's runs. A boundary's activations cross once, on one network port of the node (the ranks of a TP group
hold the same values). A node's TP ranks share its ports when gradients are summed, so a ring moves all of a stage's
gradients at the node's rate; Sailor's arithmetic has each rank's share at one port's rate, which is the same where
every chip has its own port and a fraction of the time where they share one. No figure is fitted, but both rules were
found by looking at these same runs. Likewise the published rows' model: its form and constants (what a program fuses
and hides, how virtual stages are taken where a source is silent) were settled with all rows of the fitted sets in
sight; only the fitted curve is kept from what it scores.
"""

import argparse
import itertools
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import published_plans
from argosy.contracts.errors import ArgosyError
from argosy.plan.costs.curves import Curve
from command import start
from published_plans import curve_for, fit, predict_s
from published_rows import FAMILIES, HELD_OUT, SETS, Run, Skipped, other_halves, read_runs
from sailor_data import (
    BUCKET_BYTES,
    MEASURED_PROCESS_BYTES,
    Setting,
    load_setting,
    reference_folder,
)
from sailor_evaluator import (
    MODELS,
    PlanForm,
    Replica,
    compute_s,
    evaluate,
    microbatch_counts,
    read_plan,
    suspect,
    update_s,
)

PLANNER = "planner"
SAILOR_BY = {
    "sailor_clean": "benchmark's own rules",
    "sailor_gh200": "benchmark's own rules",
    "sailor_simulator": "Sailor's arithmetic",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """One run: predicted and measured. memory in bytes; None where it wasn't measured.

    in_sample_s: predicted by the planner's own curve, where that was fitted on this run.
    """

    group: str
    name: str
    predicted_s: float
    measured_s: float
    predicted_bytes: float | None = None
    measured_bytes: float | None = None
    in_sample_s: float | None = None


def sailor_residuals(folder: Path) -> list[Residual]:
    """Predict the clean measured runs, by our rules and by Sailor's arithmetic."""
    settings: dict[str, Setting] = {}
    found = []
    for path in sorted((folder / "validation").rglob("plan_config_*.json")):
        name = str(path.relative_to(folder / "validation"))
        if suspect(name):
            continue
        folder_name = path.relative_to(folder / "validation").parts[1]
        model = MODELS.get(folder_name, "OPT-350")
        setting = settings.setdefault(model, load_setting(folder, model))
        plan = read_plan(path.read_text(), name)
        groups = ["sailor_clean", "sailor_simulator"] + ["sailor_gh200"] * name.startswith("clariden")
        for group in groups:
            simulated = group == "sailor_simulator"
            found.append(
                Residual(
                    group=group,
                    name=name,
                    predicted_s=evaluate(plan, setting).iteration_s if simulated else measured_rules_s(plan, setting),
                    measured_s=plan.real,
                    predicted_bytes=peak_bytes(plan, setting),
                    measured_bytes=float(plan.max_mem),
                )
            )
    return found


def measured_rules_s(plan: PlanForm, setting: Setting) -> float:
    """Time one step of a single pipeline by the two rules above."""
    pipeline = plan.pipeline_list[0]
    last = pipeline.num_stages - 1
    times = []
    for stage, compute in enumerate(compute_s(pipeline, plan.mbs, setting)):
        layers = pipeline.layers_per_stage[stage]
        ahead = _message_s(plan, stage, stage + 1, layers[-1], setting) if stage < last else 0.0
        back = _message_s(plan, stage, stage - 1, layers[0], setting) if stage else 0.0
        # The ends wait for one neighbour's message as often as they send one.
        times.append(compute + (2 * (ahead or back) if stage in (0, last) else ahead + back))
    count = microbatch_counts(plan, setting)[0]
    rings = [_ring_s(plan, stage, setting) for stage in range(last + 1)]
    return (count - 1) * max(times) + sum(times) + update_s(pipeline, plan.mbs, setting) + max(rings)


def _ends(plan: PlanForm, stage: int) -> list[tuple[str, int, str]]:
    replicas: list[Replica] = plan.pipeline_list[0].tmp_per_stage[stage]
    return [(machines[0][0], min(tp, machines[0][1]), machines[0][2]) for machines, tp in replicas]


def _message_s(plan: PlanForm, stage: int, other: int, layer: int, setting: Setting) -> float:
    size = setting.output_bytes[layer] * plan.mbs
    mine, theirs = _ends(plan, stage), _ends(plan, other)
    pairs = {(a, theirs[index % len(theirs)]) for index, a in enumerate(mine)}
    return max(setting.network.transfer_s(size, (a[0], 1, a[2]), (b[0], 1, b[2])) for a, b in pairs)


def _ring_s(plan: PlanForm, stage: int, setting: Setting) -> float:
    ends = _ends(plan, stage)
    members = len(ends)
    size = sum(setting.weight_bytes[layer] for layer in plan.pipeline_list[0].layers_per_stage[stage])
    slowest = 0.0
    for a, b in set(itertools.pairwise(ends)):
        full, rest = divmod(size, BUCKET_BYTES * a[1])
        whole = full * setting.network.transfer_s(BUCKET_BYTES * a[1] / members, a, b)
        slowest = max(slowest, 2 * (members - 1) * (whole + setting.network.transfer_s(rest / members, a, b)))
    return slowest


def peak_bytes(plan: PlanForm, setting: Setting) -> float:
    """Give the fullest chip's memory: stage s of P keeps P - s micro-batches, or all there are."""
    pipeline, counts = plan.pipeline_list[0], microbatch_counts(plan, setting)
    return max(
        setting.held_bytes(layers, tp, plan.mbs, min(counts[0], pipeline.num_stages - stage)) + MEASURED_PROCESS_BYTES
        for stage, layers in enumerate(pipeline.layers_per_stage)
        for tp in {tp for _, tp in pipeline.tmp_per_stage[stage]}
    )


def published_residuals(
    path: Path, calculon: Path | None = None
) -> tuple[list[Residual], list[Skipped], dict[str, list[list[float]]]]:
    """Predict the published runs; also which rows were left out, and the two curves fitted for each kind of chip.

    calculon: folder with what completes the reference table's validated runs; None for any other table.
    """
    runs, skipped = read_runs(path)
    runs += other_halves(runs, calculon) if calculon else []
    found: list[Residual] = []
    fitted: dict[str, list[list[float]]] = {}
    for family in FAMILIES:
        rows = [run for run in runs if run.family == family and run.group not in HELD_OUT]
        by_set = [[run for run in rows if run.group == group] for group in SETS]
        halves = [run for row in by_set for run in row[::2]], [run for row in by_set for run in row[1::2]]
        if not rows:
            continue
        curves = [fit(half) for half in halves] if halves[1] else [curve_for(rows[0])] * 2
        fitted[family] = [[curve.products, curve.start_ms] for curve in curves]
        for scored, curve in zip(halves, reversed(curves), strict=True):
            found += [residual(run, curve) for run in scored]
    held_out = [run for run in runs if run.group in HELD_OUT]
    found += [residual(run, None) for run in held_out]
    return found, skipped, fitted


def residual(run: Run, curve: Curve | None) -> Residual:
    """Predict a published run by a curve and by the planner's own; None: by the planner's own alone."""
    own_s = predict_s(run)
    return Residual(
        group=run.group,
        name=f"{run.name} {run.recompute} {run.chips} {run.chip}",
        predicted_s=predict_s(run, curve) if curve else own_s,
        measured_s=run.measured_s,
        predicted_bytes=published_plans.peak_bytes(run) if run.measured_bytes else None,
        measured_bytes=run.measured_bytes,
        in_sample_s=own_s if curve else None,
    )


def summary(residuals: Sequence[Residual]) -> dict[str, dict[str, float | int | str | None]]:
    """Give every set's count and mean errors, and whose rules predicted it."""
    names = [*SAILOR_BY, *SETS, *HELD_OUT]
    return {name: _errors([r for r in residuals if r.group == name]) | {"by": rules_of(name)} for name in names}


def rules_of(name: str) -> str:
    """Say whose rules predict a set."""
    return SAILOR_BY.get(name, PLANNER)


def _errors(rows: Sequence[Residual]) -> dict[str, float | int | str | None]:
    sized = [row for row in rows if row.predicted_bytes is not None and row.measured_bytes]
    plain = [row for row in rows if row.in_sample_s is not None]
    return {
        "n": len(rows),
        "time_mape": _mean(rows, lambda row: row.predicted_s / row.measured_s),
        "time_mape_in_sample": _mean(plain, lambda row: (row.in_sample_s or math.nan) / row.measured_s),
        "memory_mape": _mean(sized, lambda row: (row.predicted_bytes or 0) / (row.measured_bytes or math.nan)),
    }


def _mean(rows: Sequence[Residual], ratio: Callable[[Residual], float]) -> float | None:
    return sum(abs(ratio(row) - 1) for row in rows) / len(rows) if rows else None


def main(arguments: Sequence[str]) -> int:
    """Print the table, and with --json also every residual."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--data", default="", help="folder with Sailor's data")
    parser.add_argument("--published", default="", help="table of published runs; default: the reference data's")
    options = parser.parse_args(arguments)
    try:
        folder = reference_folder(options.data)
        table = Path(options.published) if options.published else folder.parent / "published.csv"
        reference = table.resolve() == (folder.parent / "published.csv").resolve()
        published, skipped, curves = published_residuals(table, folder.parent / "calculon" if reference else None)
        residuals = sailor_residuals(folder) + published
    except ArgosyError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    result: dict[str, Any] = {"sets": summary(residuals), "fitted": curves}
    if options.json:
        told = {"skipped": [asdict(row) for row in skipped], "residuals": [asdict(row) for row in residuals]}
        print(json.dumps(result | told))
        return 0
    print_tables(result["sets"], skipped)
    return 0


def print_tables(sets: dict[str, dict[str, Any]], skipped: Sequence[Skipped]) -> None:
    """Print every set's errors, then how many rows were left out for which reason."""
    for name, row in sets.items():
        shown = [f"{row[key]:.1%}" if row[key] is not None else "-" for key in ("time_mape", "memory_mape")]
        print(f"{name:20} {row['n']:3} runs, time {shown[0]:>6}, memory {shown[1]:>6}, by {row['by']}")
    print(f"left out: {len(skipped)} rows")
    for (group, reason), count in Counter((row.group, row.reason) for row in skipped).most_common():
        print(f"{group:20} {count:3} {reason}")


if __name__ == "__main__":
    start(lambda: main(sys.argv[1:]))
