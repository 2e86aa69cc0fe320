"""Reads our own source once, for the tests that keep the house rules."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file: its dotted name, where it lies, and its syntax tree."""

    name: str
    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """The second part of the dotted name: `plan` for `argosy.plan.planner`; empty for the package itself."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    @property
    def lines(self) -> int:
        """How many lines the file has."""
        return self.text.count("\n") + 1

    def at(self, node: ast.AST, text: str) -> str:
        """Write a finding: file:line, then what is wrong and what to do."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}  {text}"

    def functions(self) -> Iterator[Function]:
        """Every function and method, nested ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def imports(self) -> Iterator[ast.Import | ast.ImportFrom]:
        """Every import statement, wherever it stands."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom))

    def imported(self) -> Iterator[tuple[ast.stmt, str]]:
        """Every (statement, dotted module) that is imported; `from a import b` counts as `a.b`."""
        for node in self.imports():
            if isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names)
            elif node.module:
                yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


@pytest.fixture(scope="session")
def sources(repository: Path) -> tuple[Source, ...]:
    """Every module of the package."""
    root = repository / "src"
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Source(name=name, path=str(path.relative_to(repository)), text=path.read_text()))
    return tuple(found)


@pytest.fixture(scope="session")
def test_sources(repository: Path) -> tuple[Source, ...]:
    """Every file of the tests."""
    paths = sorted((repository / "tests").rglob("*.py"))
    return tuple(
        Source(name=path.stem, path=str(path.relative_to(repository)), text=path.read_text()) for path in paths
    )


@pytest.fixture(scope="session")
def source() -> Callable[..., Source]:
    """Build one source from its text, to prove that a rule catches what it should."""

    def build(text: str, name: str = "argosy.plan.sample") -> Source:
        return Source(name=name, path="sample.py", text=text)

    return build
