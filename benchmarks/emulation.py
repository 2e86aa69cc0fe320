"""How true the emulated clock is: for five plans of 8 to 16 ranks, prediction, virtual clock and wall clock.

    python benchmarks/emulation.py [--json]

The prediction is the event-level timeline's. Virtual time should be within 0.5 % of it (it is exact when the ranks do
what the timeline says they do), wall time within 5 %: real arithmetic, real messages and 16 processes on two cores.
The latter needs a machine that nobody else uses; on a busy one the output says so, and only virtual time counts.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from command import start
from emulated_runs import Chips, inputs, measure, wall_summary, wall_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fleet and job; the planner chooses the plan."""

    name: str
    parts: tuple[Chips, ...]
    batch: int
    layers: int = 16
    gbps: float = 1.0


def fast(count: int, memory_gb: float = 8.0, site: str = "north") -> Chips:
    """Give some of the faster chips."""
    return Chips(chip="h800-sxm", count=count, tflops=0.0024, memory_gb=memory_gb, site=site)


def slow(count: int, memory_gb: float = 8.0, site: str = "south") -> Chips:
    """Give some of the slower chips."""
    return Chips(chip="ascend-910b3", count=count, tflops=0.0012, memory_gb=memory_gb, site=site)


CASES = (
    Case(name="8 replicas of one rank", parts=(fast(8),), batch=32),
    Case(name="pipelines of one kind", parts=(fast(8, 0.010),), batch=32),
    Case(name="pipelines of two kinds in two sites", parts=(fast(6, 0.012), slow(4, 0.012)), batch=40),
    Case(name="12 replicas in two sites, link busy", parts=(fast(6), slow(6)), batch=36, gbps=0.3),
    # Slower chips, so that the arithmetic of 16 processes takes a third of two cores and not half of them.
    Case(
        name="16 ranks, pipelines in two sites",
        parts=(replace(fast(8, 0.012), tflops=0.0016), replace(slow(8, 0.012), tflops=0.0008)),
        batch=64,
        gbps=0.5,
    ),
)


def main(arguments: Sequence[str]) -> int:
    """Run all cases and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    options = parser.parse_args(arguments)
    rows, runs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if options.case not in case.name:
                continue
            given = inputs(Path(folder), case.parts, layers=case.layers, batch=case.batch, gbps=case.gbps)
            run = measure(given)
            runs.append(run)
            rows.append(
                {"name": case.name, **asdict(run), "virtual_error": run.virtual_error, "wall_error": run.wall_error}
            )
            print(
                f"{case.name}: {run.ranks} ranks, ~{run.predicted_ms:.0f} ms a step predicted, "
                f"virtual {run.virtual_error:+.2e}, {wall_text(run)}",
                file=sys.stderr,
                flush=True,
            )
    result = {
        "virtual_error_max": max((row["virtual_error"] for row in rows), default=None),
        **wall_summary(runs),
        "ranks": [row["ranks"] for row in rows],
        "emulated": True,
        "cases": rows,
    }
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    start(lambda: main(sys.argv[1:]))
