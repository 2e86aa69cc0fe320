"""What the pure rooms must not touch: clocks, files, processes, logging, printing, unseeded chance."""

import ast
from collections.abc import Iterator

import pytest

PURE_ROOMS = ("contracts", "fleet", "model", "network", "plan", "health", "control", "simulate")
# Runs the vendors' tools, so it alone of the pure rooms may start processes; no other pure module may import it.
OUTWARD_MODULES = ("argosy.fleet.detect",)
FILE_READING_ROOMS = ("fleet", "model")
# Reads the files that lie beside it in the package, and no others.
FILE_READING_MODULES = ("argosy.health.packaged",)
# All that pure rooms may import. A module that is not here is added if it is pure: no clock, chance, file or process.
PURE_MODULES = frozenset(
    {
        "__future__",
        *("abc", "bisect", "collections", "contextlib", "copy", "dataclasses", "datetime", "difflib", "enum"),
        *("fractions", "functools", "graphlib", "hashlib", "heapq", "html", "itertools", "json", "math", "operator"),
        *("re", "statistics", "string", "struct", "textwrap", "tomllib", "types", "typing", "unicodedata", "zlib"),
        *("argosy", "hyperscan", "msgspec", "numba", "numpy", "pydantic", "scipy", "yaml"),
    }
)
PURE_NAMES = frozenset({"pathlib.PurePath", "pathlib.PurePosixPath"})
FILE_MODULES = ("pathlib.Path", "importlib.resources")
# Parts of the above that do reach outside.
OUTWARD_PARTS = frozenset(
    {
        *("numpy.ctypeslib", "numpy.distutils", "numpy.f2py", "numpy.testing", "scipy.datasets", "scipy.io"),
        *("pydantic.FilePath", "pydantic.DirectoryPath", "pydantic.NewPath", "pathlib.Path.cwd", "pathlib.Path.home"),
        *("numpy.fromfile", "numpy.genfromtxt", "numpy.load", "numpy.loadtxt", "numpy.memmap"),
        *("numpy.save", "numpy.savetxt", "numpy.savez", "numpy.savez_compressed"),
    }
)
CLOCKS = frozenset(
    {"datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"}
)
# `hash` of a text differs from process to process.
BUILTINS = frozenset(
    {"print", "input", "breakpoint", "exec", "eval", "compile", "hash", "__import__", "__builtins__", "globals"}
)
READS = frozenset(
    {"open", "read_text", "read_bytes", "exists", "is_file", "is_dir", "is_symlink", "stat", "lstat", "iterdir", "glob"}
    | {"rglob", "expanduser", "samefile", "readlink"}
)
WRITES = frozenset(
    {"write_text", "write_bytes", "unlink", "mkdir", "touch", "rename", "rmdir", "chmod", "symlink_to", "hardlink_to"}
    | {"tofile"}
)
SEEDED = frozenset({"default_rng", "SeedSequence", "PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"})
SEEDS = frozenset({"seed", "entropy", "rng", "random_state"})
# Methods and functions of scipy that draw, seeded by keyword alone.
DRAWING = frozenset({"rvs", "differential_evolution", "dual_annealing", "basinhopping"})


def purity_problems(source) -> Iterator[str]:
    """Find clocks, sockets, processes, logging, printing, files and unseeded chance in pure rooms."""
    if source.room not in PURE_ROOMS or source.name in OUTWARD_MODULES:
        return
    for node, module in source.imported():
        if not _importable(source, module):
            text = f"{source.room} is pure and must not import {module}; take what it gives as an argument"
            yield source.at(node, text + " (pure itself? add it to PURE_MODULES)")
        yield from _impure_name(source, node, module)
    for node, name in source.chains:
        yield from _impure_name(source, node, name)
    yield from _unseeded(source)
    for call in source.calls():
        yield from _impure_call(source, call)


def _within(name: str, parts) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def _reads_files(source) -> bool:
    return source.room in FILE_READING_ROOMS or source.name in FILE_READING_MODULES


def _importable(source, module: str) -> bool:
    if _within(module, OUTWARD_MODULES):
        return False
    files = _reads_files(source) and _within(module, FILE_MODULES)
    return module.split(".")[0] in PURE_MODULES or module in PURE_NAMES or files


def _impure_name(source, node: ast.AST, name: str) -> Iterator[str]:
    if name in BUILTINS:
        yield source.at(node, f"{source.room} is pure and must not use {name}; return a value instead")
    if _within(name, CLOCKS):
        yield source.at(node, f"{source.room} is pure and must not read the clock by {name}; pass the time in")
    if _within(name, OUTWARD_PARTS):
        yield source.at(node, f"{source.room} is pure and must not touch {name}; take its data as an argument")


def _impure_call(source, call: ast.Call) -> Iterator[str]:
    if _timed(call):
        yield source.at(call, "time_limit stops a solver by the clock; limit its nodes or iterations instead")
    method = call.func.attr if isinstance(call.func, ast.Attribute) else source.dotted(call.func)
    # A text's replace takes two arguments, so this one is a path's; paths reach only rooms that may read files.
    moves = isinstance(call.func, ast.Attribute) and method == "replace" and len(call.args) == 1 and not call.keywords
    if method in WRITES or moves or (method == "open" and _writes(call)):
        yield source.at(
            call, f"{source.room} is pure and must not change files by {method}; return what is to be written"
        )
    elif method in READS and not _reads_files(source):
        yield source.at(
            call, f"{source.room} is pure and must not read files by {method}; take the text as an argument"
        )


def _timed(call: ast.Call) -> bool:
    """Tell whether a solver is given a time to stop at, by keyword or among its options."""
    options = [item.value for item in call.keywords if item.arg == "options" and isinstance(item.value, ast.Dict)]
    keys = [key.value for option in options for key in option.keys if isinstance(key, ast.Constant)]
    return "time_limit" in [*keys, *(item.arg for item in call.keywords)]


def _writes(call: ast.Call) -> bool:
    """Tell whether a call of `open` asks for more than to read; a mode that isn't written out may be anything."""
    place = 0 if isinstance(call.func, ast.Attribute) else 1
    modes = [*call.args[place : place + 1], *(item.value for item in call.keywords if item.arg in ("mode", None))]
    return any(not isinstance(mode, ast.Constant) or set(str(mode.value)) & set("wax+") for mode in modes)


def _unseeded(source) -> Iterator[str]:
    seeded = {id(call.func) for call in source.calls() if _has_seed(call, call.args[:1])}
    for node, name in [*source.imported(), *source.chains]:
        if not _within(name, ("numpy.random",)):
            continue
        imported = isinstance(node, ast.Import | ast.ImportFrom)
        allowed = {"Generator", "BitGenerator", *(SEEDED if imported or id(node) in seeded else ())}
        part = name.removeprefix("numpy.random").strip(".").split(".")[0]
        if part not in allowed and (part or not imported):
            yield source.at(node, f"{name} is not seeded; use numpy.random.default_rng(seed)")
    for call in source.calls():
        name = call.func.attr if isinstance(call.func, ast.Attribute) else source.dotted(call.func).split(".")[-1]
        if name in DRAWING and not _has_seed(call, ()):
            yield source.at(call, f"{name} without a seed gives another run every time; pass rng or random_state")


def _has_seed(call: ast.Call, first) -> bool:
    given = [*first, *(item.value for item in call.keywords if item.arg in SEEDS)]
    return any(not (isinstance(seed, ast.Constant) and seed.value is None) for seed in given)


IMPURE = {
    "a module that is not on the list": [
        "import time",
        "import os",
        "import os as o",
        "from os import environ",
        "from os import path",
        "import sys",
        "from sys import stdout",
        "import random",
        "from random import choice",
        "import torch",
        "import asyncio.subprocess",
        "import logging as log",
        "import multiprocessing",
        *(f"import {name}" for name in ("atexit", "ctypes", "fcntl", "gc", "glob", "http", "mmap", "platform")),
        *(f"import {name}" for name in ("requests", "sqlite3", "uuid", "secrets", "urllib", "warnings", "zoneinfo")),
        "import http.client as h",
        "import urllib.request",
        "from urllib.parse import quote",
        "import importlib",
        "from importlib import import_module",
        "from importlib.resources import files",
        "from pathlib import Path",
        "import pathlib",
        "import io",
        "if TYPE_CHECKING:\n    import socket",
        "def f() -> None:\n    import threading",
        "from argosy.fleet.detect import survey",
        "from ..fleet import detect",
    ],
    "a clock": [
        "import datetime\ndatetime.datetime.now()",
        "import datetime\ndatetime.date.today()",
        "import datetime as dt\ndt.datetime.now(dt.UTC)",
        "from datetime import datetime\ndatetime.utcnow()",
        "from datetime import datetime as d\nclock = d.now",
        "from datetime import date\ndate.today().isoformat()",
        "solve(options={'time_limit': 1.0})",
        "solve(time_limit=1.0)",
    ],
    "a builtin": [
        "print(1)",
        "show = print",
        "input()",
        "breakpoint()",
        "exec('import os')",
        "eval('1')",
        "__import__('os').environ",
        "__builtins__",
        "hash('text')",
    ],
    "unseeded chance": [
        "import numpy as np\nnp.random.rand(3)",
        "import numpy\nnumpy.random.seed(1)",
        "from numpy.random import rand",
        "from numpy.random import shuffle as s",
        "from numpy import random\nrandom.rand()",
        "import numpy.random as nr\nnr.choice(x)",
        "import numpy as np\ngetattr(np.random, 'rand')()",
        "import numpy as np\nnp.random.default_rng()",
        "import numpy as np\nnp.random.default_rng(None)",
        "import numpy as np\nnp.random.default_rng(seed=None)",
        "from numpy.random import default_rng\ndefault_rng()",
        "from numpy.random import default_rng as rng\nrng(None)",
        "from numpy.random import default_rng\nmake = default_rng",
        "from numpy.random import Generator, PCG64\nGenerator(PCG64())",
        "from numpy.random import SeedSequence\nSeedSequence()",
        "from scipy import stats\nstats.norm.rvs(size=3)",
        "from scipy.optimize import dual_annealing\ndual_annealing(f, bounds)",
    ],
    "a file": [
        "open('x')",
        "path.open()",
        "path.read_text()",
        "path.exists()",
        "path.is_file()",
        "path.stat()",
        "path.glob('*')",
        "list(path.iterdir())",
        "path.rename(other)",
        "path.replace(other)",
        "folder.mkdir()",
        "import numpy as np\nnp.load('x')",
        "from numpy import memmap",
        "from pydantic import FilePath",
        "import scipy.io",
    ],
}


class TestPurity:
    def test_pure_rooms_are_pure(self, findings):
        """No clock, socket, thread, process, logging, print or unseeded chance in the pure half."""
        assert findings(purity_problems) == ""

    @pytest.mark.parametrize("kind", IMPURE)
    def test_each_impurity_is_caught(self, source, kind):
        """Each way to reach the outside world is found, under any alias."""
        assert [line for line in IMPURE[kind] if not list(purity_problems(source(line)))] == []

    def test_a_finding_tells_what_to_do(self, source):
        """A finding has file, line, what is wrong and the remedy."""
        found = list(purity_problems(source("import json\nfrom time import time as t\n")))
        assert found == [
            "sample.py:2  plan is pure and must not import time.time; take what it gives as an argument "
            "(pure itself? add it to PURE_MODULES)"
        ]

    @pytest.mark.parametrize(
        "line",
        [
            "from pathlib import PurePath",
            "import numpy as np\nnp.random.default_rng(3)",
            "from numpy.random import Generator, default_rng\nrng: Generator = default_rng(seed)",
            "import numpy as np\ndef f(rng: np.random.Generator) -> None:\n    rng.shuffle(x)",
            "from scipy import stats\nstats.norm.rvs(random_state=rng)",
            "import datetime as dt\ndt.date(2026, 1, 2)",
            "text.replace('a', 'b')",
            "from dataclasses import replace\nreplace(value, x=1)",
            "state.nodes.open.append(True)",
        ],
    )
    def test_what_is_allowed_passes(self, source, line):
        """Pure paths, seeded generators and dates as data are fine."""
        assert list(purity_problems(source(line))) == []

    def test_two_rooms_may_read_files(self, source):
        """Fleet and model read the files that a caller names, and change none."""
        text = "from pathlib import Path\nfrom importlib.resources import files\nPath(x).read_text()\npath.open('rb')\n"
        assert list(purity_problems(source(text, name="argosy.fleet.sample"))) == []
        changes = ["path.write_text(x)", "path.open('w')", "path.open(mode)", "open(x, mode='a')", "path.rename(y)"]
        changes += ["path.replace(y)", "path.unlink()", "from pathlib import Path\nPath.cwd()"]
        assert [line for line in changes if not list(purity_problems(source(line, name="argosy.model.sample")))] == []

    def test_other_rooms_are_free(self, source):
        """The outer half and the module that runs the vendors' tools may touch the world."""
        for name in ("argosy.agent.sample", "argosy.fleet.detect"):
            assert list(purity_problems(source("import subprocess\nprint(1)", name=name))) == []
