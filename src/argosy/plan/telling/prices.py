"""Which prices the cost of a plan is made of, in a line.

Must not compute costs.
"""

from collections.abc import Sequence

from argosy.contracts.fleet import ChipClass
from argosy.contracts.plan import Plan
from argosy.plan.telling.explain import plan_chips, predicted


def price_line(plans: Sequence[Plan], classes: Sequence[ChipClass]) -> str:
    """Name the prices of the chips that some plans use, and whose they are; empty where no cost is told."""
    if not any(predicted(plan).cost_per_trillion_tokens is not None and not plan.emulated for plan in plans):
        return ""
    used = {name for plan in plans for name in plan_chips(plan)}
    chips = {c.chip.name: c.chip for c in classes if c.name in used}
    prices = [f"{name} {chip.price_per_hour:.3g}" for name, chip in sorted(chips.items()) if chip.price_per_hour]
    return (
        f"prices: USD a chip-hour, by the catalogue: {', '.join(prices)}; `argosy chips NAME` names the source, "
        "--catalogue takes your own."
    )
