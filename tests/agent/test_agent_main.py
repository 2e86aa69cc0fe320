"""The agent's command line."""

import subprocess
import sys

import pytest

from argosy.agent.__main__ import main


class TestMain:
    def test_no_engine(self, tmp_path, capsys):
        """An engine that isn't there is one line and the code for infrastructure."""
        code = main(["--node", "n-1", "--connect", f"unix:{tmp_path}/no", "--forkserver", str(tmp_path / "fork")])
        assert code == 5
        assert "nobody answers at unix:" in capsys.readouterr().err

    def test_a_bad_address(self, tmp_path, capsys):
        """An address that can't be read is bad input."""
        code = main(["--node", "n-1", "--connect", "nowhere", "--forkserver", str(tmp_path / "fork")])
        assert code == 2
        assert "expected unix:PATH or HOST:PORT" in capsys.readouterr().err

    @pytest.mark.slow
    def test_no_heavy_library_is_loaded(self):
        """An agent and an engine load no torch and no numpy."""
        program = "import argosy.agent.__main__, argosy.engine.local, sys; print(*sys.modules)"
        loaded = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.split()
        assert not {"torch", "numpy", "scipy", "pyarrow", "pydantic"} & set(loaded)
