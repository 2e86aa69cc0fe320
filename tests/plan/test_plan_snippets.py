"""The Python that docs/plan.md, docs/options.md and docs/exports.md show runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(page: str) -> list[str]:
    """Give the blocks of Python of a page that work with Argosy itself."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return [block for block in BLOCK.findall(text) if "argosy.plan" in block]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["plan.md", "options.md", "exports.md"])
def test_runs(page: str) -> None:
    """Each block runs from the project's folder without anything that it does not import or make itself."""
    blocks = snippets(page)
    assert blocks
    for block in blocks:
        done = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        assert done.returncode == 0
