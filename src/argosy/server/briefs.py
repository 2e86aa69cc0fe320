"""What a job was handed in as and what it was offered: kept beside the log, and found again for its orders.

Must not know state, nor who asks.
"""

import json

from argosy.contracts.codec import decode, encode
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.run_file import decode_job
from argosy.plan.offering import Offering
from argosy.server.launching import Brief, Muster
from argosy.server.models import Figures
from argosy.server.store import Statement, Store

OFFERINGS_KEPT = 3


def brief_of(store: Store, job_id: str) -> Brief:
    """Find what is known of a job. Raises InfrastructureError where it was never written down."""
    rows = store.read("SELECT document, model_config, bundle FROM job WHERE id = ?", (job_id,))
    if not rows:
        raise InfrastructureError(f"{job_id}: what was handed in is not in {store.path}")
    document, config, bundle = rows[0]
    found = store.read("SELECT data FROM offering WHERE job = ? ORDER BY number DESC", (job_id,))
    return Brief(
        job=decode_job(document),
        config=config,
        bundle=bundle,
        offerings=tuple(decode(data, Offering) for (data,) in found),
    )


def put_offering(job_id: str, number: int, offering: Offering) -> list[Statement]:
    """Keep what a job was offered, beside the few before. number: of the record it came with."""
    older = "SELECT number FROM offering WHERE job = ? ORDER BY number DESC LIMIT -1 OFFSET ?"
    return [
        ("INSERT INTO offering VALUES (?, ?, ?)", (job_id, number, encode(offering))),
        (f"DELETE FROM offering WHERE job = ? AND number IN ({older})", (job_id, job_id, OFFERINGS_KEPT)),
    ]


def put_orders(found: Muster, figures: Figures) -> Statement:
    """Keep which ranks of a generation are where, what its chips cost, and what was predicted of it."""
    told = figures.model_dump_json(exclude_defaults=True)
    sql = "UPDATE attempt SET ranks = ?, price_per_hour = ?, predicted = ? WHERE id = ? AND generation = ?"
    return (sql, (json.dumps(found.ranks), found.price_per_hour, told, *found.wanted.key))
