"""The core's state as the API shows it: jobs, nodes, queues, counts.

Every function reads the state and gives plain models that keep no part of it. Must not change anything, nor know how
it is sent.
"""

from collections import Counter
from collections.abc import Iterable
from functools import partial

from argosy.contracts.option import Option, Size
from argosy.contracts.policy import NORMALISED
from argosy.control import explain
from argosy.control.nodes import FOREVER
from argosy.control.quota import WORTH_UNIT, QueueRow
from argosy.control.state import AttemptState, JobState, State
from argosy.server.models import BlockerView, Explanation, JobView, NeedView, NodeView, OfferView, QueueView

NODES_SHOWN = 1_000
"""How many names of nodes a job shows; one that holds more says how many chips."""


def job_view(state: State, job: JobState, *, why: bool = False) -> JobView:
    """Show a job. why: also the code of why it waits, which takes longer."""
    attempt = state.attempts.get(job.attempt)
    waits = explain.explain(state, job.id) if why else None
    claim = job.claim
    return JobView(
        id=job.id,
        name=claim.name,
        queue=claim.queue,
        owner=claim.owner,
        kind=claim.kind,
        state=job.state,
        reason=job.reason,
        text=job.text,
        why=waits.code if waits else "",
        priority=claim.priority,
        submitted_us=job.submitted_us,
        since_us=attempt.began_us if attempt else job.since_us,
        ended_us=job.ended_us or None,
        attempt=job.attempt,
        generation=attempt.generation if attempt else 0,
        nodes=list(state.nodes.names(attempt.all_nodes()[:NODES_SHOWN])) if attempt else [],
        chips=chips_of(state, attempt) if attempt else {},
        borrows=bool(attempt) and borrows(state, job),
        evictions=job.evictions,
        retries=dict(job.spent),
    )


def chips_of(state: State, attempt: AttemptState) -> dict[str, int]:
    """Count an attempt's chips by kind."""
    found: Counter[str] = Counter()
    for pool, chips in attempt.rung.chips:
        found[state.nodes.pools[pool].kind] += chips
    return dict(found)


def borrows(state: State, job: JobState) -> bool:
    """Say whether a job's queue holds more than it owns of a kind that the job holds and that some queue owns."""
    queue = state.queue_of(job)
    row = state.quota.rows[queue]
    return any(_over(row, kind) for kind, _ in state.attempts[job.attempt].amounts if _is_owned(state, kind))


def _is_owned(state: State, kind: int) -> bool:
    return any(row.own[kind] for row in state.quota.rows)


def find_job(state: State, name: str, owner: str = "") -> JobState | None:
    """Find a job by its id, else the newest of that name: of the owner's, if there is one, else of anybody's."""
    if name in state.jobs:
        return state.jobs[name]
    named = [job for job in state.jobs.values() if job.claim.name == name]
    return max(named, key=lambda job: (bool(owner) and job.claim.owner == owner, job.number), default=None)


def job_list(
    state: State, *, queue: str = "", owner: str = "", states: Iterable[str] = (), before: int = 0, limit: int = 100
) -> tuple[list[JobView], int | None]:
    """List jobs, newest first; gives them and where to go on."""
    wanted = frozenset(states)
    found: list[JobState] = []
    for job in reversed(state.jobs.values()):
        if before and job.number >= before:
            continue
        if (queue and job.claim.queue != queue) or (owner and job.claim.owner != owner):
            continue
        if wanted and job.state not in wanted:
            continue
        found.append(job)
        if len(found) > limit:
            break
    shown = [job_view(state, job, why=job.state in ("waiting", "reserved")) for job in found[:limit]]
    return shown, found[limit - 1].number if len(found) > limit else None


def explanation(state: State, job: JobState) -> Explanation:
    """Say why a job waits, or how it is."""
    found = explain.explain(state, job.id)
    about = partial(Explanation, job=job.id, name=job.claim.name, queue=job.claim.queue, state=job.state)
    if found is None:
        return about(code=job.reason, text=job.text, at_us=state.now_us, since_us=job.since_us)
    return about(
        code=found.code,
        text=found.text,
        at_us=found.at_us,
        since_us=found.since_us,
        needs=[
            NeedView(
                option=need.option,
                pool=need.pool,
                nodes=need.nodes,
                near=need.near,
                free=need.free,
                largest=need.largest,
                domain=need.domain,
                owned=need.owned,
            )
            for need in found.needs
        ],
        blockers=[BlockerView(job=each.job, name=each.name, ends_us=each.ends_us) for each in found.blockers],
        ahead=found.ahead,
        start_p50_us=found.eta_p50_us,
        start_p90_us=found.eta_p90_us,
        start_text=found.start_unknown,
        change=found.change,
    )


def node_view(state: State, number: int) -> NodeView:
    """Show a node."""
    nodes = state.nodes
    pool = nodes.pools[nodes.pool[number]]
    holder = nodes.holder[number]
    attempt = state.attempts.get(holder)
    empty_by_us = nodes.empty_by_us[number]
    return NodeView(
        name=nodes.name[number],
        chip_class=pool.name,
        site=pool.site,
        chips=pool.chips_per_node,
        rack=nodes.rack[number],
        spine=nodes.spine[number],
        observed="retired" if nodes.retired[number] else nodes.observed[number],
        intent=nodes.intent[number],
        trust=nodes.trust[number],
        spare=nodes.spare[number],
        attempt=holder,
        job=attempt.job if attempt else "",
        empty_by_us=None if empty_by_us >= FOREVER else empty_by_us,
    )


def node_views(state: State, start: int, limit: int) -> list[NodeView]:
    """Show nodes by their numbers."""
    return [node_view(state, number) for number in range(start, min(start + limit, len(state.nodes)))]


def queue_views(state: State) -> list[QueueView]:
    """Show all queues in the policy's order."""
    waiting: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for job in state.jobs.values():
        if job.state in ("waiting", "reserved"):
            waiting[job.claim.queue] += 1
        elif job.state != "ended":
            running[job.claim.queue] += 1
    shown = []
    for number, queue in enumerate(state.policy.queues):
        row = state.quota.rows[number]
        kinds = list(enumerate(state.quota.kinds))
        over = {k: row.held[i] - row.own[i] for i, k in kinds if _over(row, i) and _is_owned(state, i)}
        shown.append(
            QueueView(
                name=queue.name,
                parent=queue.parent,
                state=queue.state,
                weight=queue.weight,
                order=queue.order,
                guarantee={kind: _chips(kind, row.own[index]) for index, kind in kinds if row.own[index]},
                held={kind: row.held[index] for index, kind in kinds if row.held[index] and kind != NORMALISED},
                borrowed={kind: _chips(kind, amount) for kind, amount in over.items()},
                waiting=waiting[queue.name],
                running=running[queue.name],
            )
        )
    return shown


def _chips(kind: str, amount: int) -> int:
    """Give whole chips; normalised ones are counted in thousandths, and any part counts."""
    return -(-amount // WORTH_UNIT) if kind == NORMALISED else amount


def _over(row: QueueRow, kind: int) -> bool:
    """Say whether more is held than owned; what is owned in normalised chips alone is over by their sum alone."""
    return row.held[kind] > row.entitled[kind]


def offer_view(option: Option, size: Size, chips: dict[str, int]) -> OfferView:
    """Show one size of an option. chips: of a node, by class."""
    nodes: dict[str, int] = {}
    for part in size.parts:
        nodes[part.chip_class] = nodes.get(part.chip_class, 0) + part.nodes
    return OfferView(
        option=option.name,
        nodes=nodes,
        chips=sum(count * chips.get(name, 0) for name, count in nodes.items()),
        tokens_per_second=size.tokens_per_second or None,
        efficiency=size.efficiency,
        cost_per_trillion_tokens=size.cost_per_trillion_tokens,
        emulated=size.emulated,
    )


def counts(state: State) -> tuple[dict[str, int], dict[str, int], int, int]:
    """Count jobs and nodes by state, chips, and chips that are held."""
    nodes = state.nodes
    jobs = Counter(job.state for job in state.jobs.values())
    seen: Counter[str] = Counter()
    chips = held = 0
    for number in range(len(nodes)):
        if nodes.retired[number]:
            continue
        seen[nodes.observed[number]] += 1
        size = nodes.pools[nodes.pool[number]].chips_per_node
        chips += size
        held += size if nodes.holder[number] else 0
    return dict(jobs), dict(seen), chips, held
