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

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree, walked once for all rules."""
        return tuple(ast.walk(self.tree))

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
        return (node for node in self.nodes if isinstance(node, Function))

    def imports(self) -> Iterator[ast.Import | ast.ImportFrom]:
        """Every import statement, wherever it stands."""
        return (node for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom))

    def imported(self) -> Iterator[tuple[ast.stmt, str]]:
        """Every (statement, dotted module) that is imported; `from a import b` counts as `a.b`, relative or not."""
        for node in self.imports():
            if isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names)
            else:
                module = self.imported_from(node)
                yield from ((node, f"{module}.{alias.name}") for alias in node.names)

    def imported_from(self, node: ast.ImportFrom) -> str:
        """Name the module after `from`, told from the top; one dot is the package that the file lies in."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        up = node.level - self.path.endswith("__init__.py")
        return ".".join([*parts[: max(0, len(parts) - up)], *([node.module] if node.module else [])])

    @cached_property
    def bindings(self) -> dict[str, str]:
        """What each imported name stands for: `from datetime import date as d` gives `{"d": "datetime.date"}`."""
        found = {}
        for node in self.imports():
            for alias in node.names:
                if isinstance(node, ast.ImportFrom):
                    found[alias.asname or alias.name] = f"{self.imported_from(node)}.{alias.name}"
                else:
                    root = alias.name.split(".")[0]
                    found[alias.asname or root] = alias.name if alias.asname else root
        return found

    def dotted(self, node: ast.AST) -> str:
        """Tell a name or attribute chain from what was imported, so that no alias hides it; empty for all else."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        return ".".join([self.bindings.get(node.id, node.id), *reversed(parts)]) if isinstance(node, ast.Name) else ""

    @cached_property
    def chains(self) -> tuple[tuple[ast.expr, str], ...]:
        """Every (node, dotted name) in the file, the longest chains only."""
        inner = {id(node.value) for node in self.nodes if isinstance(node, ast.Attribute)}
        ends = [node for node in self.nodes if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner]
        return tuple((node, name) for node in ends if (name := self.dotted(node)))

    def calls(self) -> Iterator[ast.Call]:
        """Every call."""
        return (node for node in self.nodes if isinstance(node, ast.Call))


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

    def build(text: str, name: str = "argosy.plan.sample", path: str = "sample.py") -> Source:
        return Source(name=name, path=path, text=text)

    return build


@pytest.fixture(scope="session")
def findings(sources: tuple[Source, ...]) -> Callable[[Callable[[Source], Iterator[str]]], str]:
    """Give all that a rule finds in the package, a line each."""

    def find(rule: Callable[[Source], Iterator[str]]) -> str:
        return "\n".join(problem for source in sources for problem in rule(source))

    return find
