"""The examples in docstrings of what is put into words are what the functions give."""

import doctest
from types import ModuleType

import pytest

from argosy.cli import explaining, idling, summary, tables, words
from argosy.plan.telling import course, explain, pareto


@pytest.mark.parametrize(
    "module", [tables, words, idling, explaining, summary, course, explain, pareto], ids=lambda module: module.__name__
)
def test_examples(module: ModuleType) -> None:
    """Each example gives what stands below it."""
    assert doctest.testmod(module).failed == 0
