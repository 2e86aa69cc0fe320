"""Reads stacks of ranks (`py-spy dump`, its JSON, Python's faulthandler) and merges many into one tree.

Equal stacks are counted before the tree is grown, so 100,000 ranks cost little more than the few stacks they share.
Must not know traces.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from argosy.contracts.errors import BadInputError
from argosy.health.words import rank_words

FRAMES_MAX = 1_000
THREADS_MAX = 10_000

_PYSPY_PROCESS = re.compile(r"^Process (\d{1,9}): (.{0,400})")
_PYSPY_THREAD = re.compile(r'^Thread (0x[0-9A-Fa-f]+|\d+) \(([^)]{1,40})\)(?:: "(.{0,200})")?')
_PYSPY_FRAME = re.compile(r"^ {4}(\S.{0,300}?) \(([^()]{1,300}?)(?::(\d{1,9}))?\)$")
_FAULT_THREAD = re.compile(
    r"^(Current thread|Thread) (0x[0-9A-Fa-f]+)(?: \[([^\]]{0,100})\])? \(most recent call first\):"
)
_FAULT_FRAME = re.compile(r'^ {2}File "(.{1,400}?)", line (\d{1,9}|\?\?\?) in (.{1,300})$')

# The outermost frame of a thread that another one started, and the innermost of one that waits for another.
_STARTED = re.compile(r"^_?_?bootstrap|\bthreading\.py|^_worker ")
_WAITS = re.compile(r"^(?:join|_wait_for_tstate_lock|wait|acquire|_recv_bytes|poll|select) ")
_LIBRARY = re.compile(r"site-packages|dist-packages|lib/python\d|<frozen|\.so\b|\(<")

ACTIVITIES = ("collective", "checkpoint", "data", "compile")
_ACTIVITY = (
    ("checkpoint", re.compile(r"serialization\.py|safetensors|checkpoint|\bsave_file\b|\bfsync\b|state_dict_saver")),
    ("data", re.compile(r"dataloader\.py|_next_data|_try_get_data|/datasets/|/data/_utils/|webdataset|dataset\.py")),
    ("compile", re.compile(r"torch/_inductor|torch/_dynamo|triton/compiler")),
    (
        "collective",
        re.compile(
            r"distributed_c10d\.py|wait_tensor|_functional_collectives|c10d_logger\.py|\bbarrier\b|monitored_barrier"
            r"|store_based_barrier|ncclKernel|\ball_reduce\b|\ball_gather\b|\breduce_scatter\b|pipelining/"
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """One thread. frames: innermost first, `function (file:line)`. main: the thread the program began with."""

    name: str
    state: str = ""
    frames: tuple[str, ...] = ()
    main: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStacks:
    """All threads of one process. pid: -1 where it is not told."""

    pid: int = -1
    command: str = ""
    threads: tuple[ThreadStack, ...] = ()

    @property
    def main(self) -> ThreadStack | None:
        """Give the thread that runs the program: so named, else the last that no other thread started.

        Whoever dumps may be any thread. Where the program only waits for a thread that is in a collective, that one.
        """
        if not self.threads:
            return None
        named = [thread for thread in self.threads if thread.main]
        first = named or [thread for thread in self.threads if thread.frames and not _STARTED.search(thread.frames[-1])]
        chosen = (first or self.threads)[-1]
        if not activity_of(chosen.frames) and (not chosen.frames or _WAITS.search(chosen.frames[0])):
            inside = [thread for thread in self.threads if activity_of(thread.frames) == "collective"]
            return inside[0] if inside else chosen
        return chosen


@dataclass(slots=True, kw_only=True)
class StackTree:
    """A frame, the ranks that pass through it, and what they call from it; the root is no frame."""

    frame: str = ""
    ranks: list[int] = field(default_factory=list)
    children: dict[str, "StackTree"] = field(default_factory=dict)


def looks_like_stacks(head: bytes) -> bool:
    """Tell whether a file's first bytes hold stacks of a Python process."""
    if head.lstrip()[:1] == b"[":
        return b'"owns_gil"' in head and b'"frames"' in head
    lines = head[:65536].decode("utf-8", "replace").splitlines()
    pyspy = any(_PYSPY_THREAD.match(line) for line in lines) and any(_PYSPY_PROCESS.match(line) for line in lines)
    # A crash's stacks stand in many a log; a file is a dump of stacks only where it begins with them
    return pyspy or any(_FAULT_THREAD.match(line) for line in lines[:3])


def read_stacks(name: str, data: bytes) -> tuple[ProcessStacks, ...]:
    """Read the processes in a dump of stacks; raises BadInputError when its JSON is damaged."""
    if data.lstrip()[:1] == b"[":
        return (_from_json(name, data),)
    return tuple(_processes(data.decode("utf-8", "replace").splitlines()))


def _from_json(name: str, data: bytes) -> ProcessStacks:
    try:
        threads = msgspec.json.decode(data, type=list[_JsonThread])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{name}: damaged JSON of py-spy: {error}") from error
    return ProcessStacks(
        pid=threads[0].pid if threads else -1,
        threads=tuple(
            ThreadStack(
                name=thread.thread_name or "",
                state=("active" if thread.active else "idle") + ("+gil" if thread.owns_gil else ""),
                frames=tuple(
                    f"{each.name} ({each.filename}:{each.line})" if each.line else f"{each.name} ({each.filename})"
                    for each in thread.frames[:FRAMES_MAX]
                ),
                main=thread.thread_name == "MainThread",
            )
            for thread in threads[:THREADS_MAX]
        ),
    )


class _JsonFrame(msgspec.Struct):
    name: str
    filename: str = ""
    line: int = 0


class _JsonThread(msgspec.Struct):
    pid: int = -1
    thread_name: str | None = None
    active: bool = False
    owns_gil: bool = False
    frames: list[_JsonFrame] = []


@dataclass(slots=True)
class _Draft:
    pid: int = -1
    command: str = ""
    threads: list[tuple[str, str, bool, list[str]]] = field(default_factory=list)

    def done(self) -> ProcessStacks:
        threads = (
            ThreadStack(name=name, state=state, frames=tuple(frames), main=main)
            for name, state, main, frames in self.threads
        )
        return ProcessStacks(pid=self.pid, command=self.command, threads=tuple(threads))


def _processes(lines: Iterable[str]) -> Iterator[ProcessStacks]:
    draft = _Draft()
    for line in lines:
        if found := _PYSPY_PROCESS.match(line):
            if draft.threads:
                yield draft.done()
            draft = _Draft(pid=int(found.group(1)), command=found.group(2))
        elif found := _PYSPY_THREAD.match(line):
            name = found.group(3) or ""
            _begin(draft, name or found.group(1), found.group(2), name == "MainThread")
        elif found := _FAULT_THREAD.match(line):
            _begin(draft, found.group(3) or found.group(2), "", found.group(3) == "MainThread")
        elif draft.threads and (frame := _frame(line)) and len(draft.threads[-1][3]) < FRAMES_MAX:
            draft.threads[-1][3].append(frame)
    if draft.threads:
        yield draft.done()


def _begin(draft: _Draft, name: str, state: str, main: bool) -> None:
    if len(draft.threads) < THREADS_MAX:
        draft.threads.append((name, state, main, []))


def _frame(line: str) -> str:
    if found := _PYSPY_FRAME.match(line):
        function, file, number = found.groups()
        return f"{function} ({file}:{number})" if number else f"{function} ({file})"
    if found := _FAULT_FRAME.match(line):
        file, number, function = found.groups()
        return f"{function} ({file}:{number})"
    return ""


def activity_of(frames: Iterable[str]) -> str:
    """Say what a thread was at by its innermost telling frame: one of ACTIVITIES, empty where nothing tells."""
    for frame in frames:
        for activity, pattern in _ACTIVITY:
            if pattern.search(frame):
                return activity
    return ""


def merge_stacks(stacks: Iterable[tuple[int, tuple[str, ...]]]) -> StackTree:
    """Merge stacks of many ranks, each (rank, frames innermost first), into one tree."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for rank, frames in stacks:
        alike.setdefault(frames, []).append(rank)
    root = StackTree()
    for frames, ranks in alike.items():
        node = root
        node.ranks += ranks
        for frame in reversed(frames):
            node = node.children.setdefault(frame, StackTree(frame=frame))
            node.ranks += ranks
    return root


def tree_lines(tree: StackTree, *, brief: bool = False, lines_max: int = 200) -> tuple[str, ...]:
    """Draw a tree, most ranks first; a frame is indented below its caller only where the ranks part.

    brief: of frames that the same ranks share only the innermost is drawn, without the folders of its file.
    """
    lines: list[str] = []
    waiting = [(child, 0) for child in _by_ranks(tree)]
    while waiting and len(lines) < lines_max:
        node, depth = waiting.pop(0)
        below = _by_ranks(node)
        alone = len(below) == 1 and len(below[0].ranks) == len(node.ranks)
        if not (brief and alone):
            frame = short_frame(node.frame) if brief else node.frame
            lines.append(f"{'  ' * depth}{frame}   {rank_words(node.ranks)}")
        waiting = [(child, depth + (len(below) > 1)) for child in below] + waiting
    return tuple(lines)


def short_frame(frame: str) -> str:
    """Leave the folders of a frame's file out."""
    return re.sub(r"\((?:[^()]*[/\\])?([^()/\\]+)\)$", r"(\1)", frame)


def telling_frames(frames: Sequence[str]) -> tuple[str, ...]:
    """Choose what shows best where a thread is: its innermost frame, the one that tells its activity, its own code."""
    telling = next((frame for frame in frames if activity_of((frame,))), "")
    own = next((frame for frame in frames if not _LIBRARY.search(frame)), "")
    chosen = {frame for frame in (*frames[:1], telling, own) if frame}
    return tuple(dict.fromkeys(short_frame(frame) for frame in frames if frame in chosen))


def _by_ranks(tree: StackTree) -> list[StackTree]:
    return sorted(tree.children.values(), key=lambda child: (-len(child.ranks), child.frame))
