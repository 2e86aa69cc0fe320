"""Reads what NCCL's RAS subsystem says of a job (`ncclras`): its text, and its JSON since NCCL 2.28.7.

The text lists only outliers, by their rank within a communicator; a process is named by node, process id and GPU. What
is printed, and when a process counts as dead, is described in NCCL's user guide, chapter RAS. Must not know traces.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from argosy.contracts.errors import BadInputError

PLACES_MAX = 100_000

_TITLE = re.compile(r"^(?:#(\d+)-(\d+) \(([0-9a-f:]+)\) )?(INCOMPLETE|DEAD|ERROR|MISMATCH|TIMEOUT)\b")
_PROCESS = re.compile(r"^\s+Process (\d+) on node (\S+) managing GPUs? (\S.*)$")
# What is said of a rank is taken apart by hand: lazy repeats side by side need the square of a line's length.
_RANK = re.compile(r"^\s+Rank (\d+)(?: ([^-]*))? -- (.*)$")
_MANAGED = re.compile(r"GPU (\S+) managed by process (\d+) on node (\S+)")
_COUNT = re.compile(r"^\s+(\d+) ranks have launched up to (?:\w+ )?operation (\d+)")
_STATUS = re.compile(r"^\s+(\d+) ranks have status (\w+)")
_MISSING = re.compile(r"^\s+The (?:missing|unknown) ranks?: ([\d,\s-]+)$")
_MONITOR = re.compile(r"PEER_DEAD: Process (\d+) on node (\S+) managing GPUs? (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RasPlace:
    """One process or rank that RAS points at.

    problem: dead, unresponsive, missing, behind, ahead, or status:NAME. rank: within `communicator`; -1 of a process.
    count: operations launched; -1 where not told.
    """

    problem: str
    node: str = ""
    pid: int = -1
    gpu: str = ""
    communicator: str = ""
    rank: int = -1
    count: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RasReport:
    """What RAS reported; size: by communicator its ranks, as far as told."""

    places: tuple[RasPlace, ...]
    sizes: tuple[tuple[str, int], ...] = ()


def looks_like_ras(head: bytes) -> bool:
    """Tell whether a file's first bytes are a report of NCCL RAS."""
    start = head[:65536]
    if start.lstrip()[:1] == b"{":
        return b'"communicators"' in start and (b'"nccl_version"' in start or b'"ras"' in start)
    return (b"Comms     Nodes" in start and b"per comm" in start) or b"RAS Monitor Mode" in start


def read_ras(name: str, data: bytes) -> RasReport:
    """Read a report; raises BadInputError when its JSON is damaged."""
    if data.lstrip()[:1] == b"{":
        return _from_json(name, data)
    return RasReport(places=tuple(islice(_places(data.decode("utf-8", "replace").splitlines()), PLACES_MAX)))


def _places(lines: Iterable[str]) -> Iterator[RasPlace]:
    title, communicator, problem, count, most = "", "", "", -1, -1
    for line in lines:
        if found := _MONITOR.search(line):
            pid, node, gpu = found.groups()
            yield RasPlace(problem="dead", node=node, pid=_whole(pid), gpu=gpu)
        elif found := _TITLE.match(line):
            title, communicator = found.group(4), found.group(3) or ""
            problem, count, most = "", -1, -1
        elif found := _PROCESS.match(line):
            pid, node, gpu = found.groups()
            yield RasPlace(problem=_of_process(title), node=node, pid=_whole(pid), gpu=gpu)
        elif found := _COUNT.match(line):
            # The first line is of the most ranks, so it is what the others are measured by
            count = _whole(found.group(2))
            most = count if most < 0 else most
            problem = _against(count, most)
        elif found := _STATUS.match(line):
            problem, count = f"status:{found.group(2)}", -1
        elif found := _MISSING.match(line):
            ranks = re.findall(r"\d{1,7}", found.group(1))[:PLACES_MAX]
            yield from (RasPlace(problem="missing", communicator=communicator, rank=int(each)) for each in ranks)
        elif found := _RANK.match(line):
            yield _rank_place(found, communicator, problem, count, most)


def _rank_place(found: re.Match[str], communicator: str, problem: str, count: int, most: int) -> RasPlace:
    rank, said, rest = found.groups()
    verb, _, value = (said or "").strip().rpartition(" ")
    if "status" in verb:
        problem = f"status:{value}"
    elif "operation" in verb:
        count = _whole(value)
        problem = _against(count, most)
    managed = _MANAGED.search(rest)
    gpu, pid, node = managed.groups() if managed else ("", "-1", "")
    return RasPlace(
        problem=problem or "outlier",
        node=node,
        pid=_whole(pid),
        gpu=gpu,
        communicator=communicator,
        rank=_whole(rank),
        count=count,
    )


def _against(count: int, most: int) -> str:
    return "usual" if count == most or most < 0 else ("behind" if count < most else "ahead")


def _of_process(title: str) -> str:
    return {"DEAD": "dead", "INCOMPLETE": "unresponsive"}.get(title, "outlier")


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else -1


def _from_json(name: str, data: bytes) -> RasReport:
    try:
        report = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{name}: damaged JSON of NCCL RAS: {error}") from error
    places: list[RasPlace] = []
    sizes = []
    for communicator in _tables(report, "communicators"):
        key = _text(communicator.get("hash"))[:40]
        sizes.append((key, _number(communicator.get("size"))))
        places += _behind(key, _tables(communicator, "ranks"))
        for rank in _tables(communicator, "missing_ranks"):
            status = rank.get("status")
            dead = isinstance(status, dict) and status.get("considered_dead") is True
            places.append(_json_place("dead" if dead else "unresponsive", key, rank, -1))
    return RasReport(places=tuple(places[:PLACES_MAX]), sizes=tuple(sizes))


def _behind(communicator: str, ranks: list[dict[str, Any]]) -> Iterator[RasPlace]:
    """Find the ranks whose counts of collectives are below most others'."""
    counted = []
    for rank in ranks:
        counts = rank.get("collective_counts")
        counted.append(sum(map(_number, counts.values())) if isinstance(counts, dict) else -1)
    if not counted:
        return
    often = Counter(counted)
    usual = max(often, key=lambda count: (often[count], count))
    for rank, count in zip(ranks, counted, strict=True):
        if count >= 0 and count != usual:
            yield _json_place(_against(count, usual), communicator, rank, count)


def _json_place(problem: str, communicator: str, rank: dict[str, Any], count: int) -> RasPlace:
    return RasPlace(
        problem=problem,
        node=_text(rank.get("host"))[:200],
        pid=_number(rank.get("pid")),
        gpu=str(_number(rank.get("nvml_dev"))),
        communicator=communicator,
        rank=_number(rank.get("rank")),
        count=count,
    )


def _tables(value: Any, key: str) -> list[dict[str, Any]]:
    inner = value.get(key) if isinstance(value, dict) else None
    return [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(_number(value)) if isinstance(value, int) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and abs(value) < 1 << 62 else -1
