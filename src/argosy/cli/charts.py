"""Small SVG charts for a page: lines over steps, and rows of spans over time.

Colours come from a style sheet (classes `s0`..`s2` for lines, the span's kind for rectangles), so that one picture
serves light and dark: STYLE stands in the page, or in the picture itself where that is a file of its own. Draws what it
is given; knows nothing of training.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from argosy.plan.timing.trace import NAMES, Row

WIDTH_PX, HEIGHT_PX = 620, 240
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 56, 12, 24, 34
# A line of more points than pixels is not read; it is thinned to its lowest and highest of each group.
POINTS_MAX = 600
ROW_PX, ROW_LABEL_PX, ROWS_WIDTH_PX, AXIS_PX, HEAD_PX = 22, 310, 1260, 44, 26
SMALLEST_PX = 0.4
# What a character of a label takes at most, on the average; what stands for the rest of one that is cut.
CHARACTER_PX, CUT = 7.0, " ..."
# Virtual stages of a place are told apart by so many lighter shades; those beyond share the lightest.
SHADES = 3

STYLE = """
:root { color-scheme: light dark; --card: #ffffff; --ink: #1d232b; --soft: #5d6875; --line: #dfe3e8;
  --f: #4c78a8; --b: #e0853a; --w: #c9a227; --u: #6f9a54; --x: #8d6cab; --s0: #2f6fb3; --s1: #d1731f; --s2: #6f9a54; }
@media (prefers-color-scheme: dark) { :root { --card: #1c2229; --ink: #e6e9ed; --soft: #9aa5b1; --line: #333c46;
  --f: #6b9bd1; --b: #eb9a57; --w: #dfc04f; --u: #8fbb73; --x: #ab8ccb; --s0: #73ace6; --s1: #f0a35e; --s2: #8fbb73; } }
svg { font-family: system-ui, sans-serif; font-size: 12px; }
svg text { fill: var(--ink); } svg text.tick, svg text.unit, svg text.key, svg text.name { fill: var(--soft); }
svg text.tick, svg text.name { text-anchor: middle; } svg text.tick.y { text-anchor: end; }
svg text.head { font-weight: 600; } svg rect.back { fill: var(--card); }
svg .grid { stroke: var(--line); } svg .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
svg .s0 { stroke: var(--s0); } svg .s1 { stroke: var(--s1); } svg .s2 { stroke: var(--s2); }
svg rect.F { fill: var(--f); } svg rect.B { fill: var(--b); } svg rect.U { fill: var(--u); }
svg rect.X { fill: var(--x); } svg rect.W { fill: var(--w); }
svg rect.v1 { fill-opacity: 0.68; } svg rect.v2 { fill-opacity: 0.44; } svg rect.v3 { fill-opacity: 0.28; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line. style: a class of the page. dashed: for what was predicted."""

    name: str
    points: tuple[tuple[float, float], ...]
    style: str = "s0"
    dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A linear scale from values to pixels. ticks: round values within."""

    low: float
    high: float
    from_px: float
    to_px: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """Give a value's pixel."""
        return self.from_px + (value - self.low) / (self.high - self.low) * (self.to_px - self.from_px)


def line_chart(series: Sequence[Series], x_label: str, y_label: str, *, from_zero: bool = False) -> str:
    """Draw lines with axes and a legend; values that are not finite leave gaps. Empty without two points."""
    kept = [(one, finite(one.points)) for one in series]
    everything = [point for _, points in kept for point in points]
    if len(everything) < 2:
        return ""
    xs, ys = [x for x, _ in everything], [y for _, y in everything]
    x_axis = axis(min(xs), max(xs), LEFT_PX, WIDTH_PX - RIGHT_PX, tight=True)
    y_axis = axis(0.0 if from_zero else min(ys), max(ys), HEIGHT_PX - BOTTOM_PX, TOP_PX)
    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH_PX} {HEIGHT_PX}" role="img">', *_frame(x_axis, y_axis)]
    parts += [f'<text class="name" x="{(LEFT_PX + WIDTH_PX) / 2}" y="{HEIGHT_PX - 4}">{escape(x_label)}</text>']
    parts += [f'<text class="unit" x="{LEFT_PX}" y="14">{escape(y_label)}</text>']
    for one, points in kept:
        path = " ".join(f"{x_axis.at(x):.1f},{y_axis.at(y):.1f}" for x, y in thinned(points))
        dash = ' stroke-dasharray="5 4"' if one.dashed else ""
        parts.append(f'<polyline class="line {one.style}" points="{path}"{dash}/>')
    return "\n".join([*parts, *_legend([one for one, _ in kept]), "</svg>"])


def row_chart(rows: Sequence[Row], end_ms: float = 0.0, *, title: str = "") -> str:
    """Draw rows of spans over one time axis from 0 to the last span, or to end_ms if that is later, with a legend.

    title: makes it a picture that stands alone, as a file.
    """
    top = HEAD_PX if title else 0
    bottom = top + ROW_PX * len(rows)
    ends_ms = [span.end_ms for row in rows for span in row.spans]
    time = axis(0.0, max([end_ms, *ends_ms]), ROW_LABEL_PX, ROWS_WIDTH_PX - RIGHT_PX, tight=True)
    space = ' xmlns="http://www.w3.org/2000/svg"' if title else ""
    parts = [f'<svg class="rows"{space} viewBox="0 0 {ROWS_WIDTH_PX} {bottom + AXIS_PX}" role="img">']
    if title:
        parts += [f"<style>{STYLE}</style>", '<rect class="back" width="100%" height="100%"/>']
        parts += [f'<text class="head" x="4" y="17">{escape(title)}</text>']
    for tick in time.ticks:
        x = time.at(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 15}">{tick_text(tick, time)} ms</text>')
    parts += _keys(rows, bottom)
    for index, row in enumerate(rows):
        parts += _drawn_row(row, top + index * ROW_PX, time)
    return "\n".join([*parts, "</svg>"])


def axis(low: float, high: float, from_px: float, to_px: float, *, tight: bool = False) -> Axis:
    """Make a scale with about five round ticks. tight: the scale ends with the values, not with a tick."""
    if not high > low:
        low, high = low - (abs(low) or 1.0) * 0.05, high + (abs(high) or 1.0) * 0.05
    step = round_step((high - low) / 5)
    if not tight:
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return Axis(low=low, high=high, from_px=from_px, to_px=to_px, ticks=tuple((first + i) * step for i in range(count)))


def round_step(step: float) -> float:
    """Round a step up to 1, 2 or 5 times a power of ten.

    >>> round_step(0.31), round_step(17)
    (0.5, 20.0)
    """
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= step * (1 - 1e-9))


def tick_text(value: float, scale: Axis) -> str:
    """Write a tick with as many decimals as its neighbours need."""
    step = scale.ticks[1] - scale.ticks[0] if len(scale.ticks) > 1 else 1.0
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:,.{decimals}f}"


def finite(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leave out points that can't be drawn."""
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the lowest and the highest point of each group where there are too many."""
    if len(points) <= POINTS_MAX:
        return points
    size = math.ceil(len(points) / (POINTS_MAX // 2))
    kept = []
    for start in range(0, len(points), size):
        group = points[start : start + size]
        kept += sorted({min(group, key=lambda p: p[1]), max(group, key=lambda p: p[1])})
    return kept


def _frame(x_axis: Axis, y_axis: Axis) -> Iterator[str]:
    for tick in y_axis.ticks:
        y = y_axis.at(tick)
        yield f'<line class="grid" x1="{LEFT_PX}" x2="{WIDTH_PX - RIGHT_PX}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick y" x="{LEFT_PX - 6}" y="{y + 4:.1f}">{tick_text(tick, y_axis)}</text>'
    y = HEIGHT_PX - BOTTOM_PX + 15
    for tick in x_axis.ticks:
        yield f'<text class="tick" x="{x_axis.at(tick):.1f}" y="{y}">{tick_text(tick, x_axis)}</text>'


def _legend(series: Sequence[Series]) -> Iterator[str]:
    """Name the lines, at the upper right; a single line needs no name."""
    x = float(WIDTH_PX - RIGHT_PX)
    for one in reversed(series if len(series) > 1 else []):
        x -= 7.0 * len(one.name) + 34
        dash = ' stroke-dasharray="5 4"' if one.dashed else ""
        yield f'<line class="line {one.style}" x1="{x:.0f}" x2="{x + 22:.0f}" y1="10" y2="10"{dash}/>'
        yield f'<text class="key" x="{x + 27:.0f}" y="14">{escape(one.name)}</text>'


def _keys(rows: Sequence[Row], bottom: int) -> Iterator[str]:
    """Say what the colours mean, below the axis."""
    x = 4.0
    rare = {"W"} - {span.kind for row in rows for span in row.spans}
    for kind, name in NAMES.items():
        if kind in rare:
            continue
        yield f'<rect class="{kind}" x="{x}" y="{bottom + 25}" width="9" height="9"/>'
        yield f'<text class="key" x="{x + 13}" y="{bottom + 33}">{name}</text>'
        x += 24 + CHARACTER_PX * len(name)


def fitting(label: str) -> str:
    """Cut a row's label to the room before its spans, at a comma if there is one; a pointer shows the whole.

    >>> fitting("0.0 north/x8, layers 0-4"), fitting("0.1 north/x8, layers 0-4, " + "10-14, " * 9)
    ('0.0 north/x8, layers 0-4', '0.1 north/x8, layers 0-4, 10-14, ...')
    """
    most = int(ROW_LABEL_PX / CHARACTER_PX)
    if len(label) <= most:
        return label
    cut = label[: most - len(CUT)]
    return cut[: cut.rfind(",")] + "," + CUT if "," in cut else cut + CUT


def _drawn_row(row: Row, y: float, time: Axis) -> Iterator[str]:
    shown = fitting(row.label)
    more = f"<title>{escape(row.label)}</title>" if shown != row.label else ""
    yield f'<text class="row" x="4" y="{y + 15:.0f}">{escape(shown)}{more}</text>'
    for span in row.spans:
        x, end = time.at(span.start_ms), time.at(span.end_ms)
        width = max(SMALLEST_PX, end - x - 0.5)
        text = f"{span.name}: {span.start_ms:.1f} to {span.end_ms:.1f} ms"
        shade = f" v{min(span.chunk, SHADES)}" if span.chunk else ""
        yield (
            f'<rect class="{span.kind}{shade}" x="{x:.2f}" y="{y + 2:.0f}" width="{width:.2f}" height="{ROW_PX - 4}">'
            f"<title>{escape(text)}</title></rect>"
        )
