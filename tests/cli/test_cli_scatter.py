"""Scatter charts."""

import xml.etree.ElementTree as ET

import pytest

from argosy.cli.scatter import Point, log_axis, scatter_chart, value_text

SVG = "{http://www.w3.org/2000/svg}"
LABELS = {"title": "what", "note": "how", "x_label": "price", "y_label": "speed"}


def drawn(front: list[Point], others: list[Point] | None = None) -> ET.Element:
    """Draw points and read the picture."""
    return ET.fromstring(scatter_chart(front, others or [], **LABELS))


def texts(picture: ET.Element) -> list[str]:
    """List what is written in a picture."""
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


class TestScatter:
    def test_points(self) -> None:
        """Every point is a circle within the frame, those of the front filled, named and told on hovering."""
        front = [Point(x=1.0, y=10.0, label="a", more="a & b"), Point(x=100.0, y=1e6, label="b")]
        picture = drawn(front, [Point(x=50.0, y=100.0)])
        circles = list(picture.iter(f"{SVG}circle"))
        assert [circle.get("class") for circle in circles] == ["other", "front", "front"]
        assert all(0 < float(circle.get("cx", 0)) < 960 and 0 < float(circle.get("cy", 0)) < 560 for circle in circles)
        assert {"a", "b", "what", "how", "price", "speed"} <= set(texts(picture))
        assert [title.text for title in picture.iter(f"{SVG}title")] == ["a & b"]

    def test_the_line_joins_the_best(self) -> None:
        """The line goes through points that are faster than all that are cheaper."""
        front = [Point(x=1, y=1), Point(x=2, y=3), Point(x=3, y=2), Point(x=4, y=9)]
        line = next(drawn(front).iter(f"{SVG}polyline"))
        assert len((line.get("points") or "").split()) == 3

    def test_names_do_not_cover_each_other(self) -> None:
        """Of points that lie on one another only as many are named as there is room for."""
        front = [Point(x=5.0, y=5.0, label=f"point {i}") for i in range(9)]
        assert sum(text.startswith("point") for text in texts(drawn(front))) <= 2

    def test_one_point(self) -> None:
        """A single point is drawn too."""
        assert len(list(drawn([Point(x=3.0, y=7.0)]).iter(f"{SVG}circle"))) == 1

    @pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (37_000, 78_000), (20_000, 5e6), (1e-3, 1e9)])
    def test_ticks(self, low: float, high: float) -> None:
        """Ticks are round, within the axis, and neither too few nor too many."""
        axis = log_axis([low, high], 0.0, 100.0)
        assert 2 <= len(axis.ticks) <= 24
        assert all(axis.low <= tick <= axis.high for tick in axis.ticks)
        assert len({value_text(tick) for tick in axis.ticks}) == len(axis.ticks)
