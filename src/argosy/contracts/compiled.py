"""Hot loops compiled by numba, with a cache on disk where there is one that can be written.

The first call after an install compiles, which takes seconds; later processes read the result. Must not know what is
compiled. Nothing that `argosy --help` loads may import this.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function of numbers and arrays at its first call.

    What it calls must be compiled too, and stand in the same file: a cache is only dropped when its own file changes.
    Where no folder can be written, beside the file or in the user's cache, every process compiles anew.
    """
    try:
        return cast(Callable[_P, _R], njit(cache=True)(function))
    except RuntimeError:
        return cast(Callable[_P, _R], njit(function))
