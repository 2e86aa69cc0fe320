"""What all tests share: where reference data lies, and a hypothesis profile that repeats itself."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50, database=None)
settings.load_profile("repeatable")

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    """Give the root folder of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Give the folder of reference data; the test skips where it is absent."""
    folder = Path(os.environ.get("ARGOSY_REFERENCE_DATA", str(REPOSITORY.parent / "shared" / "data")))
    if not folder.is_dir():
        pytest.skip(f"no reference data at {folder}; set ARGOSY_REFERENCE_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def benchmark() -> Callable[[str], ModuleType]:
    """Import a script of the benchmarks folder by name."""
    return importlib.import_module
