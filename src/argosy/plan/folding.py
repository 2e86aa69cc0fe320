"""A plan with its like replicas kept once: what is stored of thousands of replicas, and the plan made of it again.

Like replicas are those of equal stages and micro-batches that stand side by side and exchange with the same others.
Must not know what a plan is for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.contracts.plan import Exchange, Plan

Members = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """An unbound plan that shows one replica of each run of like ones. counts: how many there are of each."""

    plan: Plan
    counts: tuple[int, ...]


def fold(plan: Plan) -> Folded:
    """Keep one replica of each run of like ones; `unfold` gives the same plan back."""
    begins = _begins(plan)
    ends = [*begins[1:], len(plan.replicas)]
    number = {begun: index for index, begun in enumerate(begins)}
    shown = {members: tuple((number[r], s) for r, s in members if r in number) for members in groups_of(plan.exchanges)}
    return Folded(
        plan=replace(
            plan,
            replicas=tuple(plan.replicas[begun] for begun in begins),
            exchanges=tuple(regrouped(exchange, shown) for exchange in plan.exchanges),
        ),
        counts=tuple(end - begun for begun, end in zip(begins, ends, strict=True)),
    )


def unfold(folded: Folded) -> Plan:
    """Make the plan of all replicas."""
    if set(folded.counts) == {1}:
        return folded.plan
    owners = [index for index, count in enumerate(folded.counts) for _ in range(count)]
    members = {shown: spread(shown, owners) for shown in groups_of(folded.plan.exchanges)}
    return replace(
        folded.plan,
        replicas=tuple(folded.plan.replicas[owner] for owner in owners),
        exchanges=tuple(regrouped(exchange, members) for exchange in folded.plan.exchanges),
    )


def groups_of(exchanges: Sequence[Exchange]) -> list[Members]:
    """List the members of exchanges and of their gathers, each group once."""
    groups = [group for e in exchanges for group in (e.members, *(gather.members for gather in e.gathers))]
    return list(dict.fromkeys(groups))


def regrouped(exchange: Exchange, members: Mapping[Members, Members]) -> Exchange:
    """Give an exchange and its gathers other members."""
    gathers = tuple(replace(gather, members=members[gather.members]) for gather in exchange.gathers)
    return replace(exchange, members=members[exchange.members], gathers=gathers)


def spread(members: Members, owners: Sequence[int]) -> Members:
    """List the members of an exchange among all replicas. owners: the shown replica that each is like."""
    stages: dict[int, list[int]] = {}
    for shown, stage in members:
        stages.setdefault(shown, []).append(stage)
    return tuple((r, stage) for r, owner in enumerate(owners) for stage in stages.get(owner, ()))


def _begins(plan: Plan) -> list[int]:
    """List where each run of like replicas begins; where members don't fit runs, every replica is one of its own."""
    stages_of: list[list[tuple[int, ...]]] = [[] for _ in plan.replicas]
    for members in groups_of(plan.exchanges):
        found: dict[int, list[int]] = {}
        for r, s in members:
            found.setdefault(r, []).append(s)
        for r, stages in enumerate(stages_of):
            stages.append(tuple(found.get(r, ())))
        if list(members) != [(r, s) for r in sorted(found) for s in found[r]]:
            return list(range(len(plan.replicas)))
    begins = [0]
    for index in range(1, len(plan.replicas)):
        before, here = plan.replicas[index - 1], plan.replicas[index]
        if not (before is here or before == here) or stages_of[index - 1] != stages_of[index]:
            begins.append(index)
    return begins
