"""A part of a rank's log, as an order asks for it. Reads one file; knows nothing of who asks."""

from argosy.agent.folder import AttemptFolder
from argosy.contracts.talk import ENDED, LOG_BYTES_MAX, STOPPED, LogPart, ReadLog

MARKS_MAX = 1000


def read_log(order: ReadLog, folder: AttemptFolder, number: int) -> LogPart:
    """Read what an order asks for; number: of the report. What can't be read is told in words."""
    limit = max(0, min(order.limit_bytes, LOG_BYTES_MAX))
    held = folder.held()
    ended = held is None or held.state in (ENDED, STOPPED)
    try:
        with folder.log(order.rank).open("rb") as file:
            size = file.seek(0, 2)
            offset = min(size, order.offset if order.offset >= 0 else max(0, size + order.offset))
            file.seek(offset)
            data, text = file.read(limit), ""
    except OSError as error:
        offset, size, data = max(0, order.offset), 0, b""
        # A rank that is about to start has no log yet: there is nothing to say about that.
        text = f"rank {order.rank} of {order.attempt} {_why_none(folder, error)}" if ended else ""
    return LogPart(
        number=number,
        order=order.id,
        attempt=order.attempt,
        rank=order.rank,
        offset=offset,
        data=data,
        next_offset=offset + len(data),
        size=size,
        ended=ended,
        marks=_marks(folder, order.rank, offset, offset + len(data)),
        text=text,
    )


def _why_none(folder: AttemptFolder, error: OSError) -> str:
    """Say in words why a rank has no log that can be read."""
    if not isinstance(error, FileNotFoundError):
        return f"has no log here: {error.strerror}"
    return "never began here" if folder.path.exists() else "has no log here any more: its node keeps the newest alone"


def _marks(folder: AttemptFolder, rank: int, first: int, end: int) -> tuple[tuple[int, int], ...]:
    """Find when the bytes from first to end were written: the last mark before them, and those within."""
    try:
        lines = folder.marks(rank).read_text(encoding="ascii").splitlines()
    except OSError:
        return ()
    marks = [(int(pair[0]), int(pair[1])) for line in lines if len(pair := line.split()) == 2]
    before = [mark for mark in marks if mark[0] <= first]
    within = [mark for mark in marks if first < mark[0] < end]
    return (*before[-1:], *within[:MARKS_MAX])
