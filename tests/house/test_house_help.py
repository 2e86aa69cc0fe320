"""What starting the command line may load."""

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "scipy", "numba", "fastapi", "pyarrow", "tokenizers", "safetensors")
PROGRAM = """
import json, sys
sys.argv = ["argosy", "--help"]
from argosy.cli.main import main
try:
    code = main()
except SystemExit as end:
    code = end.code
print("\\n" + json.dumps([code or 0, sorted(sys.modules)]))
"""


class TestHelp:
    @pytest.mark.slow
    def test_help_loads_nothing_heavy(self):
        """`argosy --help` answers without torch, numpy, scipy or other heavy libraries."""
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        code, modules = json.loads(done.stdout.splitlines()[-1])
        loaded = [name for name in HEAVY if name in modules]
        assert (code, loaded) == (0, []), f"argosy --help loads {', '.join(loaded)}; load that command lazily"
