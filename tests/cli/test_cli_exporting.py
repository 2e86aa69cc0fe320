"""`argosy plan --export`: from a job to another framework's file."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.cli.exporting import Chosen, read_wishes, write_plan
from argosy.cli.main import main
from argosy.contracts.errors import BadInputError
from support.exports import flagscale_split, make_plan, make_replica, megatron_split, named_shape, read_megatron
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
        assert capsys.readouterr().out.startswith("only plans that megatron runs; the reference, efficiency and ")

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["--for", "megaton"], "did you mean megatron?"),
            (["--for", "megatron", "--runnable"], "--for plans for another framework"),
            (["--for", ""], "no framework '' to plan for"),
            (["--for", "", "--runnable"], "--for plans for another framework"),
            (["--export", "megatron", "--pareto"], "--pareto and --plot are about many plans"),
            (["--export", "megatron", "--explain"], "--export megatron would mix with other output"),
            (["--plan", "2"], "--plan 2 is about files; name one by --trace, --timeline or --export"),
            (["--plan", "2", "--pareto"], "--plan 2 is about files"),
        ],
    )
    def test_what_does_not_go_together(self, files: list[str], capsys: Any, arguments: list[str], reason: str) -> None:
        """Options that contradict one another are refused, and so are unknown frameworks."""
        assert main([*files, *arguments]) == 2
        assert reason in capsys.readouterr().err

    @pytest.mark.parametrize("option", ["--for", "--export"])
    def test_a_model_it_runs_by_no_plan(self, files: list[str], capsys: Any, option: str) -> None:
        """A model that a framework can't run is refused with the reason, and no other plan is advised."""
        assert main([*files, option, "torchtitan"]) == 2
        told = capsys.readouterr().err
        assert "torchtitan 0.3.0 has no model of the sizes of tiny" in told
        assert "--for" not in told
        assert "none of the plans" not in told

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
    @pytest.mark.parametrize(("framework", "advised"), [(None, True), ("flagscale", False)])
    def test_is_not_circular(self, framework: str | None, advised: bool) -> None:
        """Where no plan of the list will do, the option that plans such as will is named, unless it was given."""
        shape = named_shape("llama-3-8b")
        chosen = Chosen(plans=[make_plan(shape, make_replica([32]), zero_stage=2)], framework=framework)
        inputs: Any = SimpleNamespace(classes=())
        wishes = read_wishes(["flagscale"], alone=True)
        with pytest.raises(BadInputError) as caught:
            write_plan(chosen, inputs=inputs, shape=shape, trace=None, timeline=None, wishes=wishes)
        told = str(caught.value)
        assert "ZeRO 2; it takes ZeRO 0 and 1 with meshes\nIt can express none of the plans listed" in told
        assert ("`--for flagscale` plans only what it can" in told) == advised

    def test_files_are_checked_first(self, files: list[str], tmp_path: Path, capsys: Any) -> None:
        """A folder where an export should be is refused before anything is planned."""
        assert main([*files, "--export", f"megatron={tmp_path}"]) == 2
        assert "--export megatron: " in capsys.readouterr().err
