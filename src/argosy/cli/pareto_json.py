"""A Pareto front as `argosy plan --pareto --json` writes it.

Lays out what the room `plan` says; computes nothing.
"""

from dataclasses import asdict

from argosy.contracts.codec import encode
from argosy.plan.folding import fold
from argosy.plan.telling.pareto import Front, best_at, figures_of


def front_json(front: Front) -> str:
    """Write a front as JSON: figures, prediction and plan of each, like replicas once; and the beaten ones' figures."""
    bests = best_at(front.plans)
    rows = [
        {
            **asdict(figures_of(plan)),
            "best": bests.get(index, ""),
            "prediction": plan.prediction,
            "folded": fold(plan),
        }
        for index, plan in enumerate(front.plans)
    ]
    return encode({"front": rows, "beaten": front.beaten}).decode()
