"""`argosy plan --export`: from a job to another framework's file."""

import re
from pathlib import Path
from typing import Any

import pytest

from argosy.cli.exporting import read_wishes
from argosy.cli.main import main
from argosy.contracts.errors import BadInputError
from support.exports import flagscale_split, megatron_split, read_megatron
from support.plan_files import JOB, write_files


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Write a job for one kind of chip, and a fleet of two; answers the arguments that name them."""
    return write_files(tmp_path, JOB + "chips: {allow: [h800-sxm]}\n")


class TestOutput:
    def test_alone_on_standard_output(self, files: list[str], capsys: Any) -> None:
        """Without a file the export is all that is printed, so that it can be piped."""
        assert main([*files, "--export", "megatron"]) == 0
        text = capsys.readouterr().out
        assert text.startswith("# tiny on 2 ranks")
        assert text.endswith(")\n")
        assert sum(end - first for first, end in megatron_split(text).layers) == int(read_megatron(text)["num-layers"])

    def test_files(self, files: list[str], tmp_path: Path, capsys: Any) -> None:
        """With files, several may be written, and the plans are printed as ever."""
        bash, table = tmp_path / "plan.sh", tmp_path / "train.yaml"
        assert (
            main([*files, "--for", "flagscale", "--export", f"megatron={bash}", "--export", f"flagscale={table}"]) == 0
        )
        assert "reference:" in capsys.readouterr().out
        assert megatron_split(bash.read_text()) == flagscale_split(table.read_text())

    def test_beside_json(self, files: list[str], tmp_path: Path, capsys: Any) -> None:
        """JSON may be printed beside a file, but not beside an export on standard output."""
        assert main([*files, "--json", "--export", f"megatron={tmp_path / 'plan.sh'}"]) == 0
        assert capsys.readouterr().out.startswith("{")
        assert main([*files, "--json", "--export", "megatron"]) == 2
        assert "--export megatron would mix with other output" in capsys.readouterr().err


class TestRefusals:
    def test_reason_and_way_out(self, files: list[str], capsys: Any) -> None:
        """What a framework can't express is refused with the reason and the numbers of the plans that it can."""
        both = ["--set", "chips.allow=[h800-sxm, ascend-910b3]"]
        assert main([*files, *both, "--export", "megatron"]) == 2
        told = capsys.readouterr().err
        assert "Megatron-LM can't express this plan: " in told
        able = re.search(r"It can express --plan (\d)", told)
        assert able
        assert main([*files, *both, "--export", "megatron", "--plan", able[1]]) == 0

    def test_planned_for_it(self, files: list[str], capsys: Any) -> None:
        """`--for` plans what a framework can run on the same chips, and says so above the list."""
        both = ["--set", "chips.allow=[h800-sxm, ascend-910b3]", "--for", "megatron"]
        assert main([*files, *both, "--export", "megatron"]) == 0
        assert megatron_split(capsys.readouterr().out).layers
        assert main([*files, *both]) == 0
        assert capsys.readouterr().out.startswith("only plans that megatron runs:\n")

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["--for", "megaton"], "did you mean megatron?"),
            (["--for", "megatron", "--runnable"], "--for plans for another framework"),
            (["--export", "megatron", "--pareto"], "--pareto and --plot are about many plans"),
        ],
    )
    def test_what_does_not_go_together(self, files: list[str], capsys: Any, arguments: list[str], reason: str) -> None:
        """Options that contradict one another are refused, and so are unknown frameworks."""
        assert main([*files, *arguments]) == 2
        assert reason in capsys.readouterr().err

    def test_none(self, files: list[str], capsys: Any) -> None:
        """Where no plan can be expressed, that is said too."""
        assert main([*files, "--export", "torchtitan"]) == 2
        told = capsys.readouterr().err
        assert "torchtitan 0.3.0 has no model of the sizes of tiny" in told
        assert "It can express none of the plans listed" in told

    def test_no_such_plan(self, files: list[str], capsys: Any) -> None:
        """A number beyond the list is refused."""
        assert main([*files, "--export", "megatron", "--plan", "9"]) == 2
        assert "--plan 9: there are plans 1 to" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("texts", "reason"),
        [
            (["megatorn"], "did you mean megatron"),
            (["megatron="], "names no file; write megatron=FILE"),
            (["megatron", "flagscale"], "--export flagscale would mix with other output"),
        ],
    )
    def test_wishes(self, texts: list[str], reason: str) -> None:
        """What can't be meant is refused before anything is planned."""
        with pytest.raises(BadInputError, match=reason):
            read_wishes(texts, alone=True)


class TestAdvice:
    def test_is_not_circular(self, files: list[str], capsys: Any) -> None:
        """Who plans for a framework already is not told to plan for it."""
        assert main([*files, "--export", "torchtitan"]) == 2
        assert "`--for torchtitan` plans only what it can" in capsys.readouterr().err
        assert main([*files, "--for", "torchtitan", "--export", "torchtitan"]) == 2
        told = capsys.readouterr().err
        assert "none of the plans listed" in told
        assert "--for torchtitan" not in told

    def test_files_are_checked_first(self, files: list[str], tmp_path: Path, capsys: Any) -> None:
        """A folder where an export should be is refused before anything is planned."""
        assert main([*files, "--export", f"megatron={tmp_path}"]) == 2
        assert "--export megatron: " in capsys.readouterr().err
