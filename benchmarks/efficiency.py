"""How much two kinds of chips, and two sites, lose against their parts: emulated chips, real arithmetic and messages.

    python benchmarks/efficiency.py [--json] [--case NAME]

Mixed: both kinds together against the sum of each kind alone, each with the planner's best plan and a batch
proportional to its speed. Cross-site: chips in two sites 50 km apart against the same chips in one site, on a job whose
exchange would take 15 % of the step or more if nothing of it overlapped. Throughput is by the virtual clock; the
largest distance between the wall clock and the prediction over all runs is `step_time_error_max`.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from command import start
from emulated_runs import Chips, Run, inputs, measure

Row = dict[str, Any]
"""One case or the summary, as it is printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """Two parts, and the batch that they take together. batches: of each part alone, proportional to its speed."""

    name: str
    parts: tuple[Chips, Chips]
    batches: tuple[int, int]
    layers: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Across:
    """Chips of the two sites, first north's, then south's; the baseline has them all in one."""

    name: str
    halves: tuple[Chips, Chips]
    batch: int
    gbps: float
    layers: int = 16


FAST = Chips(chip="h800-sxm", count=4, tflops=0.0024)
SLOW = Chips(chip="ascend-910b3", count=4, tflops=0.0016)
ODD = Chips(chip="ascend-910b3", count=2, tflops=0.0013)
# Memory that the whole model does not fit into, so that each kind needs a pipeline.
SMALL_GB = 0.014

MIXED = (
    Mixed(name="whole models, 4 + 4 chips, speeds 3 : 2", parts=(FAST, SLOW), batches=(24, 16)),
    Mixed(
        name="pipelines, 3 + 2 chips, speeds 24 : 13",
        parts=(replace(FAST, count=3, memory_gb=SMALL_GB), replace(ODD, memory_gb=SMALL_GB)),
        batches=(36, 13),
    ),
)
ACROSS = (
    Across(name="one kind, 4 + 4 chips", halves=(FAST, FAST), batch=32, gbps=0.35),
    Across(name="two kinds, 4 + 4 chips", halves=(FAST, SLOW), batch=40, gbps=0.235),
)


def main(arguments: Sequence[str]) -> int:
    """Run all cases and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in (*MIXED, *ACROSS):
            if options.case in case.name:
                say(f"{case.name} ...")
                row, done = run_mixed(Path(folder), case) if isinstance(case, Mixed) else run_across(Path(folder), case)
                rows.append(row)
                runs += done
                say(f"   {row['kind']} efficiency ~{row['efficiency']:.4f}")
    result = summarize(rows, runs)
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))
    return 0


def run_mixed(folder: Path, case: Mixed) -> tuple[Row, list[Run]]:
    """Measure both parts alone and together."""
    alone = [
        measure(inputs(folder, [part], layers=case.layers, batch=batch))
        for part, batch in zip(case.parts, case.batches, strict=True)
    ]
    both = measure(inputs(folder, case.parts, layers=case.layers, batch=sum(case.batches)))
    efficiency = both.tokens_per_second / sum(run.tokens_per_second for run in alone)
    runs = [*alone, both]
    return {"name": case.name, "kind": "mixed", "efficiency": efficiency, "runs": [asdict(run) for run in runs]}, runs


def run_across(folder: Path, case: Across) -> tuple[Row, list[Run]]:
    """Measure the chips in one site, then in two."""
    one = measure(inputs(folder, together(case.halves), layers=case.layers, batch=case.batch))
    halves = [replace(half, site=site) for half, site in zip(case.halves, ("north", "south"), strict=True)]
    two = measure(inputs(folder, halves, layers=case.layers, batch=case.batch, gbps=case.gbps))
    row = {
        "name": case.name,
        "kind": "cross_site",
        "efficiency": two.tokens_per_second / one.tokens_per_second,
        "exchange_share": two.exchange_share,
        "exchange_hidden": two.exchange_hidden,
        "km": 50,
        "gbps": case.gbps,
        "runs": [asdict(one), asdict(two)],
    }
    return row, [one, two]


def together(halves: tuple[Chips, Chips]) -> list[Chips]:
    """Put both halves in one site; like chips become one group."""
    first, second = halves
    if replace(second, count=first.count) == first:
        return [replace(first, count=first.count + second.count)]
    return [first, second]


def summarize(rows: list[Row], runs: list[Run]) -> Row:
    """Give the worst case of each kind."""

    def worst(kind: str, key: str = "efficiency") -> float | None:
        return min((row[key] for row in rows if row["kind"] == kind), default=None)

    return {
        "mixed_efficiency": worst("mixed"),
        "cross_site_efficiency": worst("cross_site"),
        "exchange_share": worst("cross_site", "exchange_share"),
        "step_time_error_max": max((run.wall_error for run in runs), default=None),
        "virtual_time_error_max": max((run.virtual_error for run in runs), default=None),
        "emulated": True,
        "cases": rows,
    }


def say(text: str) -> None:
    """Show progress beside the result."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    start(lambda: main(sys.argv[1:]))
