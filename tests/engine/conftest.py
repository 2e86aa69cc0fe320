"""What tests of the engine share: processes they start can import `support.fake_ranks`."""

import pytest

from support.launches import TESTS


@pytest.fixture(autouse=True)
def importable_fake_ranks(monkeypatch):
    """Put the tests' folder on the path of every process started."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
