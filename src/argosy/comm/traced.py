"""A clock that remembers: wraps another one and writes what a rank did, and when, to a file.

One JSON file a rank, `rank-00000.json`, with wall and, on emulated chips, virtual times of every forward, backward,
exchange and update. At most MAX_OPS operations are kept, the first ones; the file says how many were dropped.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from argosy.comm.clock import Clock
from argosy.comm.groups import Seat
from argosy.contracts.codec import encode

MAX_OPS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedOp:
    """One operation of one rank. kind: F, B, X (exchange of a unit's gradient) or U (update). step: counted from 1.

    start_ms, end_ms: wall time since the clock's start; virtual ones are emulated and None on real chips. For X only
    virtual times are known, so start_ms and end_ms repeat them.
    """

    kind: str
    step: int
    start_ms: float
    end_ms: float
    microbatch: int | None = None
    unit: int | None = None
    virtual_start_ms: float | None = None
    virtual_end_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTrace:
    """What one rank did. dropped: operations beyond MAX_OPS."""

    rank: int
    replica: int
    stage: int
    tp_index: int
    ops: tuple[TracedOp, ...]
    dropped: int = 0
    version: int = 1


class TracedClock:
    """Passes every call on to `inner` and notes it."""

    def __init__(self, inner: Clock, seat: Seat) -> None:
        self.inner = inner
        self.seat = seat
        self.ops: list[TracedOp] = []
        self.dropped = 0
        self._step = 1
        self._zero_s: float | None = None
        self._began_ms = 0.0

    def start(self) -> None:
        """Start the clock; the first start is the trace's zero."""
        self.inner.start()
        if self._zero_s is None:
            self._zero_s = time.monotonic()

    def begin(self, kind: str, microbatch: int, *, last: bool = False) -> None:
        """Note that work begins; on an emulated chip that may be before its virtual start."""
        self.inner.begin(kind, microbatch, last=last)
        self._began_ms = self._wall_ms()

    def end(self, kind: str, microbatch: int) -> None:
        """Note the work that ended."""
        self.inner.end(kind, microbatch)
        self._note(kind, microbatch=microbatch)

    def barrier(self) -> None:
        """Note the exchanges that the barrier waited for (rank 0 does, for all)."""
        self.inner.barrier()
        if self.seat.rank == 0:
            for unit, start_ms, end_ms in self.inner.exchanges():
                self._keep(
                    TracedOp(
                        kind="X",
                        step=self._step,
                        unit=unit,
                        start_ms=start_ms,
                        end_ms=end_ms,
                        virtual_start_ms=start_ms,
                        virtual_end_ms=end_ms,
                    )
                )
        self._began_ms = self._wall_ms()

    def updated(self) -> None:
        """Note the optimizer's step."""
        self.inner.updated()
        self._note("U")
        self._step += 1

    def gathered(self) -> None:
        """Pass on."""
        self.inner.gathered()

    def now_ms(self) -> float | None:
        """Give the inner clock's time."""
        return self.inner.now_ms()

    def began_ms(self) -> float | None:
        """Give the inner clock's start of the work at hand."""
        return self.inner.began_ms()

    def exchanges(self) -> list[tuple[int, float, float]]:
        """Give the inner clock's last exchanges."""
        return self.inner.exchanges()

    def write(self, folder: Path) -> None:
        """Write the rank's file."""
        folder.mkdir(parents=True, exist_ok=True)
        trace = RankTrace(
            rank=self.seat.rank,
            replica=self.seat.replica,
            stage=self.seat.stage,
            tp_index=self.seat.tp_index,
            ops=tuple(self.ops),
            dropped=self.dropped,
        )
        (folder / f"rank-{self.seat.rank:05d}.json").write_bytes(encode(trace))

    def _note(self, kind: str, microbatch: int | None = None) -> None:
        self._keep(
            TracedOp(
                kind=kind,
                step=self._step,
                microbatch=microbatch,
                start_ms=self._began_ms,
                end_ms=self._wall_ms(),
                virtual_start_ms=self.inner.began_ms(),
                virtual_end_ms=self.inner.now_ms(),
            )
        )

    def _keep(self, op: TracedOp) -> None:
        if len(self.ops) < MAX_OPS:
            self.ops.append(op)
        else:
            self.dropped += 1

    def _wall_ms(self) -> float:
        return (time.monotonic() - (self._zero_s or 0.0)) * 1e3
