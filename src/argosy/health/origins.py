"""Who printed a line: rank, host and program, from what launchers and collectors put before it and from file names.

Knows torchrun, srun, mpirun, pdsh, docker, Kubernetes, Ray, syslog, the journal, the kernel log, NCCL's and UCX's own
heads. Must not know what a line means.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from argosy.health.stamps import Found, Stamp, stamp_at, stamp_within

PREFIXES_MAX, PATH_CHARS_MAX = 8, 1_024
MACHINE_PROGRAMS = frozenset({"kernel", "systemd", "slurmd", "slurmctld", "kubelet", "dockerd", "containerd", "oomd"})
LEVELS = frozenset({"debug", "info", "warning", "warn", "error", "critical", "fatal", "notice", "trace", "err"})

# By the first character: each tells by its groups of rank, local rank, host, program; `maybe`: a host if it looks so.
_BRACKETED = (
    re.compile(r"\[rank(?P<rank>\d{1,7})\]:? ?"),
    re.compile(r"\[(?:\d+,)?(?P<rank>\d{1,7})\]<std(?:out|err)>: ?"),
    re.compile(r"\[(?:[a-z]+_?)?(?P<local>\d{1,3})\]: ?"),
    re.compile(r"\[(?P<maybe>[a-zA-Z][\w-]*(?:\.[\w-]+)*):\d+(?::\d+)*\] ?"),
    re.compile(r"\[(?P<host>[a-z]{1,12}\d{0,4}-[a-z]{1,4}\d{2,4}|[a-z]{1,6}\d{1,4}-\d{2,4})\] (?=\S)"),
    re.compile(r"\[pod/(?P<host>[\w.-]+)/(?P<program>[\w.-]+)\] ?"),
)
_WORDED = (
    # pdsh and its like, before a line that can't begin otherwise.
    re.compile(
        r"(?!(?:rank|gpu|npu|step|task|xid|log)[-_\d])(?P<host>(?=[\w.-]{0,60}\d)[A-Za-z][\w.-]{0,62}): "
        r"(?=\[ *\d+\.\d+\]|\[rank\d|srun: |slurmstepd: |NVRM: )"
    ),
    re.compile(r"(?P<host>[\w.-]+):(?P<pid>\d{1,9}):\d+ \[(?P<local>-?\d{1,6})\] (?=\S)"),
    re.compile(r"(?P<maybe>[\w.-]+)(?:\s+\||:)\s+(?=\S)"),
    re.compile(r"(?P<maybe>[\w.-]+) (?=\[rank\d)"),
    re.compile(
        r"(?P<maybe>[\w.-]+) (?P<program>kernel|console|ipmi(?:-sel)?|sel|bmc|systemd|slurmd|nic)"
        r"(?:\[\d+\]| counters[^:]{0,20})?: (?=\S)"
    ),
    re.compile(r"(?:stdout|stderr) [FP] "),
    re.compile(r"(?:kern|user|daemon|syslog)\s*[:.]\s*(?:emerg|alert|crit|err|warn|notice|info|debug)\s*: "),
)
_PREFIXES = {
    "[": _BRACKETED,
    "(": (re.compile(r"\((?P<program>[\w:.\[\]]+),? pid=\d+(?:, ip=(?P<host>[\w.:-]+))?\) ?"),),
    "<": (re.compile(r"<\d{1,3}>(?:\d )?"),),
}
_LEVEL = re.compile(r"(?P<keep>\[?(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b\]?)[\s:|]+")
_SPACE = re.compile(r"\s*")
_TASK = re.compile(r"\s*(?P<rank>\d{1,7}): (?=\S)")
_SYSLOG = re.compile(r" (?P<host>[\w.:-]+) (?P<program>[A-Za-z][\w./@-]*)(?P<numbered>\[\d+\])?: ?")
# Not taken off, for it is part of the message.
_SPEAKER = re.compile(
    r"\W{0,2}(?:global )?[Rr]ank[ :=_]{0,2}(?P<rank>\d{1,7})\b(?! (?:of|out))|.{0,80}?\[Rank (?P<rank2>\d{1,7})\]"
)
_SLURM = re.compile(
    r"srun: error: (?P<host>[\w.-]+): task(?:s|(?: (?P<rank>\d{1,7}):))"
    r"|slurmstepd: error: \*\*\* (?:JOB|STEP) \S+ ON (?P<host2>[\w.-]+) "
)

_HOST_WORDS = (
    "node|host|worker|trainer|launcher|master|server|compute|machine|blade|sled|tray|dgx|hgx|gpu|npu|cn|nid|ip|vm"
    "|north|south|east|west|rack|pod|instance|n|w"
)
_HOST = re.compile(
    rf"(?:[a-z0-9]+-)*(?:{_HOST_WORDS})(?:-?\d[a-z0-9]*|-[a-z](?:\d[a-z0-9]*)?)(?:-[a-z0-9]+)*|\d+\.\d+\.\d+\.\d+",
    re.ASCII,
)
# A machine's management controller is named for the machine.
_CONTROLLER = re.compile(r"^(?:bmc|ipmi|ilo|idrac)[-_.]|[-_.](?:bmc|ipmi|ilo|idrac)$", re.IGNORECASE)
_WATCHER = re.compile(r"(?i:[\w-]*(?:agent|exporter|monitor)|node-?check|health-?check|sel|bmc|ipmi(?:-sel)?)")
# Names by rack and place, which are hosts where a program of the machine follows.
_RACKED = re.compile(r"[a-z]{1,12}\d{0,4}(?:-[a-z]{0,4}\d{1,4}){1,3}", re.ASCII)
_LOG_WORDS = r"(?:dmesg|journal(?:ctl)?|syslog|kern(?:el)?|messages|console|slurmd|sel|bmc|ipmi)"
_KERNEL_FILE = re.compile(rf"{_LOG_WORDS}[-_.](?P<after>[\w-]+)|(?P<before>[\w-]+?)[-_.]{_LOG_WORDS}(?![a-z])")
_NAMED_LOCAL = re.compile(r"(?:^|[^a-z])(?:local[_-]?rank|device|gpu_?(?=\d)|npu_?(?=\d))[_-]?(\d{1,2})(?!\d)")
_NAMED_RANK = re.compile(r"(?<!local)(?<!local[_-])(?:^|[^a-z])(?:global[_-]?)?(?:rank|task|proc)[_-]?(\d{1,7})(?!\d)")
_TORCHRUN_FILE = re.compile(r"attempt_\d+/(\d+)/(?:stdout|stderr|error)(?:\.\w+)?$")
# What writes a log often stands before the host in the log's name.
_WRITER = re.compile(
    r"^(?:torchrun|mpirun|srun|slurm|launch(?:er)?|stdout|stderr|train(?:ing)?|nccl|logs?|out|err)[-_.]"
)
_HALVES = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_JSON_HOSTS = ("_hostname", "hostname", "host", "node_name", "nodename", "node", "pod")
_NO_HOST_WORDS = frozenset({"log", "txt", "out", "err", "old", "tail", "all", "boot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who printed: None or empty where nothing tells. pid: of the process, where the line says so."""

    rank: int | None = None
    local_rank: int | None = None
    host: str = ""
    program: str = ""
    pid: int | None = None

    def or_else(self, other: "Origin") -> "Origin":
        """Fill what this one lacks from another."""
        return Origin(
            rank=other.rank if self.rank is None else self.rank,
            local_rank=other.local_rank if self.local_rank is None else self.local_rank,
            host=self.host or other.host,
            program=self.program or other.program,
            pid=other.pid if self.pid is None else self.pid,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A line without what stands before its message. stamp: its time; since_boot: the kernel's, where it has both."""

    text: str
    origin: Origin = field(default_factory=Origin)
    stamp: Stamp | None = None
    since_boot: Stamp | None = None


def origin_of_path(path: str) -> Origin:
    """Read rank and host from a file's name and those of its folders.

    >>> origin_of_path("logs/node-17/rank_3.log")
    Origin(rank=3, local_rank=None, host='node-17', program='', pid=None)
    """
    # Names in archives may be of any length, and each of their letters is a place to begin at.
    lower = path[-PATH_CHARS_MAX:].lower()
    torchrun = _TORCHRUN_FILE.search(lower)
    local = torchrun or _NAMED_LOCAL.search(lower)
    rank = _NAMED_RANK.search(lower)
    return Origin(
        rank=int(rank[1]) if rank else None,
        local_rank=int(local[1]) if local else None,
        host=_host_of_path(lower),
    )


def is_host(name: str) -> bool:
    """Tell whether a word is most likely the name of a host.

    >>> is_host("node-17"), is_host("train.py"), is_host("mlx5_0")
    (True, False, False)
    """
    return _HOST.fullmatch(name.split(".")[0] if name[:1].isalpha() else name) is not None


def read_head(line: str) -> Head:
    """Take off a line what launchers, collectors and loggers put before its message: time, rank, host, program."""
    if line.startswith("{"):
        return _json_head(line)
    origin, stamps, keep = Origin(), [], ""
    task = _TASK.match(line)
    position = task.end() if task else 0
    if task:
        origin = Origin(rank=int(task["rank"]))
    for _ in range(PREFIXES_MAX):
        position = _space_end(line, position)
        found = stamp_at(line, position) or _stamp_after_level(line, position)
        if found is not None:
            stamps.append(found.stamp)
            position, named = _after_stamp(line, found)
            origin, keep = named.or_else(origin), found.keep
            if keep:
                break
            continue
        end, named = _prefix(line, position)
        if end == position:
            break
        position, origin = end, named.or_else(origin)
    text = keep + line[position:] if keep else line[position:].strip()
    if not stamps:
        within = stamp_within(text)
        stamps += [within] if within else []
    return Head(
        text=text,
        origin=origin.or_else(_speaker(text)),
        stamp=max((stamp for stamp in stamps), key=_completeness, default=None),
        since_boot=next((stamp for stamp in stamps if stamp.kind == "boot"), None),
    )


def _space_end(line: str, position: int) -> int:
    found = _SPACE.match(line, position)
    return found.end() if found else position


def _stamp_after_level(line: str, position: int) -> Found | None:
    """Read a time that stands behind the level, as vLLM and others write it; the level stays."""
    level = _LEVEL.match(line, position)
    found = stamp_at(line, level.end()) if level else None
    return Found(stamp=found.stamp, end=found.end, keep=level["keep"]) if found and level else None


def _prefix(line: str, position: int) -> tuple[int, Origin]:
    """Read one prefix; gives its end, which is `position` where there is none."""
    for form in _PREFIXES.get(line[position : position + 1], _WORDED):
        found = form.match(line, position)
        if found:
            groups = found.groupdict()
            maybe = groups.get("maybe")
            if maybe is None or is_host(maybe) or (groups.get("program") and _RACKED.fullmatch(maybe)):
                return found.end(), _origin(groups)
    return position, Origin()


def _origin(groups: dict[str, str | None]) -> Origin:
    rank, local, pid = groups.get("rank"), groups.get("local"), groups.get("pid")
    return Origin(
        rank=int(rank) if rank else None,
        local_rank=int(local) if local and int(local) >= 0 else None,
        host=_CONTROLLER.sub("", groups.get("host") or groups.get("maybe") or ""),
        program=groups.get("program") or "",
        pid=int(pid) if pid else None,
    )


def _after_stamp(line: str, found: Found) -> tuple[int, Origin]:
    """Read `host program[pid]:` behind a time, as syslog and the journal write it."""
    after = None if found.keep else _SYSLOG.match(line, found.end)
    if after is None or after["host"].lower().rstrip(":") in LEVELS or after["host"].endswith(":"):
        return found.end, Origin()
    # Two words and a colon may as well be the message's own, so an odd name needs what only a machine's log has.
    machine = after["program"] in MACHINE_PROGRAMS or (after["numbered"] and found.stamp.kind != "boot")
    again = line.startswith(f"{after['host']}:", after.end())
    watched = _WATCHER.fullmatch(after["program"]) and _RACKED.fullmatch(after["host"])
    if not (is_host(after["host"]) or machine or again or watched):
        return found.end, Origin()
    return after.end(), _origin(after.groupdict())


def _speaker(text: str) -> Origin:
    """Read whom the message itself names as the one who speaks, or is spoken of."""
    slurm = _SLURM.match(text)
    if slurm and "DUE TO NODE FAIL" in text:
        return Origin()
    if slurm:
        return Origin(rank=int(slurm["rank"]) if slurm["rank"] else None, host=slurm["host"] or slurm["host2"])
    found = _SPEAKER.match(text)
    rank = (found["rank"] or found["rank2"]) if found else None
    return Origin(rank=int(rank) if rank else None)


def _completeness(stamp: Stamp) -> tuple[bool, bool, bool, bool]:
    """Order the times of a line by how much they say."""
    return stamp.kind != "boot", stamp.zoned, stamp.year is not None, stamp.day is not None


def _host_of_path(path: str) -> str:
    for part in reversed(PurePosixPath(path).parts):
        kernel = _KERNEL_FILE.search(part)
        name = (kernel["after"] or kernel["before"]) if kernel else ""
        if name and name not in _NO_HOST_WORDS and not name.isdecimal():
            return name
        address = re.search(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d])", part)
        words = re.split(r"[_.]", _WRITER.sub("", part))
        host = address[0] if address else next(filter(_HOST.fullmatch, words), "")
        if host:
            return host
    return ""


def _json_head(line: str) -> Head:
    """Read a line that is a JSON object: docker's, the journal's, or a structured logger's."""
    try:
        # Halves of characters can't be written out again.
        found = json.loads(_HALVES.sub("?", line) if "\\u" in line else line)
    except (ValueError, RecursionError):
        return Head(text=line.strip(), origin=_speaker(line))
    values = {str(key).lower(): value for key, value in found.items()} if isinstance(found, dict) else {}
    message = next(
        (values[key] for key in ("log", "message", "msg", "text", "event") if isinstance(values.get(key), str)), None
    )
    if message is None:
        return Head(text=line.strip())
    inner = read_head(str(message).strip()) if not str(message).startswith("{") else Head(text=str(message).strip())
    host = next((values[key] for key in _JSON_HOSTS if isinstance(values.get(key), str)), "")
    rank = values.get("rank")
    origin = Origin(
        rank=rank if isinstance(rank, int) and not isinstance(rank, bool) else None,
        host=host,
        program=str(values.get("syslog_identifier") or ""),
    )
    stamp = _json_stamp(values)
    stamps = [one for one in (inner.stamp, stamp) if one]
    return Head(
        text=inner.text,
        origin=inner.origin.or_else(origin),
        stamp=max(stamps, key=_completeness, default=None),
        since_boot=inner.since_boot,
    )


def _json_stamp(values: dict[str, object]) -> Stamp | None:
    micros = values.get("__realtime_timestamp")
    if isinstance(micros, str) and re.fullmatch(r"1\d{15}", micros, re.ASCII):
        return Stamp(us=int(micros), kind="epoch")
    for key in ("time", "timestamp", "@timestamp", "ts", "asctime", "datetime"):
        value = values.get(key)
        if isinstance(value, str):
            found = stamp_at(value)
            if found:
                return found.stamp
        if isinstance(value, int | float) and 1e9 < value < 1e10:
            return Stamp(us=round(value * 1_000_000), kind="epoch")
        if isinstance(value, int | float) and 1e12 < value < 1e13:
            return Stamp(us=round(value * 1_000), kind="epoch")
    return None
