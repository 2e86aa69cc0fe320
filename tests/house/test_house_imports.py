"""Who may import whom, and what the pure rooms must not touch."""

import ast
import re
from collections.abc import Iterator

# Every room and the rooms it may import; each may import itself. `console`, `cli` and the package's own files see all.
LAW: dict[str, frozenset[str]] = {
    "contracts": frozenset(),
    "fleet": frozenset({"contracts"}),
    "model": frozenset({"contracts"}),
    "network": frozenset({"contracts", "fleet"}),
    "plan": frozenset({"contracts", "fleet", "model", "network"}),
    "health": frozenset({"contracts"}),
    "control": frozenset({"contracts"}),
    "simulate": frozenset({"contracts", "control", "network", "plan"}),
    "comm": frozenset({"contracts", "network"}),
    "train": frozenset({"comm", "contracts", "model"}),
    "agent": frozenset({"contracts", "health"}),
    "engine": frozenset({"agent", "contracts"}),
    "server": frozenset({"contracts", "control", "engine", "health", "plan", "simulate"}),
}
TOP_ROOMS = ("", "cli", "client", "console")
PURE_ROOMS = ("contracts", "fleet", "model", "network", "plan", "health", "control", "simulate")
# Runs the vendors' tools, so it alone of the pure rooms may start processes.
OUTWARD_MODULES = ("argosy.fleet.detect",)
FILE_READING_ROOMS = ("fleet", "model")
BANNED_IN_PURE = frozenset(
    {
        "asyncio",
        "concurrent",
        "logging",
        "multiprocessing",
        "random",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "subprocess",
        "sched",
        "tempfile",
        "threading",
        "time",
        "torch",
        "uuid",
    }
)
BANNED_CALLS = frozenset({"print", "input", "breakpoint", "exec", "eval"})
BANNED_METHODS = {
    "now": ("datetime", "date"),
    "utcnow": ("datetime",),
    "today": ("datetime", "date"),
}
FILE_CALLS = frozenset({"open", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "touch"})
OS_ALLOWED = frozenset({"PathLike", "fspath"})
SEEDED = frozenset({"Generator", "SeedSequence", "PCG64", "BitGenerator"})
TORCH_ROOMS = ("comm", "train")
TORCH_PRIVATE = "argosy.comm.torch_private"
# Optional engines and vendor bindings: absent on most machines, so imported where they are used.
OPTIONAL_MODULES = frozenset({"torch", "torch_npu", "pynvml", "ray", "kubernetes", "numba"})
OWN_IMPORTS_MAX = 8


def law_problems(source) -> Iterator[str]:
    """Find imports that run uphill."""
    if source.room not in LAW and source.room not in TOP_ROOMS:
        yield f"{source.path}:1  room {source.room} is not in the import law; add it to LAW and to docs/design.md"
    for node, module in source.imported():
        room = module.split(".")[1] if module.startswith("argosy.") else ""
        allowed = LAW.get(source.room)
        if room in LAW and allowed is not None and room != source.room and room not in allowed:
            text = (
                f"{source.room} must not import {room}; it may import {', '.join(sorted(allowed)) or 'nothing of ours'}"
            )
            yield source.at(node, text + " (move what is shared into contracts)")
        if room in TOP_ROOMS[1:] and source.room not in TOP_ROOMS:
            yield source.at(node, f"{source.room} must not import {room}, which stands on top of everything")


def torch_problems(source) -> Iterator[str]:
    """Find torch outside the rooms that may have it, and its private names outside their one file."""
    for node, module in source.imported():
        if module.split(".")[0].startswith("torch") and source.room not in TORCH_ROOMS:
            yield source.at(node, f"{module}: only {' and '.join(TORCH_ROOMS)} import torch; pass plain data instead")
    if source.name == TORCH_PRIVATE:
        return
    for node, name in _torch_names(source):
        if any(part.startswith("_") and not part.startswith("__") for part in name.split(".")):
            yield source.at(node, f"{name} is private to torch; use it only in comm/torch_private.py")


def _torch_names(source) -> Iterator[tuple[ast.AST, str]]:
    """Every dotted name that begins at something imported from torch."""
    roots = {}
    for node in source.imports():
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            full = f"{module}.{alias.name}" if module else alias.name
            if full.split(".")[0] == "torch":
                bound = alias.asname or (alias.name if module else "torch")
                roots[bound] = full if module or alias.asname else "torch"
                yield node, full
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            root = dotted.split(".")[0]
            if root in roots and re.fullmatch(r"[\w.]+", dotted):
                yield node, roots[root] + dotted.removeprefix(root)


def purity_problems(source) -> Iterator[str]:
    """Find clocks, sockets, processes, logging, printing, files and unseeded chance in pure rooms."""
    if source.room not in PURE_ROOMS or source.name in OUTWARD_MODULES:
        return
    for node, module in source.imported():
        root, name = module.split(".")[0], module.rsplit(".", 1)[-1]
        if root in BANNED_IN_PURE or (root == "os" and isinstance(node, ast.ImportFrom) and name not in OS_ALLOWED):
            yield source.at(
                node, f"{source.room} is pure and must not import {module}; take what it gives as an argument"
            )
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute):
            yield from _impure_attribute(source, node)
        if isinstance(node, ast.Call):
            yield from _impure_call(source, node)


def _impure_attribute(source, node: ast.Attribute) -> Iterator[str]:
    dotted = ast.unparse(node)
    if re.fullmatch(r"os\.\w+", dotted) and node.attr not in OS_ALLOWED:
        yield source.at(node, f"{source.room} is pure and must not use {dotted}; take what it gives as an argument")
    if node.attr in BANNED_METHODS and dotted.split(".")[-2] in BANNED_METHODS[node.attr]:
        yield source.at(node, f"{source.room} is pure and must not read the clock by {dotted}; pass the time in")
    random = re.fullmatch(r"(?:np|numpy)\.random\.(\w+)", dotted)
    if random and random[1] not in SEEDED | {"default_rng"}:
        yield source.at(node, f"{dotted} is not seeded; use numpy.random.default_rng(seed)")


def _impure_call(source, node: ast.Call) -> Iterator[str]:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if isinstance(node.func, ast.Name) and name in BANNED_CALLS:
        yield source.at(node, f"{source.room} is pure and must not call {name}; return a value instead")
    if name in FILE_CALLS and source.room not in FILE_READING_ROOMS:
        yield source.at(node, f"{source.room} is pure and must not touch files by {name}; take the text as an argument")
    if name == "default_rng" and not node.args and not node.keywords:
        yield source.at(node, "default_rng without a seed gives another run every time; pass the seed")


def inner_import_problems(source) -> Iterator[str]:
    """Find imports inside functions, other than of torch and optional engines."""
    for function in source.functions():
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = (
                    [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                )
                if not {name.split(".")[0] for name in names} <= OPTIONAL_MODULES:
                    yield source.at(node, f"import of {', '.join(names)} inside {function.name}; move it to the top")


def own_modules(source, known: frozenset[str]) -> set[str]:
    """Modules of ours that a file imports when it is loaded; what is under TYPE_CHECKING doesn't run."""
    skipped = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped.update(id(inner) for inner in ast.walk(node))
    found = set()
    for node, module in source.imported():
        if id(node) not in skipped and module.split(".")[0] == "argosy":
            found.add(module if module in known else module.rsplit(".", 1)[0])
    return found & known - {source.name}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Find import cycles: for each, the modules in order."""
    found, done = [], set()

    def visit(name: str, way: list[str]) -> None:
        if name in way:
            found.append([*way[way.index(name) :], name])
        elif name not in done:
            for inner in sorted(graph.get(name, ())):
                visit(inner, [*way, name])
            done.add(name)

    for name in sorted(graph):
        visit(name, [])
    return found


def report(rule, sources) -> str:
    """All findings of a rule, a line each."""
    return "\n".join(problem for source in sources for problem in rule(source))


class TestLaw:
    def test_imports_run_downhill(self, sources):
        """Every room imports only the rooms that the design allows it."""
        assert report(law_problems, sources) == ""

    def test_an_uphill_import_is_caught(self, source):
        """A planner that imports the trainer is refused with file and line."""
        found = list(law_problems(source("import ast\nfrom argosy.train.rank import run_rank\n")))
        assert found[0].startswith("sample.py:2  plan must not import train; it may import contracts, fleet,")

    def test_the_command_line_is_on_top(self, source):
        """Nothing below may import the command line."""
        assert len(list(law_problems(source("from argosy.cli.main import main\n")))) == 1

    def test_a_new_room_must_be_written_down(self, source):
        """A folder that the law does not name is refused."""
        assert "not in the import law" in next(law_problems(source("", name="argosy.attic.box")))


class TestTorch:
    def test_torch_stays_in_its_rooms(self, sources):
        """Only comm and train import torch, and its private names stay in one file."""
        assert report(torch_problems, sources) == ""

    def test_private_names_are_caught(self, source):
        """Private torch names are found through imports, aliases and attribute chains."""
        text = "import torch\nimport torch.distributed as dist\nfrom torch.distributed import _functional\n"
        text += "dist._x()\ntorch.a._y\ntorch.__version__\ntorch.ones(1)._z\n"
        found = list(torch_problems(source(text, name="argosy.train.sample")))
        assert sorted(problem.split("  ")[0] for problem in found) == ["sample.py:3", "sample.py:4", "sample.py:5"]

    def test_torch_elsewhere_is_caught(self, source):
        """An agent that imports torch inside a function is found too."""
        found = list(torch_problems(source("def f() -> None:\n    import torch\n", name="argosy.agent.sample")))
        assert found[0].startswith("sample.py:2")


class TestPurity:
    def test_pure_rooms_are_pure(self, sources):
        """No clock, socket, thread, process, logging, print or unseeded chance in the pure half."""
        assert report(purity_problems, sources) == ""

    def test_each_impurity_is_caught(self, source):
        """Each way to reach the outside world is found."""
        lines = [
            "import time",
            "from random import choice",
            "import torch",
            "import os; os.environ",
            "from os import environ",
            "datetime.datetime.now()",
            "print(1)",
            "np.random.rand(3)",
            "np.random.default_rng()",
            "open('x')",
        ]
        assert [line for line in lines if not list(purity_problems(source(line)))] == []

    def test_what_is_allowed_passes(self, source):
        """Paths, seeded generators and dates as data are fine; fleet may read files."""
        text = "from os import PathLike\nimport os\nos.fspath(p)\nnp.random.default_rng(3)\ndatetime.date(2026, 1, 2)\n"
        assert list(purity_problems(source(text))) == []
        assert list(purity_problems(source("path.read_text()", name="argosy.fleet.sample"))) == []


class TestInnerImports:
    def test_imports_stand_at_the_top(self, sources):
        """No import hides in a function, except torch and optional engines."""
        assert report(inner_import_problems, sources) == ""

    def test_a_hidden_import_is_caught(self, source):
        """An import in a function is found, an optional one passes."""
        text = "def f() -> None:\n    import json\n    import torch.distributed\n"
        assert [problem.split("  ")[0] for problem in inner_import_problems(source(text))] == ["sample.py:2"]


class TestCycles:
    def test_no_module_imports_itself_by_a_detour(self, sources):
        """There is no run-time import cycle between our modules."""
        known = frozenset(source.name for source in sources)
        found = cycles({source.name: own_modules(source, known) for source in sources})
        assert "\n".join(" -> ".join(cycle) for cycle in found) == ""

    def test_a_cycle_is_caught(self):
        """A cycle of three is found and told in order."""
        assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c", "a"]]

    def test_type_checking_does_not_count(self, source):
        """What is imported for the type checker alone makes no cycle."""
        text = "if TYPE_CHECKING:\n    from argosy.plan.a import A\nfrom argosy.plan.b import B\n"
        assert own_modules(source(text), frozenset({"argosy.plan.a", "argosy.plan.b"})) == {"argosy.plan.b"}

    def test_a_module_knows_few_others(self, sources):
        """No module imports more than eight of our own."""
        known = frozenset(source.name for source in sources)
        counts = {source.path: len(own_modules(source, known)) for source in sources}
        many = [
            f"{path}:1  imports {n} of our modules, at most {OWN_IMPORTS_MAX}" for path, n in counts.items() if n > 8
        ]
        assert "\n".join(many) == ""
