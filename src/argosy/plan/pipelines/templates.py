"""A template: one way to lay one replica over a sequence of classes, its layers cut, its stages timed.

Must not know how many replicas there are in all, nor the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.contracts.fleet import LongLink
from argosy.contracts.plan import Send, Wire
from argosy.plan.costs.setting import Setting
from argosy.plan.costs.tables import worked
from argosy.plan.pipelines.boundaries import boundary_wires, crossing_streams, posted_ms
from argosy.plan.pipelines.layouts import Layout
from argosy.plan.pipelines.partition import Cut
from argosy.plan.pipelines.places import make_cut, sent_bytes, stage_times


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A layout with its layers cut and its stages timed, update left out. wires, sent_bytes: of its boundaries.

    forward_ms, backward_ms, weight_ms: by stage. pace_ms: from one micro-batch to the next in the steady state.
    fill_ms: what a single micro-batch would take, as far as more of them don't hide it.
    """

    layout: Layout
    cut: Cut
    forward_ms: tuple[float, ...]
    backward_ms: tuple[float, ...]
    weight_ms: tuple[float, ...]
    wires: tuple[Wire, ...]
    sent_bytes: tuple[float, ...]
    pace_ms: float
    fill_ms: float

    @property
    def sends(self) -> tuple[Send, ...]:
        """What joins its stages."""
        pairs = zip(self.wires, self.sent_bytes, strict=True)
        return tuple(Send(wire=wire.name, payload_bytes=sent) for wire, sent in pairs)


def make_template(setting: Setting, layout: Layout, links: Sequence[LongLink]) -> Template | None:
    """Cut the layers for a layout and time its stages; None where no cut fits in memory."""
    if layout.stages > setting.shape.num_layers:
        return None
    cut = worked(setting, ("cut", layout.key), lambda: make_cut(setting, layout))
    if cut is None:
        return None
    times = worked(setting, ("times", layout.key), lambda: stage_times(setting, layout, cut))
    streams = crossing_streams([layout])
    key = ("wires", layout.shape, tuple(streams.values()))
    wires = worked(setting, key, lambda: boundary_wires(layout, links, streams))
    return joined(setting, layout, cut, times, wires)


def joined(
    setting: Setting, layout: Layout, cut: Cut, times: tuple[tuple[float, ...], ...], wires: tuple[Wire, ...]
) -> Template:
    """Make the template of timed stages and the wires between them."""
    sent = sent_bytes(setting, layout)
    posts_ms, hops_ms = posted_ms(wires, sent)
    pace_ms, fill_ms = rhythm(layout, times, posts_ms, hops_ms)
    return Template(
        layout=layout,
        cut=cut,
        forward_ms=times[0],
        backward_ms=times[1],
        weight_ms=times[2],
        wires=wires,
        sent_bytes=sent,
        pace_ms=pace_ms,
        fill_ms=fill_ms,
    )


def rejoined(setting: Setting, template: Template, links: Sequence[LongLink], layouts: Sequence[Layout]) -> Template:
    """Give a template's boundaries over long links the share that the streams of all these layouts leave them."""
    if not any(wire.long_link for wire in template.wires):
        return template
    times = (template.forward_ms, template.backward_ms, template.weight_ms)
    wires = boundary_wires(template.layout, links, crossing_streams(layouts))
    return joined(setting, template.layout, template.cut, times, wires)


def rhythm(
    layout: Layout, times: Sequence[Sequence[float]], posts_ms: Sequence[float], hops_ms: Sequence[float]
) -> tuple[float, float]:
    """Estimate pace and fill of a schedule; the timeline has the last word.

    Pace: the slowest place or wire, or where a place lets only so many micro-batches in, its longest loop: they share
    the time of one there and back. Fill: all stages there and back; places with several stages fill with the first of
    them, and zero-bubble fills gaps with weights' gradients (arXiv 2104.04473, 2401.10241).
    """
    depth = layout.depth
    stages = [forward + backward for forward, backward in zip(times[0], times[1], strict=True)]
    works = [sum(stages[place::depth]) for place in range(depth)]
    # Virtual stages of a place share its wire to the next.
    posts = [sum(posts_ms[place::depth]) for place in range(depth)]
    pace = max(*works, *posts)
    if layout.schedule == "interleaved":
        flying = max(layout.held) / layout.virtual_stages
        pace = max(pace, (sum(works) + 2 * sum(hops_ms)) / flying)
        others = (sum(works) - max(works)) / layout.virtual_stages
        return pace, max(works) + others + 2 * sum(hops_ms[: depth - 1])
    if layout.schedule != "gpipe":
        loop = 0.0
        for s in range(depth - 1, -1, -1):
            loop += works[s] + (2 * hops_ms[s] if s < depth - 1 else 0.0)
            pace = max(pace, loop / (depth - s) if s < depth - 1 else works[s])
    fill = sum(works) + 2 * sum(hops_ms)
    if layout.schedule == "zero-bubble":
        fill -= 2 * (sum(times[2]) - max(times[2]))
    return pace, max(fill, max(works))
