"""Who may import whom, and in which forms; what the pure rooms must not touch is in test_house_purity.py."""

import ast
from collections.abc import Iterator

import pytest

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
TORCH_ROOMS = ("comm", "train")
TORCH_PRIVATE = "argosy.comm.torch_private"
# Load modules by name: the command line its commands, the fork server what a launch names.
BY_NAME = ("argosy.cli", "argosy.train.forkserver")
LOADERS = ("importlib", "runpy", "pkgutil", "imp")
LOADERS_ALLOWED = ("importlib.resources", "importlib.metadata")
HIDDEN_CALLS = frozenset({"__import__", "exec", "eval"})
# Optional engines and vendor bindings: absent on most machines, so imported where they are used.
OPTIONAL_MODULES = frozenset({"torch", "torch_npu", "pynvml", "ray", "kubernetes", "numba"})
OWN_IMPORTS_MAX = 8


def reached(source) -> Iterator[tuple[ast.AST, str]]:
    """Every (node, dotted module) that a file imports, or loads by a name written out in a call."""
    yield from source.imported()
    for call in source.calls():
        first = call.args[0] if call.args else None
        loads = source.dotted(call.func) in ("importlib.import_module", "__import__")
        if loads and isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield call, first.value


def form_problems(source) -> Iterator[str]:
    """Find forms of import that hide what is imported from a reader, and from the rules here."""
    for node in source.imports():
        if isinstance(node, ast.ImportFrom) and node.level:
            yield source.at(node, f"relative import of {source.imported_from(node)}; write it out: from argosy...")
        if any(alias.name == "*" for alias in node.names):
            yield source.at(node, "import * hides which names come from where; name them")
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "argosy" for alias in node.names):
            yield source.at(
                node, "import argosy... hides which parts are used; write from argosy.room.module import name"
            )
    if source.name in BY_NAME or source.name.startswith(f"{BY_NAME[0]}."):
        return
    for node, name in source.imported():
        if name.split(".")[0] in LOADERS and not name.startswith(LOADERS_ALLOWED):
            yield source.at(node, f"{name} loads modules by name; only {' and '.join(BY_NAME)} do that")
    for node, name in source.chains:
        if name in HIDDEN_CALLS or name.startswith("importlib.import_module"):
            yield source.at(node, f"{name} can load anything; import at the top of the file instead")


def law_problems(source) -> Iterator[str]:
    """Find imports that run uphill."""
    if source.room not in LAW and source.room not in TOP_ROOMS:
        yield f"{source.path}:1  room {source.room} is not in the import law; add it to LAW and to docs/design.md"
    for node, module in reached(source):
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
    for node, module in reached(source):
        if module.split(".")[0].startswith("torch") and source.room not in TORCH_ROOMS:
            yield source.at(node, f"{module}: only {' and '.join(TORCH_ROOMS)} import torch; pass plain data instead")
    if source.name == TORCH_PRIVATE:
        return
    for node, name in [*source.imported(), *source.chains]:
        parts = name.split(".")
        if parts[0] == "torch" and any(part.startswith("_") and not part.startswith("__") for part in parts):
            yield source.at(node, f"{name} is private to torch; use it only in comm/torch_private.py")


def inner_import_problems(source) -> Iterator[str]:
    """Find imports inside functions, other than of torch and optional engines."""
    for function in source.functions():
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [name for statement, name in source.imported() if statement is node]
                if not {name.split(".")[0] for name in names} <= OPTIONAL_MODULES:
                    yield source.at(node, f"import of {', '.join(names)} inside {function.name}; move it to the top")


def own_modules(source, known: frozenset[str]) -> set[str]:
    """Modules of ours that a file imports when it is loaded; what is under TYPE_CHECKING doesn't run."""
    skipped = set()
    for node in source.nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped.update(id(inner) for inner in ast.walk(node))
    found = set()
    for node, module in source.imported():
        if id(node) not in skipped and module.split(".")[0] == "argosy":
            found.add(module if module in known else module.rsplit(".", 1)[0])
    return found & known - {source.name}


def home_problems(source, homes: dict[str, dict[str, str]]) -> Iterator[str]:
    """Find names that are imported from a module which has them from another of ours.

    homes: by module, the names that it imports from our modules, with where from. So the count of imports is true, and
    a reader finds a name where it is said to be.
    """
    for node in source.imports():
        if isinstance(node, ast.ImportFrom):
            module = source.imported_from(node)
            for alias in node.names:
                home = homes.get(module, {}).get(alias.name)
                if home is not None:
                    yield source.at(node, f"{module} has {alias.name} from {home}; import it from there")
    for node, chain in source.chains:
        module, name = _taken(chain, homes)
        home = homes.get(module, {}).get(name)
        if home is not None:
            yield source.at(node, f"{module} has {name} from {home}; import it from there")


def _taken(chain: str, homes: dict[str, dict[str, str]]) -> tuple[str, str]:
    """Give the longest module of ours that a chain begins with, and what is taken from it; empty where none."""
    parts = chain.split(".")
    for end in range(len(parts) - 1, 0, -1):
        if (module := ".".join(parts[:end])) in homes:
            return module, parts[end]
    return "", ""


def imported_names(source, known: frozenset[str]) -> dict[str, str]:
    """Give the names that a module imports from our modules, with the module that each comes from."""
    found = {}
    for node in source.imports():
        module = source.imported_from(node) if isinstance(node, ast.ImportFrom) else ""
        if module in known:
            found |= {a.asname or a.name: module for a in node.names if f"{module}.{a.name}" not in known}
    return found


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


class TestLaw:
    def test_imports_run_downhill(self, findings):
        """Every room imports only the rooms that the design allows it."""
        assert findings(law_problems) == ""

    def test_an_uphill_import_is_caught(self, source):
        """A planner that imports the trainer is refused with file and line."""
        found = list(law_problems(source("import ast\nfrom argosy.train.rank import run_rank\n")))
        assert found[0].startswith("sample.py:2  plan must not import train; it may import contracts, fleet,")

    @pytest.mark.parametrize(
        "line",
        [
            "from ..train import rank",
            "from ..train.rank import run_rank",
            "from .. import train",
            "from argosy import train",
            "import importlib\nimportlib.import_module('argosy.train.rank')",
            "from importlib import import_module as load\nload('argosy.train.rank')",
            "__import__('argosy.train.rank')",
        ],
    )
    def test_no_detour_leads_uphill(self, source, line):
        """Relative imports and imports by name are held to the law."""
        assert "plan must not import train" in next(law_problems(source(line)))

    def test_the_command_line_is_on_top(self, source):
        """Nothing below may import the command line."""
        assert len(list(law_problems(source("from argosy.cli.main import main\n")))) == 1

    def test_a_new_room_must_be_written_down(self, source):
        """A folder that the law does not name is refused."""
        assert "not in the import law" in next(law_problems(source("", name="argosy.attic.box")))


class TestForms:
    def test_imports_are_plain(self, findings):
        """No import is relative, starred or by name, but for the command line's and the fork server's."""
        assert findings(form_problems) == ""

    def test_no_test_imports_relatively(self, test_sources):
        """Tests name what they import in full, too."""
        found = [
            source.at(node, "relative import") for source in test_sources for node in source.imports() if _up(node)
        ]
        assert "\n".join(found) == ""

    @pytest.mark.parametrize(
        "line",
        [
            "from ..train import rank",
            "from . import planner",
            "from .planner import plan_job",
            "from argosy.plan.planner import *",
            "import argosy",
            "import argosy as a",
            "import argosy.plan.planner",
            "import importlib",
            "import importlib as i",
            "from importlib import import_module as load",
            "import importlib.util",
            "import runpy",
            "def f() -> None:\n    __import__('argosy.train.rank')",
            "load = __import__",
            "exec('import torch')",
        ],
    )
    def test_each_detour_is_caught(self, source, line):
        """Every way around a plain import is found."""
        assert list(form_problems(source(line))) != []

    def test_what_is_allowed_passes(self, source):
        """Files of the package, aliases and commands loaded by name are fine."""
        text = "from importlib.resources import files\nfrom argosy.plan import planner as p\nimport numpy as np\n"
        assert list(form_problems(source(text))) == []
        loaded = source("from importlib import import_module\nimport_module(name)", name="argosy.cli.main")
        assert list(form_problems(loaded)) == []

    def test_a_relative_import_is_told_from_the_top(self, source):
        """The dots of a relative import are counted, so law, torch and cycle rules see through them."""
        text = "from ..train import rank\nfrom . import drafts\nfrom .deep.er import x\n"
        names = [name for _, name in source(text).imported()]
        assert names == ["argosy.train.rank", "argosy.plan.drafts", "argosy.plan.deep.er.x"]
        package = source("from . import rank", name="argosy.train", path="src/argosy/train/__init__.py")
        assert [name for _, name in package.imported()] == ["argosy.train.rank"]


def _up(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and node.level > 0


class TestTorch:
    def test_torch_stays_in_its_rooms(self, findings):
        """Only comm and train import torch, and its private names stay in one file."""
        assert findings(torch_problems) == ""

    def test_private_names_are_caught(self, source):
        """Private torch names are found through imports, aliases and attribute chains."""
        text = "import torch\nimport torch.distributed as dist\nfrom torch.distributed import _functional\n"
        text += "dist._x()\ntorch.a._y\ntorch.__version__\ntorch.ones(1)._z\n"
        found = list(torch_problems(source(text, name="argosy.train.sample")))
        assert sorted(problem.split("  ")[0] for problem in found) == ["sample.py:3", "sample.py:4", "sample.py:5"]

    @pytest.mark.parametrize(
        "line",
        [
            "import torch as t",
            "from torch import nn as n",
            "__import__('torch')",
            "import importlib as i\ni.import_module('torch.distributed')",
        ],
    )
    def test_no_detour_leads_to_torch(self, source, line):
        """Aliases and imports by name are found."""
        assert "import torch; pass plain data" in next(torch_problems(source(line, name="argosy.cli.sample")))

    def test_torch_elsewhere_is_caught(self, source):
        """An agent that imports torch inside a function is found too."""
        found = list(torch_problems(source("def f() -> None:\n    import torch\n", name="argosy.agent.sample")))
        assert found[0].startswith("sample.py:2")


class TestInnerImports:
    def test_imports_stand_at_the_top(self, findings):
        """No import hides in a function, except torch and optional engines."""
        assert findings(inner_import_problems) == ""

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

    def test_a_relative_import_counts(self, source):
        """`from . import b` makes the same edge as the import written out."""
        text = "from . import b\nfrom .c import C\n"
        known = frozenset({"argosy.plan.b", "argosy.plan.c"})
        assert own_modules(source(text), known) == known

    def test_a_cycle_is_caught(self):
        """A cycle of three is found and told in order."""
        assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c", "a"]]

    def test_type_checking_does_not_count(self, source):
        """What is imported for the type checker alone makes no cycle."""
        text = "if TYPE_CHECKING:\n    from argosy.plan.a import A\nfrom argosy.plan.b import B\n"
        assert own_modules(source(text), frozenset({"argosy.plan.a", "argosy.plan.b"})) == {"argosy.plan.b"}

    def test_names_are_imported_from_home(self, sources):
        """Every name of ours is imported from the module that defines it, so that no import hides behind another."""
        known = frozenset(source.name for source in sources)
        homes = {source.name: imported_names(source, known) for source in sources}
        assert "\n".join(problem for source in sources for problem in home_problems(source, homes)) == ""

    @pytest.mark.parametrize("line", ["from argosy.plan.b import C as C", "from argosy.plan.b import C"])
    def test_a_name_handed_on_is_caught(self, source, line):
        """A class imported by way of another module is told where it lives, whether that hands it on or not."""
        known = frozenset({"argosy.plan.a", "argosy.plan.b", "argosy.plan.c"})
        through = source("from argosy.plan.c import C as C\n", name="argosy.plan.b")
        found = list(
            home_problems(
                source(f"{line}\n", name="argosy.fleet.sample"), {"argosy.plan.b": imported_names(through, known)}
            )
        )
        assert found == ["sample.py:1  argosy.plan.b has C from argosy.plan.c; import it from there"]

    def test_a_name_used_by_way_of_its_module_is_caught(self, source):
        """`b.C` is no way around: who takes a name from a module finds it defined there."""
        homes = {"argosy.plan.b": {"C": "argosy.plan.c"}, "argosy.plan": {}}
        found = list(home_problems(source("from argosy.plan import b\nb.C.made()\nb.own.C\n"), homes))
        assert found == ["sample.py:2  argosy.plan.b has C from argosy.plan.c; import it from there"]

    def test_a_module_knows_few_others(self, sources):
        """No module imports more than eight of our own."""
        known = frozenset(source.name for source in sources)
        counts = {source.path: len(own_modules(source, known)) for source in sources}
        many = [
            f"{path}:1  imports {count} of our modules, at most {OWN_IMPORTS_MAX}"
            for path, count in counts.items()
            if count > OWN_IMPORTS_MAX
        ]
        assert "\n".join(many) == ""
