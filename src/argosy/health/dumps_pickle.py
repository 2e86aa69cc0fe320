"""Reads the plain data in a pickle and nothing else: numbers, texts, lists, tuples and dicts.

A pickle is a program. This runs the small part of it that builds plain data; whatever would import, call or construct
anything is refused by name, so bytes from a stranger can at most be refused. Must not know what the data means.
"""

import struct
from collections.abc import Callable
from typing import Any

from argosy.contracts.errors import BadInputError

NESTING_MAX = 100_000
"""How many values may wait on the stack at once."""
STEPS_MAX, MEMO_MAX = 20_000_000, 4_000_000
"""How many instructions a pickle may have, and values that are remembered: ten times what a recorder of 20,000 entries
writes. An instruction of one byte may take a hundred bytes of memory."""

_MARK = object()
_INT4, _UINT2, _UINT4, _UINT8, _FLOAT = (struct.Struct(each) for each in ("<i", "<H", "<I", "<Q", ">d"))
_KEYS = (str, int, float, bool, bytes, type(None))
_FORBIDDEN = {
    "c": "GLOBAL",
    "\x93": "STACK_GLOBAL",
    "R": "REDUCE",
    "i": "INST",
    "o": "OBJ",
    "b": "BUILD",
    "\x81": "NEWOBJ",
    "\x92": "NEWOBJ_EX",
    "P": "PERSID",
    "Q": "BINPERSID",
    "\x82": "EXT1",
    "\x83": "EXT2",
    "\x84": "EXT4",
}


def read_plain_pickle(data: bytes) -> Any:
    """Read the one value of a pickle of plain data (protocols 2 to 5).

    Raises BadInputError when it is cut short, damaged, or holds anything but plain data; nothing of it is ever run.
    """
    machine = _Machine(data)
    try:
        return machine.run()
    except BadInputError:
        raise
    except (IndexError, struct.error) as error:
        raise BadInputError(f"pickle: cut short or damaged at byte {machine.at} of {len(data)}") from error
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise BadInputError(f"pickle: damaged at byte {machine.at}: {error}") from error


class _Machine:
    """The stack machine: `at` is the byte it reads next."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Read to the end of the pickle."""
        data, stack = self.data, self.stack
        for _ in range(STEPS_MAX):
            code = data[self.at]
            self.at += 1
            if code == _STOP:
                return stack.pop()
            step = _STEPS.get(code)
            if step is None:
                raise BadInputError(self._refusal(chr(code)))
            step(self)
            if len(stack) > NESTING_MAX:
                raise BadInputError(f"pickle: over {NESTING_MAX:,} values are open at byte {self.at}")
        raise BadInputError(f"pickle: over {STEPS_MAX:,} instructions before byte {self.at}")

    def _refusal(self, code: str) -> str:
        if code in _FORBIDDEN:
            text = (
                f"pickle: holds a call or an object ({_FORBIDDEN[code]} at byte {self.at - 1}), which plain data does"
            )
            return f"{text} not need; it was not run"
        return f"pickle: no such instruction as byte {ord(code):#x} at {self.at - 1}; is it a pickle?"

    def number(self, layout: struct.Struct) -> Any:
        """Read one number."""
        (value,) = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return value

    def take(self, count: int) -> bytes:
        """Read `count` bytes."""
        if count < 0 or self.at + count > len(self.data):
            raise BadInputError(
                f"pickle: wants {count:,} bytes at byte {self.at}, {len(self.data) - self.at:,} are left"
            )
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        """Read one byte."""
        self.at += 1
        return self.data[self.at - 1]

    def since_mark(self) -> list[Any]:
        """Take what was put on the stack since the last mark, and the mark."""
        stack = self.stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise BadInputError(f"pickle: no mark before byte {self.at}")
        values = stack[at + 1 :]
        del stack[at:]
        return values

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def last(self, kind: type) -> Any:
        """Give the last value, which must be of one kind."""
        value = self.stack[-1]
        if type(value) is not kind:
            raise BadInputError(f"pickle: a {kind.__name__} should stand before byte {self.at}")
        return value


def _text(machine: _Machine, count: int) -> None:
    machine.push(machine.take(count).decode("utf-8", "replace"))


def _long(machine: _Machine, count: int) -> None:
    machine.push(int.from_bytes(machine.take(count), "little", signed=True))


def _remember(machine: _Machine, place: int) -> None:
    if len(machine.memo) >= MEMO_MAX:
        raise BadInputError(f"pickle: over {MEMO_MAX:,} values are remembered at byte {machine.at}")
    machine.memo[place] = machine.stack[-1]


def _append(machine: _Machine) -> None:
    value = machine.stack.pop()
    machine.last(list).append(value)


def _appends(machine: _Machine) -> None:
    values = machine.since_mark()
    machine.last(list).extend(values)


def _set_item(machine: _Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.last(dict).update(_pairs(machine, [key, value]))


def _set_items(machine: _Machine) -> None:
    values = machine.since_mark()
    machine.last(dict).update(_pairs(machine, values))


def _dict(machine: _Machine) -> None:
    machine.push(_pairs(machine, machine.since_mark()))


def _pairs(machine: _Machine, values: list[Any]) -> dict[Any, Any]:
    # Python hashes nested tuples by recursion, so a deep enough key would end the process
    if any(type(key) not in _KEYS for key in values[::2]):
        raise BadInputError(f"pickle: the key of a dict before byte {machine.at} is neither a text nor a number")
    return dict(zip(values[::2], values[1::2], strict=True))


def _tuple(machine: _Machine, count: int) -> None:
    values = [machine.stack.pop() for _ in range(count)]
    machine.push(tuple(reversed(values)))


def _pop_mark(machine: _Machine) -> None:
    machine.since_mark()


def _skip(machine: _Machine, count: int) -> None:
    machine.take(count)


_STOP = ord(".")
_NAMED: dict[str, Callable[[_Machine], None]] = {
    "\x80": lambda machine: _skip(machine, 1),  # protocol
    "\x95": lambda machine: _skip(machine, 8),  # frame
    "(": lambda machine: machine.push(_MARK),
    "0": lambda machine: _drop(machine),
    "1": _pop_mark,
    "2": lambda machine: machine.push(machine.stack[-1]),
    "N": lambda machine: machine.push(None),
    "\x88": lambda machine: machine.push(True),
    "\x89": lambda machine: machine.push(False),
    "J": lambda machine: machine.push(machine.number(_INT4)),
    "K": lambda machine: machine.push(machine.byte()),
    "M": lambda machine: machine.push(machine.number(_UINT2)),
    "G": lambda machine: machine.push(machine.number(_FLOAT)),
    "\x8a": lambda machine: _long(machine, machine.byte()),
    "\x8b": lambda machine: _long(machine, machine.number(_INT4)),
    "X": lambda machine: _text(machine, machine.number(_UINT4)),
    "\x8c": lambda machine: _text(machine, machine.byte()),
    "\x8d": lambda machine: _text(machine, machine.number(_UINT8)),
    "T": lambda machine: _text(machine, machine.number(_INT4)),
    "U": lambda machine: _text(machine, machine.byte()),
    "B": lambda machine: machine.push(machine.take(machine.number(_UINT4))),
    "C": lambda machine: machine.push(machine.take(machine.byte())),
    "]": lambda machine: machine.push([]),
    "l": lambda machine: machine.push(machine.since_mark()),
    "a": _append,
    "e": _appends,
    "}": lambda machine: machine.push({}),
    "d": _dict,
    "s": _set_item,
    "u": _set_items,
    ")": lambda machine: machine.push(()),
    "\x85": lambda machine: _tuple(machine, 1),
    "\x86": lambda machine: _tuple(machine, 2),
    "\x87": lambda machine: _tuple(machine, 3),
    "t": lambda machine: machine.push(tuple(machine.since_mark())),
    "h": lambda machine: machine.push(machine.memo[machine.byte()]),
    "j": lambda machine: machine.push(machine.memo[machine.number(_UINT4)]),
    "q": lambda machine: _remember(machine, machine.byte()),
    "r": lambda machine: _remember(machine, machine.number(_UINT4)),
    "\x94": lambda machine: _remember(machine, len(machine.memo)),
}
_STEPS = {ord(code): step for code, step in _NAMED.items()}


def _drop(machine: _Machine) -> None:
    machine.stack.pop()
