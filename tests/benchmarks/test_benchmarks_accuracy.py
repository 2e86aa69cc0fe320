"""How near predictions come to measured runs, and how tables of published runs are read."""

import importlib
import sys

import pytest

from argosy.contracts.errors import BadInputError

# What each set's mean absolute error of step time must stay under.
TIME_MAX = {
    "sailor_clean": 0.08,
    "megatron_validated": 0.037,
    "megatron_sc21": 0.10,
    "megatron_h100": 0.10,
    "megascale_megatron": 0.10,
    "megascale": 0.10,
}


@pytest.fixture(scope="module")
def accuracy(repository):
    """Import the accuracy benchmark."""
    sys.path.insert(0, str(repository / "benchmarks"))
    yield importlib.import_module("planner_accuracy")
    sys.path.remove(str(repository / "benchmarks"))


@pytest.mark.reference
@pytest.mark.slow
class TestAccuracy:
    def test_measured_runs_are_predicted_closely(self, accuracy, reference_data):
        """Step times of every set, and the memory of the GH200 runs, are within their limits."""
        planner = reference_data / "planner"
        published, skipped, _ = accuracy.published_residuals(planner / "published.csv")
        sets = accuracy.summary(accuracy.sailor_residuals(planner / "sailor") + published)
        assert {name: row["n"] for name, row in sets.items()}["sailor_clean"] == 33
        assert sets["megatron_validated"]["n"] == 8
        assert skipped == []
        over = {name: sets[name]["time_mape"] for name, most in TIME_MAX.items() if sets[name]["time_mape"] > most}
        assert over == {}
        assert sets["sailor_gh200"]["memory_mape"] <= 0.08

    def test_one_row_is_scored_by_the_reference_figure(self, accuracy, reference_data, tmp_path):
        """A table with a single row of a chip is predicted too."""
        lines = (reference_data / "planner" / "published.csv").read_text().splitlines()
        row = next(line for line in lines if line.startswith("Megatron-LM SC21"))
        table = tmp_path / "one.csv"
        table.write_text(f"{lines[0]}\n{row}\n")
        found, _, curves = accuracy.published_residuals(table)
        assert (len(found), curves) == (1, {"A100": [0.745, 0.745]})

    def test_tables_of_another_form_are_refused(self, accuracy, tmp_path):
        """Missing columns are named."""
        table = tmp_path / "bad.csv"
        table.write_text("source,model\na,b\n")
        with pytest.raises(BadInputError, match="columns chip, dp"):
            accuracy.published_residuals(table)
