"""A scatter chart as SVG: points on two logarithmic axes, named where there is room, the best joined by a line.

Draws what it is given; knows nothing of plans. Colours are those of `cli.charts`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from argosy.cli.charts import STYLE, round_step

WIDTH_PX, HEIGHT_PX = 960, 560
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 84, 30, 64, 56
# A logarithmic axis is at least this wide, so that equal values do not make it a point.
SPAN_MIN = 1.2
# An axis that is longer than this has ticks by decades.
DECADE_SHARE_MIN, TICKS = 8.0, 8
LABEL_CHARACTER_PX, LABEL_HEIGHT_PX = 6.4, 15
POINT_STYLE = """
svg circle.front { fill: var(--s0); } svg circle.other { fill: none; stroke: var(--soft); }
svg text.point { font-size: 11px; } svg text.point.left { text-anchor: end; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point. label: what stands beside it, empty for nothing; more: what a hovering pointer tells."""

    x: float
    y: float
    label: str = ""
    more: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAxis:
    """A logarithmic scale from values to pixels."""

    low: float
    high: float
    from_px: float
    to_px: float

    def at(self, value: float) -> float:
        """Give a value's pixel."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.from_px + share * (self.to_px - self.from_px)

    @property
    def ticks(self) -> list[float]:
        """Round values within: powers of ten with 2 and 5 between, or evenly spaced ones on a short axis."""
        if self.high / self.low < DECADE_SHARE_MIN:
            step = round_step((self.high - self.low) / TICKS)
            return [i * step for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1.0, 2.0, 5.0) if len(powers) <= TICKS else (1.0,)
        return [s * 10.0**p for p in powers for s in steps if self.low <= s * 10.0**p <= self.high]


def log_axis(values: Sequence[float], from_px: float, to_px: float) -> LogAxis:
    """Make a scale that holds some values with a margin."""
    low, high = min(values), max(values)
    spread = max(high / low, SPAN_MIN) ** 0.06
    middle = math.sqrt(low * high)
    half = math.sqrt(max(high / low, SPAN_MIN)) * spread
    return LogAxis(low=middle / half, high=middle * half, from_px=from_px, to_px=to_px)


def scatter_chart(
    front: Sequence[Point], others: Sequence[Point], *, title: str, note: str, x_label: str, y_label: str
) -> str:
    """Draw a picture that stands alone; values must be more than 0."""
    points = [*front, *others]
    x_axis = log_axis([point.x for point in points], LEFT_PX, WIDTH_PX - RIGHT_PX)
    y_axis = log_axis([point.y for point in points], HEIGHT_PX - BOTTOM_PX, TOP_PX)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {HEIGHT_PX}" role="img">',
        f'<style>{STYLE}{POINT_STYLE}</style><rect class="back" width="100%" height="100%"/>',
        f'<text class="head" x="{LEFT_PX}" y="20">{escape(title)}</text>',
        f'<text class="key" x="{LEFT_PX}" y="37">{escape(note)}</text>',
        *_frame(x_axis, y_axis),
        f'<text class="name" x="{(LEFT_PX + WIDTH_PX - RIGHT_PX) / 2}" y="{HEIGHT_PX - 12}">{escape(x_label)}</text>',
        f'<text class="unit" x="8" y="{TOP_PX - 10}">{escape(y_label)}</text>',
        _line(front, x_axis, y_axis),
        *(_circle(point, x_axis, y_axis, "other") for point in others),
        *(_circle(point, x_axis, y_axis, "front") for point in front),
        *_labels(front, x_axis, y_axis),
    ]
    return "\n".join([*parts, "</svg>"])


def value_text(value: float) -> str:
    """Write a tick or a figure shortly.

    >>> value_text(250), value_text(12500), value_text(2.5e6)
    ('250', '12.5 k', '2.5 M')
    """
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= limit:
            return f"{value / (1e3 if unit == ' k' else limit):,.4g}{unit}"
    return f"{value:,.4g}"


def _frame(x_axis: LogAxis, y_axis: LogAxis) -> Iterator[str]:
    for tick in y_axis.ticks:
        y = y_axis.at(tick)
        yield f'<line class="grid" x1="{LEFT_PX}" x2="{WIDTH_PX - RIGHT_PX}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick y" x="{LEFT_PX - 7}" y="{y + 4:.1f}">{value_text(tick)}</text>'
    for tick in x_axis.ticks:
        x = x_axis.at(tick)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP_PX}" y2="{HEIGHT_PX - BOTTOM_PX}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT_PX - BOTTOM_PX + 17}">{value_text(tick)}</text>'


def _line(points: Sequence[Point], x_axis: LogAxis, y_axis: LogAxis) -> str:
    """Join the points that no other beats in the two values shown, less of x and more of y being better."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, -point.y)):
        if not best or point.y > best[-1].y:
            best.append(point)
    path = " ".join(f"{x_axis.at(point.x):.1f},{y_axis.at(point.y):.1f}" for point in best)
    return f'<polyline class="line s1" points="{path}"/>'


def _circle(point: Point, x_axis: LogAxis, y_axis: LogAxis, kind: str) -> str:
    radius = 4.5 if kind == "front" else 3
    x, y = x_axis.at(point.x), y_axis.at(point.y)
    told = f"<title>{escape(point.more)}</title>" if point.more else ""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">{told}</circle>'


def _labels(points: Sequence[Point], x_axis: LogAxis, y_axis: LogAxis) -> Iterator[str]:
    """Name the points, on the side where there is room; a name that would cover another is left to the pointer."""
    taken: list[tuple[float, float, float]] = []
    for point in points:
        if not point.label:
            continue
        x, y = x_axis.at(point.x), y_axis.at(point.y)
        width = LABEL_CHARACTER_PX * len(point.label)
        for begin, side in ((x + 8, ""), (x - 8 - width, " left")):
            inside = begin >= LEFT_PX and begin + width <= WIDTH_PX
            free = all(
                abs(y - other_y) >= LABEL_HEIGHT_PX or begin > end or begin + width < start
                for start, end, other_y in taken
            )
            if inside and free:
                taken.append((begin, begin + width, y))
                at = x + 8 if not side else x - 8
                yield f'<text class="point{side}" x="{at:.1f}" y="{y + 4:.1f}">{escape(point.label)}</text>'
                break
