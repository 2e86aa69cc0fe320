"""A clock that remembers: wraps another one and writes what a rank did, and when, to a file.

One JSON file a rank, `rank-00000.json` (contracts.rank_trace), with the host's and, on emulated chips, virtual times of
every forward, backward, exchange and update. The host's clock is read around calls that an accelerator carries out
later, so there it tells when work was launched; nothing here waits for a device, which would change what is measured.
At most MAX_OPS operations are kept, the first ones; the file says how many were dropped.
"""

import time
from pathlib import Path

from argosy.comm.clock import Clock
from argosy.comm.groups import Seat
from argosy.contracts.codec import encode
from argosy.contracts.rank_trace import EMULATED, HOST, RankOp, RankTrace

MAX_OPS = 200_000


class TracedClock:
    """Passes every call on to `inner` and notes it."""

    def __init__(self, inner: Clock, seat: Seat) -> None:
        self.inner = inner
        self.seat = seat
        self.ops: list[RankOp] = []
        self.dropped = 0
        self._step = 1
        self._zero_s: float | None = None
        self._began_ms = 0.0

    def start(self) -> None:
        """Start the clock; the first start is the trace's zero."""
        self.inner.start()
        if self._zero_s is None:
            self._zero_s = time.monotonic()

    def begin(self, kind: str, stage: int, microbatch: int, *, last: bool = False) -> None:
        """Note that work begins; on an emulated chip that may be before its virtual start."""
        self.inner.begin(kind, stage, microbatch, last=last)
        self._began_ms = self._host_ms()

    def end(self, kind: str, stage: int, microbatch: int) -> None:
        """Note the work that ended."""
        self.inner.end(kind, stage, microbatch)
        self._note(kind, stage=stage, microbatch=microbatch)

    def barrier(self) -> None:
        """Note the exchanges that the barrier waited for (rank 0 does, for all)."""
        self.inner.barrier()
        if self.seat.rank == 0:
            for unit, start_ms, end_ms in self.inner.exchanges():
                self._keep(
                    RankOp(
                        kind="X",
                        step=self._step,
                        unit=unit,
                        start_ms=start_ms,
                        end_ms=end_ms,
                        virtual_start_ms=start_ms,
                        virtual_end_ms=end_ms,
                    )
                )
        self._began_ms = self._host_ms()

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
            clock=HOST if self.inner.now_ms() is None else EMULATED,
            ops=tuple(self.ops),
            dropped=self.dropped,
        )
        (folder / f"rank-{self.seat.rank:05d}.json").write_bytes(encode(trace))

    def _note(self, kind: str, stage: int | None = None, microbatch: int | None = None) -> None:
        self._keep(
            RankOp(
                kind=kind,
                step=self._step,
                stage=stage,
                microbatch=microbatch,
                start_ms=self._began_ms,
                end_ms=self._host_ms(),
                virtual_start_ms=self.inner.began_ms(),
                virtual_end_ms=self.inner.now_ms(),
            )
        )

    def _keep(self, op: RankOp) -> None:
        if len(self.ops) < MAX_OPS:
            self.ops.append(op)
        else:
            self.dropped += 1

    def _host_ms(self) -> float:
        return (time.monotonic() - (self._zero_s or 0.0)) * 1e3
