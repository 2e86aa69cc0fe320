"""Whole logs: cases with confirmed causes, and healthy runs of six frameworks."""

from pathlib import Path

import pytest

HEALTHY = sorted(Path(__file__).with_name("healthy").glob("*.log"))


class TestCases:
    @pytest.mark.reference
    @pytest.mark.slow
    def test_causes_are_named(self, benchmark, reference_data):
        """Family and remedy are right in nine of ten decidable cases, and wrong in three of a hundred at most."""
        diagnose = benchmark("diagnose")
        result = diagnose.measure(diagnose.read_cases(reference_data / "faults" / "cases"))
        assert result["both_right"] >= 0.9 * result["decidable"]
        assert result["wrong"] <= 0.03 * result["decidable"]
        assert result["culprit_wrong"] == 0


class TestHealthy:
    def test_there_are_a_thousand_lines_of_six_frameworks(self):
        """The logs are of accelerate, our trainer, DDP, FSDP2, lightning and plain torchrun."""
        assert len(HEALTHY) == 6
        assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in HEALTHY) >= 1_000

    @pytest.mark.parametrize("path", HEALTHY, ids=[path.stem for path in HEALTHY])
    def test_a_healthy_log_gives_no_incident(self, judged, path):
        """Whatever debug output says, nothing is wrong."""
        assert judged(*path.read_text(encoding="utf-8").splitlines()) == ()

    def test_all_healthy_logs_together_give_none(self, judged):
        """Nor do they all together."""
        assert judged(*(line for path in HEALTHY for line in path.read_text(encoding="utf-8").splitlines())) == ()
