"""Finding a configuration by name, file or folder."""

from pathlib import Path

import pytest

from argosy.contracts.errors import BadInputError
from argosy.model.named import CONFIG_BYTES_MAXIMUM, config_text, named_configs


def problem(name: str) -> str:
    """Ask for what can't be found and give the error's text."""
    with pytest.raises(BadInputError) as caught:
        config_text(name)
    return str(caught.value)


class TestConfigText:
    def test_names_are_sorted_and_there(self) -> None:
        """The names that documents and examples use ship."""
        names = named_configs()
        assert list(names) == sorted(names)
        assert {"llama-3-8b", "deepseek-v3", "gpt2", "demo", "tiny"} <= set(names)

    def test_named_configuration_gives_text_and_source(self) -> None:
        """A name is its own source, so errors can say it."""
        text, source = config_text("tiny")
        assert '"hidden_size": 64' in text
        assert source == "tiny.json"

    def test_file_and_folder(self, tmp_path: Path) -> None:
        """A path of a config.json and its folder give the same."""
        path = tmp_path / "config.json"
        path.write_text("{}")
        assert config_text(str(path)) == config_text(str(tmp_path)) == ("{}", str(path))

    def test_unknown_name_offers_the_nearest(self) -> None:
        """A misspelt name answers with near ones and the command that lists all."""
        text = problem("Llama3-8b")
        assert "model 'Llama3-8b': neither a file, a folder nor a named configuration; nearest: llama-3-8b" in text
        assert "`argosy model list`" in text

    def test_folder_without_configuration(self, tmp_path: Path) -> None:
        """A folder without config.json is named as such."""
        assert "holds no config.json" in problem(str(tmp_path))

    def test_not_text(self, tmp_path: Path) -> None:
        """Bytes that are not UTF-8 say at which byte."""
        (tmp_path / "config.json").write_bytes(b"{\xff")
        assert "byte 1 is not UTF-8" in problem(str(tmp_path))

    def test_weights_given_for_a_configuration(self, tmp_path: Path) -> None:
        """A file far too large for a configuration is not read into memory."""
        path = tmp_path / "model.safetensors"
        with path.open("wb") as stream:
            stream.truncate(CONFIG_BYTES_MAXIMUM + 1)
        assert "not its weights" in problem(str(path))

    @pytest.mark.parametrize("name", ["", "a\0b", "x" * 5000, "no/such/config.json"])
    def test_impossible_paths(self, name: str) -> None:
        """A name that no file can have is refused like any other."""
        assert problem(name)
