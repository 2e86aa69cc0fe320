"""Compiled loops: with a cache where one can be written, and without."""

from typing import Any

from argosy.contracts.compiled import compiled


class TestWithoutCache:
    def test_a_function_that_cannot_be_cached_still_runs(self) -> None:
        """Where numba finds no folder for its cache, here since the code has no file, it compiles all the same."""
        found: dict[str, Any] = {}
        exec("def double(x):\n    return 2 * x\n", found)
        assert compiled(found["double"])(21) == 42
