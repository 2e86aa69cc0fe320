"""Which prices a cost is made of."""

from dataclasses import replace
from typing import Any

from argosy.plan.planner import plan_job
from argosy.plan.telling.prices import price_line


class TestLine:
    def test_names_prices_and_their_source(self, build: Any) -> None:
        """The chips in use have their price a chip-hour, with the currency and where the price is from."""
        used, other = build.chip_class(emulated=False), build.chip_class("south/other", emulated=False)
        plans = plan_job(build.job(), build.shape(), [used], ())
        line = price_line(plans, [used, other])
        assert line.startswith("prices: USD a chip-hour, by the catalogue: fast 1; ")
        assert "`argosy chips NAME` names the source" in line

    def test_nothing_where_no_cost_is_told(self, build: Any) -> None:
        """Emulated chips have no cost, and so no price is told."""
        used = build.chip_class()
        plans = plan_job(build.job(), build.shape(), [used], ())
        assert price_line(plans, [used]) == ""
        assert price_line([replace(plans[0], emulated=True)], [used]) == ""
