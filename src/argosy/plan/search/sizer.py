"""Plans of one job for parts of a fleet, each held against the bound on the chips that it uses.

Searches are kept for as long as what they worked out holds. Must not know which parts are wanted.
"""

from collections.abc import Sequence
from functools import partial
from typing import Unpack

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.search.bound import held_alone
from argosy.plan.search.fit import whole_parts
from argosy.plan.search.question import Asked, make_search
from argosy.plan.search.quick import quick_plan


class Sizer:
    """Plans a job on fewer and fewer nodes of its classes. asked: the terms, as for `plan_job`."""

    def __init__(
        self,
        job: Job,
        shape: ModelShape,
        classes: Sequence[ChipClass],
        long_links: Sequence[LongLink],
        fleet: str,
        **asked: Unpack[Asked],
    ) -> None:
        self.job = job
        self.parts = whole_parts(classes)
        self._ask = partial(make_search, job, shape, long_links, fleet, **asked)
        self._inside = self._ask()

    def plan(self, members: Sequence[ChipClass], most: Sequence[ChipClass]) -> Plan | None:
        """Find the fastest plan that uses all of some classes; None where none fits. most: the same, with all nodes."""
        # What crosses sites hangs on how many nodes there are, and a single node is a network by itself.
        apart = len({c.site for c in members}) > 1 or any(c.nodes == 1 for c in members)
        whole = {c.name: c for c in (members if apart else most)}
        return quick_plan(self._ask() if apart else self._inside, self.job, members, whole)

    def held(self, plan: Plan) -> Plan:
        """Give a plan the gap to the bound on its own chips."""
        return held_alone(self._inside, plan, self.parts)
