"""Reads a dump of PyTorch's Flight Recorder: pickle or JSON, NCCL, gloo or another backend, with or without groups.

The rank is not in the dump, so it comes from the file's name. The pickle is read as plain data, never run. What differs
by backend (torch 2.13): NCCL tells when a kernel was seen to start only where timing is on; gloo leaves every state at
`scheduled` and marks an operation `retired` once it is done, and does not note messages. Must not know how culprits are
found.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec

from argosy.contracts.errors import BadInputError
from argosy.health.dumps_pickle import read_plain_pickle
from argosy.health.traces import Collective, GroupTrace, RankTraceOfGroups, group_trace

# Where members put in different amounts by right, sizes say nothing of a mismatch.
_UNEVEN = frozenset({"all_to_all", "all_gather_v", "reduce_scatter_v", "gather", "scatter", "split", "coalesced"})
_SYNONYMS = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "all_reduce_barrier": "barrier",
    "_all_gather_base": "all_gather",
    "all_gather_single": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "allgather": "all_gather",
    "allgather_coalesced": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "all_to_all_v_single": "all_to_all",
    "alltoall_base": "all_to_all",
    "_broadcast_oop": "broadcast",
    "_reduce_oop": "reduce",
    "recv": "receive",
}
_MESSAGE = re.compile(r"(send|recv)(?: (\d+)(->|<-)(\d+))?$")
_RANK_IN_NAME = (
    re.compile(r"rank[_.=-]?(\d{1,7})(?!\d)(?!.*rank[_.=-]?\d)[^/]*$", re.IGNORECASE),
    re.compile(r"(?<!\d)(\d{1,7})[^\d/]*$"),
    re.compile(r"rank[_.=-]?(\d{1,7})/[^/]*$", re.IGNORECASE),
)
_RETIRED_MEANS_DONE = ("gloo", "ucc", "mpi")
_NOTES_NO_MESSAGES = ("gloo",)
_WHOLE_MAX = 1 << 62
_NUMBER = re.compile(r"-?[0-9]{1,18}")
TEXT_MAX = 4_000
# What has three bytes in JSON may take over two hundred in memory; a recorder of 20,000 entries writes three million
# brackets and commas. One list of a pickle may stand in many places of it, so what is done for each is bounded, too.
PIECES_MAX, ENTRIES_MAX, SHAPES_MAX, DIMENSIONS_MAX = 10_000_000, 100_000, 256, 16
RANKS_CHARS_MAX, GROUP_CHARS, RANK_CHARS = 1 << 26, 64, 20
NAME_CHARS_MAX = 1_024
KEPT = 128
"""Of so many entries a group the finished ones are read, too, the last first; what is open is always read."""


def looks_like_flight(head: bytes) -> bool:
    """Tell whether a file's first bytes begin a Flight Recorder dump."""
    start = head[:65536]
    if start.lstrip()[:1] == b"{":
        return b'"entries"' in start or b'"pg_config"' in start or b'"comm_lib_version"' in start
    return start[:1] == b"\x80" and (b"entries" in start or b"pg_config" in start)


def read_flight(name: str, data: bytes) -> RankTraceOfGroups:
    """Read one rank's dump; `name` is its file's, whose last number is the rank.

    Raises BadInputError when the dump is damaged, holds more than plain data, is of another major version than 2, or
    when no rank is in the name.
    """
    dump = _table(_load(name, data), name)
    version = _short(dump.get("version"))[:40]
    if not version.startswith("2."):
        raise BadInputError(f"{name}: a Flight Recorder dump of version {version or 'unknown'}; 2.x can be read")
    rank = rank_of(name)
    entries = [each for each in _list(dump.get("entries"))[-ENTRIES_MAX:] if isinstance(each, dict)]
    members = _members(name, dump.get("pg_config"))
    return RankTraceOfGroups(
        rank=rank,
        groups=tuple(_groups(entries, members, _completed(dump.get("pg_status")))),
        notes_messages=all(_backend(each) not in _NOTES_NO_MESSAGES for each in entries[-1:]),
    )


def rank_of(name: str) -> int:
    """Find the rank in a file's name, such as `nccl_trace_rank_12` or `dump-12.json`.

    Raises BadInputError when there is none.
    """
    for pattern in _RANK_IN_NAME:
        if found := pattern.search(name[-NAME_CHARS_MAX:]):
            return int(found.group(1))
    raise BadInputError(f"{name}: a Flight Recorder dump does not say whose it is; name the file rank_N, N the rank")


def _load(name: str, data: bytes) -> Any:
    if data.lstrip()[:1] != b"{":
        try:
            return read_plain_pickle(data)
        except BadInputError as error:
            raise BadInputError(f"{name}: {error}") from error
    pieces = sum(map(data.count, (b"{", b"[", b",")))
    if pieces > PIECES_MAX:
        raise BadInputError(f"{name}: JSON of {pieces:,} pieces; no Flight Recorder writes over {PIECES_MAX:,}")
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{name}: damaged JSON: {error}") from error


def _table(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadInputError(f"{name}: not a Flight Recorder dump; it should be a table with `entries`")
    return value


def _members(source: str, config: Any) -> dict[str, tuple[tuple[int, ...], str]]:
    """Read `pg_config`: per group its members and description; nothing where it is empty, as gloo leaves it."""
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    left = RANKS_CHARS_MAX
    for name, each in config.items() if isinstance(config, dict) else ():
        text = _listed(each.get("ranks")) if isinstance(each, dict) else ""
        left -= len(text) + GROUP_CHARS
        if left < 0:
            raise BadInputError(f"{source}: lists more members of groups than any job has")
        if ranks := _ranks(text):
            found[_short(name)] = (ranks, _short(each.get("desc")))
    return found


def _listed(value: Any) -> str:
    """Give the ranks of a group as text: written out, or as a list."""
    if isinstance(value, list | tuple):
        return " ".join(_short(each)[:RANK_CHARS] for each in value)
    return value if isinstance(value, str) else ""


@lru_cache(maxsize=4096)
def _ranks(text: str) -> tuple[int, ...]:
    # cached, so that the members of one group are one object however many ranks' dumps name them
    return tuple(sorted({int(each) for each in re.findall(r"\d{1,9}", text)}))


def _completed(status: Any) -> dict[str, int]:
    """Read `pg_status`: by `pg_id` the last operation that ended well; numbers are texts in JSON."""
    found = {}
    for name, each in status.items() if isinstance(status, dict) else ():
        last = each.get("last_completed_collective") if isinstance(each, dict) else None
        text = _short(last)
        if _NUMBER.fullmatch(text):
            found[_short(name)] = int(text)
    return found


def _groups(
    entries: list[dict[str, Any]], members: Mapping[str, tuple[tuple[int, ...], str]], completed: Mapping[str, int]
) -> Iterable[GroupTrace]:
    by_group: dict[str, list[Collective]] = {name: [] for name in members}
    messages: dict[str, list[Collective]] = {}
    words: dict[str, str] = {name: description for name, (_, description) in members.items()}
    told = _tells_ends(entries, completed)
    completed = _caught_up(entries, completed)
    kept: dict[str, int] = {}
    for entry in reversed(entries):
        name, description = _group_name(entry)
        kept[name] = kept.get(name, 0) + 1
        done = completed.get(_short(entry.get("pg_id")))
        if kept[name] > KEPT and _state(entry, done) == "finished":
            continue
        words.setdefault(name, description)
        collective = _collective(entry, members.get(name, ((), ""))[0], done)
        place = by_group if collective.peer is None else messages
        place.setdefault(name, []).append(collective)
    for name in sorted({*by_group, *messages}):
        ranks = members.get(name, ((), ""))[0]
        yield group_trace(
            _identity(name, ranks),
            _last_of_each(by_group.get(name, [])),
            description=words.get(name, ""),
            members=ranks,
            messages=_of_batches(messages.get(name, [])),
            ends_known=told,
        )


def _tells_ends(entries: Iterable[Mapping[str, Any]], completed: Mapping[str, int]) -> bool:
    """Tell whether a dump says what is finished: older recorders of such backends write neither state nor `retired`."""
    return bool(completed) or not any(
        _backend(entry) in _RETIRED_MEANS_DONE and "retired" not in entry and entry.get("state") != "completed"
        for entry in entries
    )


def _caught_up(entries: Iterable[Mapping[str, Any]], completed: Mapping[str, int]) -> dict[str, int]:
    """Count what is retired and was followed by another as completed: `pg_status` is written some time after."""
    retired: dict[str, list[int]] = {}
    last: dict[str, int] = {}
    for entry in entries:
        group, number = _short(entry.get("pg_id")), _whole(entry.get("op_id"))
        if group in completed:
            last[group] = max(last.get(group, -1), number)
            if entry.get("retired") is True:
                retired.setdefault(group, []).append(number)
    return {
        group: max([done, *(number for number in retired.get(group, ()) if number < last[group])])
        for group, done in completed.items()
    }


def _short(value: Any) -> str:
    """Write a name or number; whatever else a stranger put there is none, for writing it out may never end."""
    if isinstance(value, str):
        return value[:TEXT_MAX]
    return str(value) if isinstance(value, int) and abs(value) < _WHOLE_MAX else ""


def _last_of_each(collectives: Iterable[Collective]) -> Iterable[Collective]:
    """Keep one entry a sequence: a coalesced group shares one, and its last, which is read first, stands for it."""
    found: dict[int, Collective] = {}
    for each in collectives:
        found.setdefault(each.sequence, each)
    return found.values()


def _of_batches(messages: list[Collective]) -> Iterable[Collective]:
    """Give the messages of a batch the state of the batch: only the batch's own entry follows what became of it."""
    batches = {each.sequence: each for each in messages if each.operation == "coalesced"}
    single = [each for each in messages if each.operation != "coalesced"]
    inside = {each.sequence for each in single}
    yield from (each for each in batches.values() if each.sequence not in inside)
    for each in single:
        batch = batches.get(each.sequence)
        yield each if batch is None else replace(each, state=batch.state)


def _identity(name: str, ranks: tuple[int, ...]) -> str:
    """Name a group apart from others of its name: `split_group` gives one name to several sets of ranks."""
    return f"{name}/{ranks[0]}-{ranks[-1]}/{len(ranks)}" if ranks else name


def _group_name(entry: Mapping[str, Any]) -> tuple[str, str]:
    pair = entry.get("process_group")
    if isinstance(pair, list | tuple) and len(pair) == 2:
        return _short(pair[0]), _short(pair[1])
    return _short(pair), ""


def _collective(entry: Mapping[str, Any], members: tuple[int, ...], completed: int | None) -> Collective:
    operation, peer = _operation(_short(entry.get("profiling_name")).rpartition(":")[2], members)
    peer = -1 if peer is None and entry.get("is_p2p") is True else peer
    message = peer is not None
    started, finished = (_us(entry.get(f"time_discovered_{each}_ns")) for each in ("started", "completed"))
    return Collective(
        sequence=_whole(entry.get("p2p_seq_id" if message else "collective_seq_id")),
        operation=operation,
        state=_state(entry, completed),
        dtype=_dtype(entry),
        size=-1 if operation in _UNEVEN else _elements(entry, operation),
        peer=peer,
        enqueued_us=_us(entry.get("time_created_ns")),
        started_us=started,
        finished_us=finished,
    )


def _operation(action: str, members: tuple[int, ...]) -> tuple[str, int | None]:
    """Read an operation and, of a message, its peer as a global rank; -1 where the group's members are not known."""
    if found := _MESSAGE.match(action):
        place = found.group(4)
        index = int(place) if place is not None else -1
        peer = members[index] if 0 <= index < len(members) else -1
        return _SYNONYMS.get(found.group(1), found.group(1)), peer
    word = action.strip()[:60]
    return _SYNONYMS.get(word.lower(), word.lower() or "unknown"), None


def _state(entry: Mapping[str, Any], completed: int | None) -> str:
    state = entry.get("state")
    if state == "completed":
        return "finished"
    number = _whole(entry.get("op_id") or entry.get("collective_seq_id"))
    if "retired" not in entry and _backend(entry) in _RETIRED_MEANS_DONE:
        return "finished" if completed is not None and 0 <= number <= completed else "enqueued"
    # What failed is retired, too, but never counted as completed
    failed = completed is not None and _whole(entry.get("op_id")) > completed
    if entry.get("retired") is True and _backend(entry) in _RETIRED_MEANS_DONE and not failed:
        return "finished"
    return "started" if state == "started" else "enqueued"


def _backend(entry: Mapping[str, Any]) -> str:
    return _short(entry.get("profiling_name")).partition(":")[0]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dtype(entry: Mapping[str, Any]) -> str:
    dtypes = _list(entry.get("input_dtypes"))
    return _short(dtypes[0])[:20] if dtypes else ""


def _elements(entry: Mapping[str, Any], operation: str) -> int:
    # The root of a broadcast puts in what the others only get, so there the output's size is compared
    sizes = entry.get("output_sizes" if operation == "broadcast" else "input_sizes")
    if not isinstance(sizes, list):
        return -1
    shapes = [shape for shape in sizes[:SHAPES_MAX] if isinstance(shape, list)]
    total = sum(math.prod(map(_whole, shape[:DIMENSIONS_MAX])) for shape in shapes)
    return total if 0 <= total < _WHOLE_MAX else -1


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and abs(value) < _WHOLE_MAX else -1


def _us(value: Any) -> int | None:
    whole = _whole(value)
    return whole // 1000 if whole > 0 else None
