"""SVG charts: scales, thinning, and pictures that are well-formed whatever the values."""

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.cli.charts import (
    CHARACTER_PX,
    POINTS_MAX,
    ROW_LABEL_PX,
    Series,
    axis,
    fitting,
    line_chart,
    round_step,
    row_chart,
    thinned,
)
from argosy.plan.timing.trace import Row, Span

VALUES = st.floats(-1e12, 1e12, allow_nan=False) | st.sampled_from([math.nan, math.inf])


class TestAxis:
    @given(low=st.floats(-1e9, 1e9), width=st.floats(1e-6, 1e9), tight=st.booleans())
    def test_ticks_are_few_and_within(self, low: float, width: float, tight: bool) -> None:
        """Every scale has one to eleven ticks, ascending, within its ends, and maps its ends to its pixels."""
        scale = axis(low, low + width, 10, 110, tight=tight)
        room = (scale.high - scale.low) * 1e-6
        assert 1 <= len(scale.ticks) <= 11
        assert list(scale.ticks) == sorted(set(scale.ticks))
        assert scale.low - room <= scale.ticks[0] <= scale.ticks[-1] <= scale.high + room
        assert scale.at(scale.low) == pytest.approx(10)
        assert scale.at(scale.high) == pytest.approx(110)

    def test_one_value_has_a_scale_too(self) -> None:
        """A curve that never changes is drawn in the middle."""
        scale = axis(5.0, 5.0, 0, 100)
        assert scale.low < 5 < scale.high
        assert axis(0.0, 0.0, 0, 100).high > 0

    @pytest.mark.parametrize(("step", "rounded"), [(0.31, 0.5), (1.0, 1.0), (1.1, 2.0), (17.0, 20.0), (9e-4, 1e-3)])
    def test_steps_are_round(self, step: float, rounded: float) -> None:
        """Steps are 1, 2 or 5 times a power of ten."""
        assert round_step(step) == pytest.approx(rounded)


class TestLines:
    @given(st.lists(st.tuples(st.floats(0, 1e6), VALUES), max_size=20))
    def test_always_well_formed(self, points: list[tuple[float, float]]) -> None:
        """Whatever the values, the picture is XML without a value that can't be drawn."""
        picture = line_chart([Series(name="<a&b>", points=tuple(points)), Series(name="c", points=())], "x", "y")
        if picture:
            ET.fromstring(picture)
            assert "nan" not in picture
            assert "inf" not in picture

    def test_names_several_lines(self) -> None:
        """Two lines have a legend, one needs none."""
        one = Series(name="wall", points=((0, 1), (1, 2)))
        assert "wall" not in line_chart([one], "step", "s")
        assert "wall" in line_chart([one, Series(name="told", points=((0, 1), (1, 1)), dashed=True)], "step", "s")

    def test_a_point_is_no_line(self) -> None:
        """Fewer than two points give no picture."""
        assert line_chart([Series(name="a", points=((1, 1),))], "x", "y") == ""

    def test_long_lines_keep_their_peaks(self) -> None:
        """A thinned line has few points but its highest and lowest are among them."""
        points = [(float(x), float(x % 7)) for x in range(10_000)]
        points[5001] = (5001.0, 99.0)
        kept = thinned(points)
        assert len(kept) <= POINTS_MAX + 2
        assert (5001.0, 99.0) in kept
        assert kept == sorted(kept)


class TestRows:
    def test_spans_lie_where_their_times_are(self) -> None:
        """A span of half the time is half as wide as the axis, and tells its text."""
        picture = row_chart(
            [Row(group="g", label="a & b", spans=(Span(start_ms=0, end_ms=50, kind="F", name="forward <0>"),))], 100
        )
        tree = ET.fromstring(picture)
        rectangle = next(node for node in tree.iter() if node.tag.endswith("rect") and len(node))
        assert float(rectangle.get("width", "0")) == pytest.approx((1260 - 12 - 310) / 2, abs=1)
        assert rectangle[0].text == "forward <0>: 0.0 to 50.0 ms"

    def test_long_labels_end_before_the_spans(self) -> None:
        """A label that would run into its spans is cut at a comma; a pointer shows the whole."""
        label = "16.0 berlin/h100-sxm x4, layers " + ", ".join(str(8 * index) for index in range(30))
        picture = row_chart([Row(group="g", label=label, spans=())], 100)
        text = next(node for node in ET.fromstring(picture).iter() if node.get("class") == "row")
        assert text.text is not None
        assert text.text.endswith(", ...")
        assert len(text.text) * CHARACTER_PX <= ROW_LABEL_PX
        assert text[0].text == label
        assert fitting(label[:30]) == label[:30]

    def test_colours_are_explained(self) -> None:
        """A key for each kind of work stands below the rows."""
        assert all(name in row_chart([], 10) for name in ("forward", "backward", "update", "exchange"))
