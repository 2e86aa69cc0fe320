"""What is kept beside the log, read and written in the words of other modules: jobs, attempts, tokens.

Asks the store; it must not know state, nor who asks.
"""

import json
from typing import Any

from argosy.contracts.errors import BadInputError
from argosy.contracts.job import AnyJob, Job
from argosy.contracts.policy import SECOND_US
from argosy.contracts.run_file import decode_job
from argosy.server.measures import TRILLION, Roll, read_roll
from argosy.server.models import AttemptView, AuditRow, Figures, HoursReport, HoursRow, TokenView
from argosy.server.store import Statement, Store

HOUR_US = 3_600_000_000
ATTEMPTS_SHOWN = 100


def source_of(store: Store, job_id: str) -> str:
    """Give the text that a job was handed in as."""
    rows = store.read("SELECT source FROM job WHERE id = ?", (job_id,))
    return str(rows[0][0]) if rows else ""


def steps_of(store: Store, job_id: str) -> int | None:
    """Say how many steps a training job has; None for other kinds."""
    job = _job_of(store, job_id)
    return job.train.steps if isinstance(job, Job) else None


def _job_of(store: Store, job_id: str) -> AnyJob | None:
    rows = store.read("SELECT document FROM job WHERE id = ?", (job_id,))
    return decode_job(rows[0][0]) if rows else None


def reasons_of(store: Store) -> dict[str, str]:
    """Give the reason that people told when they last said what they want of a node, by node."""
    newest = "SELECT MAX(number) FROM audit WHERE deed IN ('open', 'cordoned', 'draining') GROUP BY about"
    return dict(store.read(f"SELECT about, text FROM audit WHERE number IN ({newest}) AND text != ''"))


def attempts_of(store: Store, job_id: str, now_us: int) -> list[AttemptView]:
    """List a job's attempts, oldest first, predicted beside measured. now_us: up to when one that runs costs."""
    rows = store.read(
        "SELECT id, generation, nodes, chips, began_us, running_us, ended_us, wait_us, foretold_us, price_per_hour, "
        "predicted, measured, untold.text FROM attempt LEFT JOIN untold ON untold.about = id AND generation = 1 "
        "WHERE job = ? ORDER BY began_us DESC, generation DESC LIMIT ?",
        (job_id, ATTEMPTS_SHOWN),
    )
    job = _job_of(store, job_id) if rows else None
    return [_attempt(row, job, now_us) for row in reversed(rows)]


def _attempt(row: tuple[Any, ...], job: AnyJob | None, now_us: int) -> AttemptView:
    name, generation, nodes, chips, began_us, running_us, ended_us, wait_us, foretold_us, price, *rest = row
    told, measured, why = rest
    roll = read_roll(measured)
    predicted = Figures.model_validate_json(told) if told else Figures()
    per_trillion = predicted.cost_per_trillion_tokens
    if per_trillion is not None and isinstance(job, Job):
        cost = per_trillion * roll.tokens_to_do(job.train) / TRILLION
        predicted = predicted.model_copy(update={"cost": cost})
    if foretold_us is not None:
        predicted = predicted.model_copy(update={"wait_s": foretold_us / SECOND_US})
    held_s = ((ended_us or max(now_us, began_us)) - began_us) / SECOND_US
    figures = roll.figures(price, held_s).model_copy(
        update={
            "wait_s": wait_us / SECOND_US,
            "start_s": None if running_us is None else (running_us - began_us) / SECOND_US,
        }
    )
    return AttemptView(
        id=name,
        generation=generation,
        nodes=json.loads(nodes),
        chips=chips,
        began_us=began_us,
        running_us=running_us,
        ended_us=ended_us,
        predicted=predicted,
        measured=figures,
        wait_text=why or "",
    )


def ranks_of(store: Store, attempt: str, generation: int) -> dict[int, str]:
    """Say on which node each rank of a generation is, or was; empty where it never came so far."""
    rows = store.read("SELECT ranks FROM attempt WHERE id = ? AND generation = ?", (attempt, generation))
    found = json.loads(rows[0][0]) if rows and rows[0][0] else {}
    return {rank: node for node, ranks in found.items() for rank in ranks}


def job_lines(store: Store, job_id: str, limit: int) -> list[bytes]:
    """Give the newest lines of the log that name a job, oldest first, and some that name others which begin alike."""
    rows = store.read(
        "SELECT line FROM log WHERE seq >= COALESCE((SELECT seq FROM job WHERE id = ?), 0) AND instr(line, ?) "
        "ORDER BY seq DESC LIMIT ?",
        (job_id, job_id.encode(), limit),
    )
    return [line for (line,) in reversed(rows)]


def put_measured(attempt: str, generation: int, text: str) -> Statement:
    """Keep what was measured of a generation so far."""
    return ("UPDATE attempt SET measured = ? WHERE id = ? AND generation = ?", (text, attempt, generation))


def measured_of(store: Store, attempt: str, generation: int) -> Roll:
    """Give what was measured of a generation so far."""
    rows = store.read("SELECT measured FROM attempt WHERE id = ? AND generation = ?", (attempt, generation))
    return read_roll(rows[0][0] if rows else None)


def hours(store: Store, from_us: int, to_us: int, now_us: int) -> HoursReport:
    """Count chip-hours by queue and user between two times; attempts that go on count up to now.

    Raises BadInputError for an end before the beginning.
    """
    if to_us < from_us:
        raise BadInputError(f"from_us: {from_us} is after {to_us}, where the report ends")
    last_us = min(to_us, now_us)
    span = "MAX(0, MIN(COALESCE(ended_us, ?), ?) - MAX(began_us, ?))"
    rows = store.read(
        f"SELECT queue, owner, SUM(CAST(chips AS REAL) * {span}), COUNT(DISTINCT job) FROM attempt "
        "WHERE began_us < ? AND COALESCE(ended_us, ?) > ? GROUP BY queue, owner ORDER BY 3 DESC, queue, owner",
        (last_us, last_us, from_us, last_us, last_us, from_us),
    )
    found = [HoursRow(queue=q, owner=o, chip_hours=chip_us / HOUR_US, jobs=jobs) for q, o, chip_us, jobs in rows]
    return HoursReport(from_us=from_us, to_us=to_us, rows=found, chip_hours=sum(row.chip_hours for row in found))


def token_views(store: Store) -> list[TokenView]:
    """List tokens, without their secrets."""
    rows = store.read("SELECT id, owner, role, at_us, revoked_us FROM token ORDER BY at_us, id")
    return [TokenView(id=i, owner=o, role=r, created_us=at_us, revoked_us=gone_us) for i, o, r, at_us, gone_us in rows]


def audit_rows(store: Store, before: int, limit: int) -> list[AuditRow]:
    """List who did what, newest first."""
    rows = store.read(
        "SELECT number, at_us, who, deed, about, text FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?",
        (before or 2**62, limit),
    )
    return [AuditRow(number=n, at_us=a, who=w, deed=d, about=o, text=t) for n, a, w, d, o, t in rows]
