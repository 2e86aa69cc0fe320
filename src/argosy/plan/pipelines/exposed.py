"""What of a gradient exchange among like replicas no backward hides, guessed before any timeline.

Must not know other replicas, nor what joins them.
"""

from collections.abc import Sequence

import numpy as np

from argosy.contracts.fleet import LongLink
from argosy.contracts.plan import GRADIENT_BYTES
from argosy.plan.costs.rings import Held, holder_of, parts_of_ring, ring_ms
from argosy.plan.costs.setting import Setting
from argosy.plan.costs.tables import gradient_sums, worked
from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.pipelines.templates import Template


def exposed_ms(setting: Setting, template: Template, links: Sequence[LongLink]) -> float:
    """Guess what of the gradients' exchange among like replicas no backward hides.

    A stage's gradients travel while it and the stages before it still run their last backwards. With ZeRO what is
    gathered after the update is not hidden.
    """
    layout = template.layout
    if layout.count * layout.cp * layout.ep < 2:
        return 0.0
    factors = {run.chip_class.name: ring_factors(setting, layout, run, links) for run in layout.runs}
    per_place = np.array([factors[run.chip_class.name] for run in layout.places])
    per_stage = per_place if layout.virtual_stages == 1 else np.concatenate([per_place] * layout.virtual_stages)
    starts, ends, _, _ = template.cut.rows
    sizes = [sums[ends] - sums[starts] for sums in gradient_sums(setting)]
    ring_ms = per_stage[:, 0] * sizes[0] + per_stage[:, 1] * sizes[1]
    summed, gathered = parts_of_ring(layout.zero_stage)
    drained = np.cumsum(template.backward_ms)
    gathered_ms = gathered * ring_ms * setting.numerics.weight_bytes / GRADIENT_BYTES
    return float((gathered_ms + np.maximum(0.0, summed * ring_ms - drained)).max())


def ring_factors(setting: Setting, layout: Layout, run: Run, links: Sequence[LongLink]) -> tuple[float, float]:
    """Give the ms that a byte of a stage's gradients takes among like replicas: of what EP ranks share, of experts."""
    used = layout.count * layout.chips[run.chip_class.name]

    def work() -> tuple[float, float]:
        holder = holder_of(run.chip_class, run.tp, layout.width(run), run.places, used)
        held = [Held(holder=holder, count=layout.count, copies=layout.cp * layout.ep, ep=layout.ep)]
        return ring_ms(held, (1.0, 0.0), links), ring_ms(held, (0.0, 1.0), links)

    key = ("ring factors", run.chip_class.name, run.tp, run.places, layout.cp, layout.ep, layout.count, used)
    return worked(setting, key, work)
