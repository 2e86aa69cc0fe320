"""How large modules and functions may be, and what every one of them carries: docstrings, annotations, no leftovers."""

import ast
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

MODULE_LINES_MAX, MODULE_LINES_P90 = 800, 500
FUNCTION_LINES_MAX, FUNCTION_LINES_P90 = 70, 40
IMPORT_STATEMENTS_P90 = 18
FOLDER_LEVELS_MAX = 3
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def p90(values: Sequence[int]) -> int:
    """Give the value that nine of ten don't exceed."""
    return sorted(values)[max(0, math.ceil(0.9 * len(values)) - 1)] if values else 0


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without decorators."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def size_problems(source) -> Iterator[str]:
    """Find modules, functions and folders over their limits."""
    if source.lines > MODULE_LINES_MAX:
        yield f"{source.path}:1  has {source.lines} lines, at most {MODULE_LINES_MAX}; split it by what it knows"
    if len(source.path.split("/")) - 3 > FOLDER_LEVELS_MAX and source.path.startswith("src/"):
        yield f"{source.path}:1  lies deeper than {FOLDER_LEVELS_MAX} folders under the package; move it up"
    for node in source.functions():
        if function_lines(node) > FUNCTION_LINES_MAX:
            text = (
                f"{node.name} has {function_lines(node)} lines, at most {FUNCTION_LINES_MAX}; split it into named steps"
            )
            yield source.at(node, text)


def docstring_problems(source) -> Iterator[str]:
    """Find modules and public names without a docstring whose first line is a sentence."""
    for node, name in _public(source.tree, source.name):
        text = ast.get_docstring(node)
        first = text.splitlines()[0] if text else ""
        if not text:
            yield source.at(node, f"{name} has no docstring; say in one sentence what it does")
        elif not first.endswith(".") or first[0].islower():
            yield source.at(node, f"{name}: the docstring's first line must be one sentence ending with a period")


def _public(node: ast.AST, name: str) -> Iterator[tuple[ast.AST, str]]:
    """Walk a module or class and every public name in it; what is nested in functions is nobody's business."""
    yield node, name
    for child in getattr(node, "body", []):
        if isinstance(child, (*FUNCTION, ast.ClassDef)) and not child.name.startswith("_"):
            decorators = " ".join(ast.unparse(decorator) for decorator in child.decorator_list)
            if isinstance(child, ast.ClassDef):
                yield from _public(child, child.name)
            elif not re.search(r"overload|\.setter|override", decorators):
                yield child, child.name


def annotation_problems(source) -> Iterator[str]:
    """Find arguments and results without a type."""
    for node in source.functions():
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        bare = [item.arg for item in arguments if item and not item.annotation and item.arg not in ("self", "cls")]
        if node.returns is None:
            bare.append("return")
        if bare:
            yield source.at(node, f"{node.name} lacks types for {', '.join(bare)}; annotate them")


def leftover_problems(source) -> Iterator[str]:
    """Find asserts, and notes to self without an issue number."""
    for node in source.nodes:
        if isinstance(node, ast.Assert):
            yield source.at(node, "assert vanishes under -O; raise a class of contracts/errors.py with a clear text")
    for number, line in enumerate(source.text.splitlines(), start=1):
        if re.search(r"#.*\b(TODO|FIXME|XXX)\b", line) and not re.search(r"#\d+", line):
            yield f"{source.path}:{number}  a TODO needs its issue number, such as TODO(#12)"


def workplace_problems(path: str, text: str) -> Iterator[str]:
    """Find paths of a particular machine's workplace in anything we ship."""
    for number, line in enumerate(text.splitlines(), start=1):
        if re.search(r"(?<![\w.])/(work|root|tmp/brief)/[\w.]", line):
            yield f"{path}:{number}  names a path of one machine; use a relative path or a setting"


class TestSize:
    def test_nothing_is_too_large(self, findings):
        """No module over 800 lines, no function over 70, no folder deeper than three levels."""
        assert findings(size_problems) == ""

    def test_most_are_small(self, sources):
        """Nine of ten modules have at most 500 lines, functions 40, import statements 18."""
        functions = [function_lines(node) for source in sources for node in source.functions()]
        assert p90([source.lines for source in sources]) <= MODULE_LINES_P90
        assert p90(functions) <= FUNCTION_LINES_P90
        assert p90([len(list(source.imports())) for source in sources]) <= IMPORT_STATEMENTS_P90

    def test_a_long_function_is_caught(self, source):
        """A function of 71 lines is named with its line."""
        text = "x = 1\ndef long() -> None:\n" + "    pass\n" * 70
        assert next(size_problems(source(text))).startswith("sample.py:2  long has 71 lines, at most 70")

    def test_a_long_module_is_caught(self, source):
        """A module of 801 lines is named."""
        assert "has 801 lines" in next(size_problems(source("\n" * 800)))

    def test_p90_is_the_ninth_of_ten(self):
        """Of ten values one may lie above."""
        assert p90([1] * 9 + [100]) == 1


class TestDocstrings:
    def test_every_public_name_is_explained(self, findings):
        """Every module and public name opens with a sentence."""
        assert findings(docstring_problems) == ""

    def test_missing_and_broken_ones_are_caught(self, source):
        """No docstring, no period and a lower-case start are found; private names and overrides are left alone."""
        text = '"""Right."""\ndef a(): pass\ndef b():\n    """No period"""\nclass C:\n    """lower."""\n'
        text += "    def d(self): pass\n    def _e(self): pass\n    def __init__(self): pass\n"
        found = list(docstring_problems(source(text)))
        assert [problem.split("  ")[1].split(" ")[0].strip(":") for problem in found] == ["a", "b", "C", "d"]


class TestAnnotations:
    def test_everything_has_a_type(self, findings):
        """Every argument and result of every function is annotated."""
        assert findings(annotation_problems) == ""

    def test_bare_arguments_are_caught(self, source):
        """Untyped arguments of every sort and a missing result are named."""
        found = next(annotation_problems(source("def f(self, a, b: int, *c, d=1, **e): pass")))
        assert "lacks types for a, d, c, e, return" in found


class TestLeftovers:
    def test_no_assert_and_no_nameless_todo(self, findings):
        """The source asserts nothing and leaves no note without an issue."""
        assert findings(leftover_problems) == ""

    def test_both_are_caught(self, source):
        """An assert and a bare TODO are found, a numbered one passes."""
        text = "assert x\n# TODO later\n# TODO(#12) later\n"
        assert [problem.split("  ")[0] for problem in leftover_problems(source(text))] == ["sample.py:1", "sample.py:2"]

    def test_no_path_of_a_workplace(self, repository: Path):
        """Nothing that is shipped names a folder of one machine."""
        found = []
        for folder in (
            "src",
            "tests",
            "docs",
            "examples",
            "benchmarks",
            "script",
            ".ci",
            "README.md",
            "CONTRIBUTING.md",
        ):
            top = repository / folder
            for path in [top] if top.is_file() else sorted(top.rglob("*")):
                if path.is_file() and path.suffix in (".py", ".md", ".toml", ".yaml", ".json", ".html", ""):
                    found += workplace_problems(str(path.relative_to(repository)), path.read_text(errors="replace"))
        assert "\n".join(found) == ""

    def test_a_workplace_path_is_caught(self):
        """An absolute path below a workplace's root is found."""
        assert len(list(workplace_problems("x.md", "see /" + "work/main or /" + "root/x\n/workers/8"))) == 1


class TestTests:
    def test_every_test_says_what_it_keeps(self, test_sources):
        """Every test function has a docstring that is a sentence."""
        found = []
        for source in test_sources:
            for node in source.functions():
                if node.name.startswith("test_") and not _is_fixture(node):
                    first = (ast.get_docstring(node) or "").split("\n")[0]
                    if not first.rstrip().endswith("."):
                        found.append(source.at(node, f"{node.name} needs a docstring: one sentence on the behaviour"))
        assert "\n".join(found) == ""

    def test_file_names_are_unique(self, test_sources):
        """No two test files share a name, so a failure names its file."""
        names = [source.name for source in test_sources if source.name != "conftest"]
        assert sorted({name for name in names if names.count(name) > 1}) == []

    def test_no_test_waits_for_the_clock(self, test_sources):
        """Tests wait for events, never for the clock."""
        assert "\n".join(problem for source in test_sources for problem in waiting_problems(source)) == ""

    @pytest.mark.parametrize(
        "line",
        [
            "import time\ntime.sleep(1)",
            "import time as t\nt.sleep(1)",
            "from time import sleep as pause\npause(1)",
            "import asyncio\nasync def f():\n    await asyncio.sleep(1)",
            "import time\nwhile time.monotonic() < end:\n    pass",
            "from time import perf_counter as now\nwhile not done and now() < end:\n    pass",
        ],
    )
    def test_waiting_for_the_clock_is_caught(self, source, line):
        """Sleeping and looping until a time are found under any alias."""
        assert len(list(waiting_problems(source(line)))) == 1


def waiting_problems(source) -> Iterator[str]:
    """Find sleeps, and loops that run until a time: both pass or fail by how busy the machine is."""
    for call in source.calls():
        if source.dotted(call.func) in ("time.sleep", "asyncio.sleep"):
            yield source.at(call, "a test must not sleep; wait for the event or pass the time in")
    for loop in source.nodes:
        if isinstance(loop, ast.While):
            names = {source.dotted(node) for node in ast.walk(loop.test)}
            if names & {"time.time", "time.monotonic", "time.perf_counter"}:
                yield source.at(loop, "a test must not loop until a time; wait for the event")


def _is_fixture(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("fixture" in ast.unparse(decorator) for decorator in node.decorator_list)
