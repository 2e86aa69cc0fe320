"""`argosy model`: what it prints and how it refuses."""

import json

import pytest
from typer.testing import CliRunner

from argosy.cli.model import app
from argosy.contracts.errors import BadInputError
from argosy.model.named import named_configs


def output(*arguments: str) -> str:
    """Run the command and give what it printed."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


class TestShow:
    def test_screen_has_counts_flops_and_bytes(self) -> None:
        """One screen of at most 30 lines and 100 columns holds the exact count, FLOPs and sizes."""
        lines = output("show", "llama-3-8b").splitlines()
        assert len(lines) <= 30
        assert max(len(line) for line in lines[1:]) <= 100
        text = "\n".join(lines)
        for part in ("8,030,261,248", "51.47 GFLOPs", "192.73 GB", "AdamW", "the trainer runs it"):
            assert part in text

    def test_json_has_the_same(self) -> None:
        """JSON gives the same figures unrounded."""
        costs = json.loads(output("show", "gpt2", "--sequence-length", "512", "--json"))
        assert (costs["parameters"], costs["sequence_length"]) == (124_439_808, 512)
        assert "the family gpt2" in costs["trainer_refusal"]

    def test_default_length_is_the_models_at_most_8192(self) -> None:
        """A model of shorter sequences is shown at its own length."""
        assert json.loads(output("show", "tiny", "--json"))["sequence_length"] == 512
        assert json.loads(output("show", "mistral-7b", "--json"))["sequence_length"] == 8192

    def test_mixture_shows_what_is_active(self) -> None:
        """A mixture of experts says how much of it works on a token."""
        text = output("show", "mixtral-8x7b")
        assert "12,879,925,248" in text
        assert "8 experts of which a token visits 2" in text

    @pytest.mark.parametrize("arguments", [("nope",), ("tiny", "--precision", "bf6")])
    def test_wrong_input_is_an_error_for_a_person(self, arguments: tuple[str, ...]) -> None:
        """Unknown names leave as BadInputError for the command line to print."""
        with pytest.raises(BadInputError):
            output("show", *arguments)

    def test_length_below_one(self) -> None:
        """A sequence length of 0 is refused as a wrong option."""
        result = CliRunner().invoke(app, ["show", "tiny", "--sequence-length", "0"])
        assert result.exit_code == 2


class TestList:
    def test_lists_every_name(self) -> None:
        """All named configurations are listed with their size."""
        text = output("list")
        assert all(name in text for name in named_configs())
        assert len(json.loads(output("list", "--json"))) == len(named_configs())
