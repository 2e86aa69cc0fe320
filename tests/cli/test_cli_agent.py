"""`argosy agent`: what it finds out of the host, and how it refuses to begin."""

import pytest

from argosy.cli.agent import default_state, find_facts, read_chips
from argosy.cli.main import main
from argosy.contracts.errors import BadInputError
from argosy.contracts.talk import ChipsFound
from argosy.fleet.catalogue import load_catalogue


class TestChips:
    def test_chips_are_named(self):
        """`NxCHIP` stands for detection."""
        assert read_chips(["8xh800-sxm", "1xcpu"], load_catalogue(None)) == (
            ChipsFound(chip="h800-sxm", count=8),
            ChipsFound(chip="cpu", count=1),
        )

    @pytest.mark.parametrize("text", ["h800-sxm", "0xcpu", "xcpu", "8x", "-1xcpu"])
    def test_other_texts_are_refused(self, text):
        """What is no number and chip is refused with an example."""
        with pytest.raises(BadInputError, match="write a number and a chip, such as 8xh800-sxm"):
            read_chips([text], load_catalogue(None))

    def test_unknown_chips_are_told(self):
        """A chip that the catalogue doesn't know is refused with the nearest names."""
        with pytest.raises(BadInputError, match='no chip "h800"'):
            read_chips(["8xh800"], load_catalogue(None))

    def test_this_machine_is_detected(self):
        """Without --chips the host is looked over."""
        facts = find_facts([], "north", load_catalogue(None))
        assert facts.site == "north"
        assert all(found.count > 0 for found in facts.chips)
        assert facts.chips


class TestBeginning:
    def test_without_token_and_key(self, tmp_path, capsys, monkeypatch):
        """An agent that never joined needs a token."""
        monkeypatch.delenv("ARGOSY_JOIN_TOKEN", raising=False)
        arguments = ["agent", "--join", "http://127.0.0.1:1", "--state", str(tmp_path / "s"), "--chips", "1xcpu"]
        assert main(arguments) == 2
        assert "has no key of http://127.0.0.1:1 yet; join it with --token TOKEN" in capsys.readouterr().err

    def test_a_wrong_url(self, tmp_path, capsys):
        """A server is named by a URL."""
        assert main(["agent", "--join", "somewhere", "--state", str(tmp_path), "--chips", "1xcpu"]) == 2
        assert "write http://HOST:PORT" in capsys.readouterr().err

    def test_the_default_folder(self, monkeypatch):
        """The agent's folder follows $XDG_STATE_HOME."""
        monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
        assert str(default_state()) == "/somewhere/argosy/agent"
