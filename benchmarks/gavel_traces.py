"""Reading Gavel's traces and throughputs, and making more traces of the kind.

A trace has one job a line, separated by tabs: job type, command, directory, argument, needs data, total steps, scale
factor (chips), priority, SLO, arrival in seconds. Throughputs are steps a second by chip, job type and scale factor.
Format and figures: stanford-futuredata/gavel (MIT), which the product takes nothing else from.
"""

import ast
import gzip
import json
import math
import os
import random
from dataclasses import dataclass
from pathlib import Path

from argosy.contracts.errors import BadInputError
from argosy.fleet.text_file import read_text_file

COLUMNS = 10
MOST = {"steps": 10**12, "chips": 10**6, "priority": 10**6, "arrival": 10**9}
"""What the core can count with, and a little less. Seconds and steps; a longer trace is a mistake."""
FOLDER = Path(os.environ.get("ARGOSY_REFERENCE_DATA", Path(__file__).parents[2] / "shared" / "data"))
GAVEL = FOLDER / "scheduler" / "gavel"

Rates = dict[str, dict[tuple[str, int], float]]
"""Steps a second by chip, then job type and scale factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One job of a trace. chips: its scale factor."""

    job_type: str
    steps: float
    chips: int
    priority: float
    arrival_s: float


def read_rates(path: Path = GAVEL / "simulation_throughputs.json.gz") -> Rates:
    """Read how fast each job type runs alone; 0 where it does not run. Raises BadInputError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        hint = "name a file in Gavel's format, or set ARGOSY_REFERENCE_DATA to the folder of reference data"
        raise BadInputError(f"{path}: can't read these throughputs: {error.strerror}; {hint}") from error
    try:
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        return {
            chip: {ast.literal_eval(key): float(row["null"]) for key, row in rows.items()}
            for chip, rows in json.loads(text).items()
        }
    except (ValueError, SyntaxError, TypeError, KeyError, AttributeError, EOFError) as error:
        raise BadInputError(f"{path.name}: no throughputs in Gavel's format: {error}") from error


def read_trace(path: Path) -> list[Row]:
    """Read a trace, in order of arrival."""
    rows = []
    text = read_text_file(path, "trace", "; name a file in Gavel's format")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != COLUMNS:
            raise BadInputError(f"{path.name}:{number}: {len(cells)} columns separated by tabs; Gavel's traces have 10")
        try:
            numbers = [float(cells[place]) for place in (5, 6, 7, 9)]
        except ValueError as error:
            raise BadInputError(f"{path.name}:{number}: {error}; columns 6, 7, 8 and 10 are numbers") from error
        steps, chips, priority, arrival_s = numbers
        finite = all(map(math.isfinite, numbers))
        if not finite or steps < 1 or chips < 1 or chips != int(chips) or arrival_s < 0:
            raise BadInputError(f"{path.name}:{number}: steps >= 1, whole chips >= 1 and an arrival >= 0 are needed")
        for (what, most), value in zip(MOST.items(), numbers, strict=True):
            if abs(value) > most:
                raise BadInputError(f"{path.name}:{number}: {what} must be {most:,} at most, got {value:g}")
        rows.append(Row(job_type=cells[0], steps=steps, chips=int(chips), priority=priority, arrival_s=arrival_s))
    if not rows:
        raise BadInputError(f"{path.name} has no job")
    return sorted(rows, key=lambda row: row.arrival_s)


def make_trace(
    seed: int, jobs: int, rates: Rates, gap_s: float = 0.0, hours: tuple[float, float] = (0.1, 5.0)
) -> list[Row]:
    """Make a trace: types at random, 70 % on one chip, 10 % on two, 20 % on four, Poisson arrivals gap_s apart.

    hours: shortest and longest length alone on the first chip of the rates that has the type.
    """
    rng = random.Random(seed)
    base = rates["v100"]
    types = sorted({name for name, _ in base})
    rows, now_s = [], 0.0
    for _ in range(jobs):
        job_type, draw = rng.choice(types), rng.random()
        chips = 1 if draw < 0.7 else 2 if draw < 0.8 else 4
        chips = chips if base.get((job_type, chips)) else 1
        steps = math.ceil(base[job_type, chips] * rng.uniform(*hours) * 3600)
        rows.append(Row(job_type=job_type, steps=steps, chips=chips, priority=1.0, arrival_s=now_s))
        now_s += -math.log(1.0 - rng.random()) * gap_s
    return rows


def write_trace(rows: list[Row]) -> str:
    """Write a trace in Gavel's format."""
    return "".join(
        f"{row.job_type}\t-\t-\t-\t1\t{row.steps:.0f}\t{row.chips}\t{row.priority:.0f}\t-1.000000\t{row.arrival_s:.0f}\n"
        for row in rows
    )
