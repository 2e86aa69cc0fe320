"""`argosy chips` and `argosy fleet`, as a person calls them."""

import json
from pathlib import Path

import pytest
import typer
from msgspec import convert
from typer.testing import CliRunner

from argosy.cli import chips as chips_cli
from argosy.cli import fleet as fleet_cli
from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Chip, Fleet
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.detect import Survey
from argosy.fleet.fleet_file import read_fleet

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/fleets/twin-campus.yaml"
CATALOGUE = load_catalogue()
APP = typer.Typer()
APP.command("chips")(chips_cli.command)
APP.add_typer(fleet_cli.app, name="fleet")


def said(*words: str) -> str:
    """Run a command that succeeds and return what it printed."""
    result = CliRunner().invoke(APP, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


class TestChips:
    def test_lists_all_within_100_columns(self) -> None:
        """Every chip is one line, and no line is wider than 100 columns."""
        lines = said("chips").splitlines()
        assert [line.split()[0] for line in lines[2:]] == list(CATALOGUE.names())
        assert max(len(line) for line in lines) <= 100

    def test_one_chip_with_sources(self) -> None:
        """One chip shows every figure and where each was read."""
        text = said("chips", "h800-sxm")
        assert "989.4" in text
        assert "NVIDIA H800 GPU data sheet" in text

    def test_by_maker(self) -> None:
        """--vendor filters whatever the case, or by part of the name."""
        assert all(chip["vendor"] == "AMD" for chip in json.loads(said("chips", "--vendor", "amd", "--json")))
        assert "mthreads-s4000" in said("chips", "--vendor", "moore")

    def test_json_is_the_contract(self) -> None:
        """--json prints the chips as the contract has them."""
        assert convert(json.loads(said("chips", "h20", "--json")), Chip) == CATALOGUE.chip("h20")

    def test_own_catalogue(self, tmp_path: Path) -> None:
        """--catalogue's figures are shown."""
        path = tmp_path / "mine.toml"
        path.write_text("[chips.h20.from.us]\nprice_per_hour = 1.25\n", encoding="utf-8")
        assert "1.25" in said("chips", "h20", "--catalogue", str(path))

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("chips", "h21"), 'no chip "h21"'),
            (("chips", "--vendor", "nvdia"), "did you mean nvidia?"),
            (("chips", "h20", "--vendor", "amd"), "are for the list"),
            (("chips", "--json", "--markdown"), "choose one"),
        ],
    )
    def test_mistakes(self, words: tuple[str, ...], message: str) -> None:
        """What makes no sense is a clear error."""
        with pytest.raises(BadInputError, match=message.replace("?", r"\?")):
            CliRunner().invoke(APP, list(words), catch_exceptions=False)

    def test_docs_are_current(self) -> None:
        """docs/chips.md holds the table that `argosy chips --markdown` writes."""
        table = said("chips", "--markdown")
        page = (ROOT / "docs/chips.md").read_text(encoding="utf-8")
        assert table in page, "run `argosy chips --markdown` and put its table into docs/chips.md"


class TestFleetCheck:
    def test_sound(self) -> None:
        """A sound file is called sound, with its size."""
        assert "sound. twin-campus: 1,280 chips in 160 nodes, 2 sites" in said("fleet", "check", str(EXAMPLE))

    def test_warns(self, tmp_path: Path) -> None:
        """What is possible but odd is a warning, not an error."""
        path = tmp_path / "fleet.yaml"
        path.write_text(EXAMPLE.read_text(encoding="utf-8").replace("power_mw: 12", "power_mw: 0.1"), encoding="utf-8")
        assert "warning: north: its chips alone draw" in said("fleet", "check", str(path))

    def test_json(self) -> None:
        """--json gives the fleet as the contract has it."""
        answer = json.loads(said("fleet", "check", str(EXAMPLE), "--json"))
        assert convert(answer["fleet"], Fleet).chips == 1280


class TestFleetShow:
    def test_classes_sites_and_links(self) -> None:
        """The three tables name classes, sites and links with their figures, within 100 columns."""
        text = said("fleet", "show", str(EXAMPLE))
        for words in ("south/ascend-910b3", "506.6", "north - south", "0.25"):
            assert words in text
        assert max(len(line) for line in text.splitlines()) <= 100

    def test_emulated_is_said(self, tmp_path: Path) -> None:
        """Whatever shows an emulated figure says so."""
        path = tmp_path / "fleet.yaml"
        text = EXAMPLE.read_text(encoding="utf-8").replace("nics: 8x400G", "emulate: {tflops: 2.0, memory_gb: 1}")
        path.write_text(text, encoding="utf-8")
        assert "north/h800-sxm (emulated)" in said("fleet", "show", str(path))

    def test_json(self) -> None:
        """--json gives the same figures."""
        answer = json.loads(said("fleet", "show", str(EXAMPLE), "--json"))
        assert [site["chips"] for site in answer["sites"]] == [512, 768]


class TestFleetDetect:
    def test_what_it_writes_is_sound(self) -> None:
        """The file that detect prints is one that check accepts."""
        assert read_fleet(said("fleet", "detect"), "detected.yaml", CATALOGUE).chips >= 1

    def test_json(self) -> None:
        """--json gives the survey with its notes."""
        assert convert(json.loads(said("fleet", "detect", "--json")), Survey).fleet.nodes
