"""How fast all replicas of a layout are: its template, their rate, and what a step takes besides.

Must not know other layouts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.contracts.fleet import LongLink
from argosy.plan.costs.setting import Setting
from argosy.plan.pipelines.exposed import exposed_ms
from argosy.plan.pipelines.layouts import Layout
from argosy.plan.pipelines.places import may_hold, update_lag_ms
from argosy.plan.pipelines.templates import Template, make_template


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced:
    """A template and how many replicas of it a block's chips make.

    rate: sequences a ms of all replicas; lag_ms: what a step takes besides, gradients that nothing hides and the
    optimizer's step with it;
    least_ms: of a step with the fewest micro-batches that its schedule runs.
    """

    template: Template
    count: int
    rate: float
    lag_ms: float
    least_ms: float

    def done(self, time_ms: float) -> float:
        """Give the sequences done in a time, parts of micro-batches counted."""
        return self.rate * (time_ms - self.lag_ms) if time_ms >= self.least_ms else 0.0

    def whole_ms(self, batch: int) -> float:
        """Give the time of a batch on all these replicas and no others, in whole micro-batches."""
        layout = self.template.layout
        rounds = -(-batch // (self.count * layout.sequences))
        if layout.schedule == "interleaved":
            rounds += -rounds % layout.depth
        return max(self.least_ms, self.lag_ms + rounds * self.template.pace_ms)


def choose(setting: Setting, layout: Layout, links: Sequence[LongLink]) -> Paced | None:
    """Make a layout's template and say how fast all its replicas are; None where it does not fit."""
    if layout.stages > setting.shape.num_layers or not may_hold(setting, layout):
        return None
    template = make_template(setting, layout, links)
    if template is None:
        return None
    rate = layout.count * layout.sequences / template.pace_ms
    lag_ms = template.fill_ms - template.pace_ms + exposed_ms(setting, template, links)
    lag_ms += update_lag_ms(setting, layout, template.cut, template.forward_ms)
    few = 1 if layout.schedule == "gpipe" else layout.depth
    least_ms = lag_ms + few * template.pace_ms
    return Paced(template=template, count=layout.count, rate=rate, lag_ms=lag_ms, least_ms=least_ms)
