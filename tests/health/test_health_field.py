"""What diagnosis makes of lines from the whole field (field.yaml), where new wordings of known faults belong first."""

from pathlib import Path

import pytest
import yaml

FIELD = yaml.safe_load(Path(__file__).with_name("field.yaml").read_text(encoding="utf-8"))
FAULTS = [pytest.param(row, id=row["name"]) for row in FIELD["faults"]]


class TestField:
    @pytest.mark.parametrize("row", FAULTS)
    def test_a_fault_is_told_from_its_lines(self, judged, row):
        """The first Incident has the family and the remedy that the lines speak for."""
        first = next(iter(judged(*row["lines"])), None)
        named = first.fault_class.partition(".")[0] if first else "none"
        assert row["family"] in ("any", named)
        assert row["remedy"] in ("any", first.remedy if first else "any")

    @pytest.mark.parametrize("line", FIELD["noise"], ids=[line[:40] for line in FIELD["noise"]])
    def test_what_only_looks_like_a_fault_is_none(self, judged, line):
        """A line that healthy programs print gives no Incident."""
        assert judged(line) == ()

    def test_all_noise_together_is_none(self, judged):
        """Nor do they all together."""
        assert judged(*FIELD["noise"]) == ()
