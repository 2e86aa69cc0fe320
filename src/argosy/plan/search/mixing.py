"""How many replicas of which templates: an integer program over a pool of them, for the most sequences in a time.

HiGHS by scipy, stopped by nodes and gap, never by a clock, so that answers repeat. Must not know exchanges across
sites.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from argosy.plan.pipelines.templates import Template
from argosy.plan.search.drafts import kind_of

POOL_MAX = 60
NODES_MAX = 200
GAP = 2e-3
TIMES_TRIED = 6
CLOSE = 1e-3


def mixed(
    templates: Sequence[Template], chips: Mapping[str, int], batch: int, time_ms: float
) -> list[tuple[Template, int]] | None:
    """Choose replicas that finish a batch early; time_ms: about when. None if they can't within a few times as much.

    In a given time a replica does whole micro-batches; the program chooses how many of each do most. The time is
    corrected by what lacks or is over, until it hardly changes.
    """
    pool = list(templates)[:POOL_MAX]
    if not pool:
        return None
    uses = np.array([[template.layout.chips.get(name, 0) for template in pool] for name in chips], dtype=float)
    limits = np.array(list(chips.values()), dtype=float)
    best: tuple[float, list[tuple[Template, int]]] | None = None
    for _ in range(TIMES_TRIED):
        counts, done, pace = most_done(pool, uses, limits, time_ms)
        if done >= batch and (best is None or time_ms < best[0]):
            best = time_ms, [(t, n) for t, n in zip(pool, counts, strict=True) if n]
        if pace <= 0:
            time_ms *= 2
            continue
        later_ms = time_ms + (batch - done) / pace
        if best is not None and later_ms >= best[0] * (1 - CLOSE):
            break
        time_ms = later_ms * (1 + CLOSE) if later_ms > 0 else time_ms / 2
    return best[1] if best else None


def most_done(
    pool: Sequence[Template], uses: np.ndarray, limits: np.ndarray, time_ms: float
) -> tuple[list[int], float, float]:
    """Choose counts for the most sequences in a time; answers them, the sequences, and how many more come a ms."""
    kinds = [kind_of(template, 1) for template in pool]
    worth = np.array([float(kind.finished(time_ms) * kind.sequences) for kind in kinds])
    if not worth.any():
        return [0] * len(pool), 0.0, 0.0
    solved = milp(
        -worth,
        constraints=LinearConstraint(uses, ub=limits),
        integrality=np.ones(len(pool)),
        bounds=Bounds(0, np.inf),
        options={"node_limit": NODES_MAX, "mip_rel_gap": GAP},
    )
    if solved.x is None:
        return [0] * len(pool), 0.0, 0.0
    counts = np.where(worth > 0, np.round(solved.x), 0.0)
    paces = np.array([kind.sequences / kind.pace_ms for kind in kinds])
    return [int(count) for count in counts], float(worth @ counts), float(paces @ counts)
