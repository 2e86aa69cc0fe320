"""How near predictions come to measured runs, and how tables of published runs are read."""

import csv
import importlib
import sys

import pytest

from argosy.contracts.errors import BadInputError
from argosy.plan.curves import CURVES

# What each set's mean absolute error of step time must stay under.
TIME_MAX = {
    "sailor_clean": 0.08,
    "megatron_validated": 0.037,
    "megatron_sc21": 0.10,
    "megatron_h100": 0.10,
    "llama3": 0.10,
    "megascale_megatron": 0.10,
    "megascale": 0.10,
    "flagperf": 0.10,
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
        assert all("Llama-3-405B" not in reason and "GPT" not in reason for reason in skipped)
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
        own = next([curve.products, curve.start_ms] for curve in CURVES if "a100-" in curve.chips)
        assert (len(found), curves) == (1, {"A100": [own, own]})

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"tp": ""}, "tp not stated"),
            ({"n_chips": "8000"}, "8000 chips are not a multiple of TP 8 x CP 1 x PP 16"),
            ({"seq": "many"}, "seq is 'many', not a number"),
            ({"hidden": "-4"}, "hidden is '-4'"),
            ({"layers": ""}, "layers not stated"),
            ({"ep": "8"}, "experts whose sizes are not stated"),
            ({"precision": "fp8"}, "trained in fp8, not in 16 bits"),
            ({"chip": "TPU v5p"}, "no chip of the sets is named TPU v5p"),
            ({"tflops_per_chip": "", "mfu": ""}, "no time, rate or utilisation stated"),
            ({"global_batch": "2047"}, "2047 sequences can't be dealt"),
        ],
    )
    def test_rows_that_lack_a_figure_are_named(self, accuracy, reference_data, tmp_path, changes, reason):
        """A row that can't be predicted is left out, and the reason says which figure is at fault."""
        found, skipped = self.read(accuracy, reference_data, tmp_path, changes)
        assert found == []
        assert len(skipped) == 1
        assert reason in skipped[0]

    @pytest.mark.parametrize(
        "changes",
        [
            {"cp": "16", "dp": "4", "seq": "131072", "global_batch": "128"},
            {"interleave": "2"},
            {"interleave": "n/a", "ep": "-"},
            {"micro_batch": "2"},
            {"dp": "", "kv_heads": "", "ffn": ""},
            {"model": "DeepSeek-V3", "ep": "32", "pp": "4", "dp": "256", "layers": ""},
        ],
    )
    def test_rows_of_other_splits_are_predicted(self, accuracy, reference_data, tmp_path, changes):
        """Context and expert parallelism, stated virtual stages and figures that have a default are no hindrance."""
        found, skipped = self.read(accuracy, reference_data, tmp_path, changes)
        assert skipped == []
        assert found[0].predicted_s > 0

    def read(self, accuracy, reference_data, tmp_path, changes):
        """Predict the Llama-3 row of the reference table with some cells changed."""
        with (reference_data / "planner" / "published.csv").open(newline="") as file:
            row = next(row for row in csv.DictReader(file) if row["source"].startswith("Llama 3 paper"))
        with (tmp_path / "row.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, row)
            writer.writeheader()
            writer.writerow(row | changes)
        found, skipped, _ = accuracy.published_residuals(tmp_path / "row.csv")
        return found, skipped

    def test_tables_of_another_form_are_refused(self, accuracy, tmp_path):
        """Missing columns are named."""
        table = tmp_path / "bad.csv"
        table.write_text("source,model\na,b\n")
        with pytest.raises(BadInputError, match="columns chip, cp, dp"):
            accuracy.published_residuals(table)
