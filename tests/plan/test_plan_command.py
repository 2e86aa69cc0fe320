"""`argosy plan`, from files to text."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.cli.main import main
from support.plan_files import write_files


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Write a job and a fleet; answers the arguments that name them."""
    return write_files(tmp_path)


class TestPlanCommand:
    def test_text(self, files: list[str], capsys: Any) -> None:
        """It prints the options and the split, no wider than 110 columns, emulated times marked."""
        assert main(files) == 0
        text = capsys.readouterr().out
        for part in (
            "tiny   12 x 64 tokens a step, bf16",
            "fleet twins, 4 chips",
            "emulated",
            "fastest",
            "reference:",
            "~",
        ):
            assert part in text
        assert max(len(line) for line in text.splitlines()) <= 110

    def test_json(self, files: list[str], capsys: Any) -> None:
        """With --json it writes whole plans, the chosen one first."""
        assert main([*files, "--json"]) == 0
        plans = json.loads(capsys.readouterr().out)["plans"]
        assert plans[0]["prediction"]["step_ms"] <= plans[-1]["prediction"]["step_ms"]

    def test_course(self, files: list[str], capsys: Any) -> None:
        """Text and JSON say what all steps take."""
        assert main(files) == 0
        assert "5 steps: ~" in capsys.readouterr().out
        assert main([*files, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["course"]["steps"] == 5

    @pytest.mark.slow
    def test_explain(self, files: list[str], capsys: Any) -> None:
        """It says what each choice is worth, what binds and how full memory is, on one screen; JSON has it too."""
        assert main([*files, "--explain"]) == 0
        text = capsys.readouterr().out
        for part in ("best otherwise", "ZeRO", "what binds: ", "each alone: ", "memory, fullest stages: ", "~"):
            assert part in text
        assert len(text.splitlines()) <= 50
        assert main([*files, "--explain", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)["explanation"]
        assert {"choices", "eased", "rooms", "binding", "left_out"} == set(told)

    def test_idle(self, files: list[str], capsys: Any) -> None:
        """Chips that the chosen plan leaves idle are named with the reason, and options are numbered."""
        assert main([*files, "--set", "chips.allow=[h800-sxm]"]) == 0
        text = capsys.readouterr().out
        assert "idle: 2 chips of south/ascend-910b3: not in chips.allow." in text
        assert "\n1  fastest: " in text

    def test_deadline_at_the_end_of_time(self, files: list[str], capsys: Any, monkeypatch: Any) -> None:
        """The last day of the calendar is a deadline like any other."""
        assert main([*files, "--set", "objective={deadline: 9999-12-31}"]) in (0, 2)
        told = capsys.readouterr()
        assert "bug" not in told.err

    def test_a_sites_power_is_told(self, files: list[str], capsys: Any, tmp_path: Path) -> None:
        """Plans are not held to a site's power, so it is said when they pass it."""
        fleet = tmp_path / "fleet.yaml"
        fleet.write_text(fleet.read_text().replace("north: {}", "north: {power_mw: 0.001}"))
        assert main(files) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "power: north draws 0.0014 MW for the chips in use alone, its power_mw is 0.001; " in text

    @pytest.mark.slow
    @pytest.mark.parametrize("option", ["--explain", "--pareto"])
    def test_for_a_framework(self, option: str, files: list[str], capsys: Any) -> None:
        """Choices and fronts are told for another framework's plans too."""
        assert main([*files, "--set", "chips.allow=[h800-sxm]", "--for", "megatron", option]) == 0
        assert "timed for megatron-core" in capsys.readouterr().out

    def test_a_huge_batch(self, files: list[str], capsys: Any) -> None:
        """A batch of a billion is planned at once; its step is not drawn, and that is said."""
        huge = [*files, "--set", "train.global_batch_size=1000000000"]
        assert main(huge) == 0
        assert "1,000,000,000 x 64" in capsys.readouterr().out
        assert main([*huge, "--trace", "t.json"]) == 2
        assert "more than a timeline lists" in capsys.readouterr().err

    def test_set(self, files: list[str], capsys: Any) -> None:
        """A setting replaces a value of the file."""
        assert main([*files, "--set", "train.global_batch_size=24"]) == 0
        assert "24 x 64 tokens" in capsys.readouterr().out

    def test_pictures(self, files: list[str], tmp_path: Path) -> None:
        """Trace and timeline are written where asked."""
        trace, picture = tmp_path / "t.json", tmp_path / "t.svg"
        assert main([*files, "--trace", str(trace), "--timeline", str(picture)]) == 0
        assert json.loads(trace.read_text())["traceEvents"]
        assert picture.read_text().startswith("<svg")

    @pytest.mark.parametrize(
        ("arguments", "code", "text"),
        [
            (["--set", "chips.min=64"], 3, "chips.min asks for 64 chips; the fleet has 4"),
            (["--set", "model=tinny"], 2, "tinny"),
            (["--trace", "/dev/null/t.json"], 2, "--trace: /dev/null is no folder; name a file"),
            (["--timeline", "t.png"], 2, "--timeline t.png: write a name that ends in .svg or .html"),
            (["--set", "chips.allow=[]"], 2, "chips.allow: got []; name at least one chip"),
            (["--for", "megatron", "--runnable"], 2, "--runnable for Argosy's own trainer; give one of them"),
            (["--runnable", "--set", "model=mixtral-8x7b"], 2, "model: mixtral-8x7b: the trainer can't run a mixture"),
            (["--runnable", "--pareto", "--set", "model=gpt2"], 2, "the trainer can't run the family gpt2; it runs"),
            (["--set", "objective=cheapest", "--set", "time_limit=4 moons"], 2, "time_limit"),
        ],
    )
    def test_errors(self, files: list[str], capsys: Any, arguments: list[str], code: int, text: str) -> None:
        """What is wrong is said on standard error, with the exit code of its kind."""
        assert main([*files, *arguments]) == code
        assert text in capsys.readouterr().err

    def test_no_file(self, files: list[str], capsys: Any) -> None:
        """A job file that is not there is named."""
        assert main(["plan", "nothing.yaml", *files[2:]]) == 2
        assert "nothing.yaml" in capsys.readouterr().err

    @pytest.mark.slow
    def test_power_cap(self, files: list[str], capsys: Any) -> None:
        """Under a power cap no option draws more; where nothing is that frugal, it is said what would do."""
        assert main([*files, "--set", "objective={power: 1.5kW}"]) == 0
        assert "power: the chips in use draw 1.4 of 1.5 kW" in capsys.readouterr().out
        assert main([*files, "--set", "objective={power: 1.5kW}", "--json"]) == 0
        plans = json.loads(capsys.readouterr().out)["plans"]
        assert all(plan["prediction"]["power_kw"] <= 1.5 for plan in plans)
        assert main([*files, "--set", "objective={power: 100W}"]) == 3
        assert "stays within objective.power of 0.1 kW. Smallest fleet that fits: " in capsys.readouterr().err
