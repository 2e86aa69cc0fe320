"""Live many simulated lives of the core, a seed each: script/soak [--seeds 1000] [--from 0] [--processes N] [--json].

Prints every seed that broke a rule, then a summary; leaves with 1 if any did. A seed replays its run:
`script/soak --from SEED --seeds 1`.
"""

import argparse
import json
import multiprocessing
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from argosy.simulate.soak import Life, live

EVENTS_MIN, FAULTS_MIN, KINDS_MIN = 2_000, 20, 5


def judged(seed: int) -> tuple[int, int, dict[str, int], tuple[str, ...]]:
    """Live one seed: its number, events, faults, and what was broken; an exception counts as broken."""
    try:
        life: Life = live(seed)
    except Exception as error:
        return seed, 0, {}, (f"{type(error).__name__}: {error}",)
    broken = list(life.broken)
    if not broken and (life.events < EVENTS_MIN or sum(life.faults.values()) < FAULTS_MIN):
        broken.append(f"only {life.events} events and {sum(life.faults.values())} faults")
    if not broken and len(life.faults) < KINDS_MIN:
        broken.append(f"only faults of kinds {', '.join(life.faults)}")
    return seed, life.events, life.faults, tuple(broken)


def main() -> int:
    """Run all seeds over some processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    events, faults, bad = 0, {}, []
    with multiprocessing.Pool(options.processes) as pool:
        seeds = range(options.first, options.first + options.seeds)
        for seed, count, kinds, broken in pool.imap(judged, seeds, chunksize=4):
            events += count
            for kind, number in kinds.items():
                faults[kind] = faults.get(kind, 0) + number
            if broken:
                bad.append(seed)
                print(f"seed {seed}: {broken[0]}", file=sys.stderr, flush=True)
    result = {"seeds": options.seeds, "events": events, "faults": dict(sorted(faults.items())), "broken_seeds": bad}
    print(json.dumps(result) if options.json else f"{options.seeds} seeds, {events:,} events, {len(bad)} broken {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
