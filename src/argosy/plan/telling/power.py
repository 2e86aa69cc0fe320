"""What the chips of a plan draw at their rated power, site by site, beside what the fleet says that a site may draw.

Plans are not held to a site's cap, only to the job's; so it must be said where one is passed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.contracts.fleet import ChipClass, Site
from argosy.contracts.plan import Plan
from argosy.plan.telling.explain import plan_chips

W_PER_MW = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdrawn:
    """A site whose chips in use draw more than its cap, MW."""

    site: str
    draw_mw: float
    cap_mw: float


def overdrawn(plan: Plan, classes: Sequence[ChipClass], sites: Sequence[Site]) -> tuple[Overdrawn, ...]:
    """List the sites where a plan draws more than the fleet's `power_mw`; chips of unknown power count nothing."""
    used = plan_chips(plan)
    draws: dict[str, float] = {}
    for one in classes:
        draw_mw = used.get(one.name, 0) * (one.chip.tdp_w or 0.0) / W_PER_MW
        draws[one.site] = draws.get(one.site, 0.0) + draw_mw
    return tuple(
        Overdrawn(site=site.name, draw_mw=draws.get(site.name, 0.0), cap_mw=site.power_mw)
        for site in sites
        if site.power_mw is not None and draws.get(site.name, 0.0) > site.power_mw
    )
