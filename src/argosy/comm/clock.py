"""The emulated clock: real arithmetic on the CPU, paced to the times that the plan gives emulated chips and wires.

Each operation starts at max(own clock, arrival of what it depends on), does its real work, and sleeps until its end on
the virtual clock, an absolute deadline: lateness is absorbed, never added up. Ranks tell each other virtual times on a
board in shared memory, written before the message that makes the peer look. All ranks of a clock run on one host.
Follows the step that docs/plan.md describes, as `plan.timing.timeline` does; must not know models or data.
"""

import ctypes
import mmap
import time
from pathlib import Path
from typing import Protocol

import numpy as np

from argosy.comm.groups import Seat
from argosy.contracts.plan import Plan
from argosy.network.exchanges import gathered, gradient_delay_ms, serve_exchanges, serve_gathers
from argosy.network.wires import Queue, find_wire

_PR_SET_TIMERSLACK = 29
_HEADER_BYTES = 64
# Of a rank's row on the board; then when the last backward of each of its virtual stages began, then all its work.
_LAST_END, _CLOCK = 0, 1
_FIXED_SLOTS = 2


class Clock(Protocol):
    """What the trainer tells a clock; a real chip's clock ignores it all."""

    def start(self) -> None:
        """Set the zero of time; all ranks call it between two barriers."""

    def begin(self, kind: str, stage: int, microbatch: int, *, last: bool = False) -> None:
        """Say that a forward (F), backward (B) or the weights' part (W) of a stage begins; its input has arrived.

        last: it makes the stage's gradients whole.
        """

    def end(self, kind: str, stage: int, microbatch: int) -> None:
        """Say that its arithmetic is done; returns when its time has passed."""

    def barrier(self) -> None:
        """Say that all ranks' gradients and their norm are summed."""

    def updated(self) -> None:
        """Say that the optimizer's step is done."""

    def gathered(self) -> None:
        """Say that updated parameters were spread (all ranks call it, between two barriers)."""

    def now_ms(self) -> float | None:
        """Give this rank's virtual time in ms; None on real chips."""

    def began_ms(self) -> float | None:
        """Give the virtual start of the work that was last begun; None on real chips."""

    def exchanges(self) -> list[tuple[int, float, float]]:
        """Give (unit, start_ms, end_ms) of all exchanges before the last barrier, in virtual time."""


class RealClock:
    """The clock of real chips: nothing to pace."""

    def start(self) -> None:
        """Do nothing."""

    def begin(self, kind: str, stage: int, microbatch: int, *, last: bool = False) -> None:
        """Do nothing."""

    def end(self, kind: str, stage: int, microbatch: int) -> None:
        """Do nothing."""

    def barrier(self) -> None:
        """Do nothing."""

    def updated(self) -> None:
        """Do nothing."""

    def gathered(self) -> None:
        """Do nothing."""

    def now_ms(self) -> float | None:
        """Give no virtual time."""
        return None

    def began_ms(self) -> float | None:
        """Give no virtual time."""
        return None

    def exchanges(self) -> list[tuple[int, float, float]]:
        """Give none."""
        return []


def board_bytes(plan: Plan) -> int:
    """Size of the board that a plan's ranks share."""
    return _HEADER_BYTES + 2 * plan.world_size * _slots(plan) * 8


def _slots(plan: Plan) -> int:
    return _FIXED_SLOTS + plan.virtual_stages * (1 + 2 * max(replica.microbatches for replica in plan.replicas))


class Board:
    """Virtual times of all ranks in a shared file, two steps deep: a fast rank may be a step ahead of a reader."""

    def __init__(self, path: Path, plan: Plan) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), board_bytes(plan))
        self._zero = np.frombuffer(self._map, dtype=np.float64, count=1)
        times = np.frombuffer(self._map, dtype=np.float64, offset=_HEADER_BYTES)
        self.times = times.reshape(2, plan.world_size, _slots(plan))

    @property
    def zero_s(self) -> float:
        """Wall time (monotonic) of virtual time 0."""
        return float(self._zero[0])

    @zero_s.setter
    def zero_s(self, value: float) -> None:
        self._zero[0] = value


class EmulatedClock:
    """One rank's virtual clock."""

    def __init__(self, plan: Plan, seat: Seat, board: Board) -> None:
        self.plan = plan
        self.seat = seat
        self.board = board
        self.replica = plan.replicas[seat.replica]
        self._places = len(plan.places(self.replica))
        self._update_ms = sum(stage.update_ms for stage in plan.stages_at(self.replica, seat.stage))
        self.clock_ms = 0.0
        self._step = 0
        self._began_ms = 0.0
        self._end_ms = 0.0
        self._exchanges: list[tuple[int, float, float]] = []
        self._free_ms: dict[str, float] = {}
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)

    def start(self) -> None:
        """Let virtual time stand at this rank's clock now; rank 0 decides for all."""
        if self.seat.rank == 0:
            self.board.zero_s = time.monotonic() - self.clock_ms / 1e3

    def now_ms(self) -> float | None:
        """Give this rank's virtual time in ms."""
        return self.clock_ms

    def began_ms(self) -> float | None:
        """Give the virtual start of the work that was last begun."""
        return self._began_ms

    def exchanges(self) -> list[tuple[int, float, float]]:
        """Give (unit, start_ms, end_ms) of all exchanges before the last barrier."""
        return self._exchanges

    def begin(self, kind: str, stage: int, microbatch: int, *, last: bool = False) -> None:
        """Start at the later of the own clock and the input's arrival."""
        start_ms = max(self.clock_ms, self._arrival_ms(kind, stage, microbatch))
        self._began_ms = start_ms
        self._end_ms = start_ms + self.plan.parts_ms(self.replica.stages[stage])["FBW".index(kind)]
        if last:
            self._row[self._last_slot(stage)], self._row[_LAST_END] = start_ms, self._end_ms

    def end(self, kind: str, stage: int, microbatch: int) -> None:
        """Publish the end and sleep until it."""
        self.clock_ms = self._end_ms
        if kind != "W":
            self._row[self._slot(kind, stage, microbatch)] = self.clock_ms
        self._sleep()

    def barrier(self) -> None:
        """Jump to the end of the last exchange and of the norm's all-reduce."""
        rows = self.board.times[self._step % 2]
        ready = [
            max(self._last_ms(rows, member) + self._delay(member, exchange.unit) for member in exchange.members)
            for exchange in self.plan.exchanges
        ]
        served = serve_exchanges(self.plan, ready)
        self._exchanges = [(e.unit, s.start_ms, s.end_ms) for e, s in zip(self.plan.exchanges, served, strict=True)]
        ends = [end_ms for _, _, end_ms in self._exchanges]
        self.clock_ms = max(float(rows[:, _LAST_END].max()), *ends, 0.0) + self.plan.barrier_ms
        self._sleep()

    def updated(self) -> None:
        """Let the optimizer's step pass and begin a new step."""
        self._began_ms = self.clock_ms
        self.clock_ms += self._update_ms
        self._row[_CLOCK] = self.clock_ms
        self._sleep()
        self._gather_row = self.board.times[self._step % 2]
        self._step += 1
        self._free_ms = {}

    def gathered(self) -> None:
        """Wait for the gathers that this rank takes part in."""
        gathers = [gather for _, gather in gathered(self.plan)]
        clocks = self._gather_row[:, _CLOCK]
        ready = [max(float(clocks[self._rank(member)]) for member in gather.members) for gather in gathers]
        stages = range(self.seat.stage, len(self.replica.stages), self._places)
        mine = {(self.seat.replica, stage) for stage in stages}
        for gather, served in zip(gathers, serve_gathers(self.plan, ready), strict=True):
            if not mine.isdisjoint(gather.members):
                self.clock_ms = max(self.clock_ms, served.end_ms)
        self._sleep()

    @property
    def _row(self) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        row: np.ndarray[tuple[int], np.dtype[np.float64]] = self.board.times[self._step % 2, self.seat.rank]
        return row

    def _slot(self, kind: str, stage: int, microbatch: int) -> int:
        before = 2 * (stage // self._places) + (kind == "B")
        return _FIXED_SLOTS + self.plan.virtual_stages + before * self.replica.microbatches + microbatch

    def _last_slot(self, stage: int) -> int:
        return _FIXED_SLOTS + stage // self._places

    def _arrival_ms(self, kind: str, stage: int, microbatch: int) -> float:
        peer = stage + (-1 if kind == "F" else 1)
        if kind == "W" or not 0 <= peer < len(self.replica.stages):
            return 0.0
        rank = self.replica.stages[peer].ranks[self.seat.tp_index]
        sent_ms = float(self.board.times[self._step % 2, rank, self._slot(kind, peer, microbatch)])
        send = self.replica.sends[min(peer, stage)]
        # All that comes from a neighbouring place, for whichever virtual stage, comes in the order it was sent.
        queue = Queue(find_wire(self.plan.wires, send.wire), self._free_ms.get(kind, 0.0))
        arrival_ms = queue.serve(sent_ms, send.payload_bytes).end_ms
        self._free_ms[kind] = queue.free_ms
        return arrival_ms

    def _rank(self, member: tuple[int, int]) -> int:
        replica, stage = member
        return self.plan.replicas[replica].stages[stage].ranks[0]

    def _last_ms(self, rows: "np.ndarray[tuple[int, int], np.dtype[np.float64]]", member: tuple[int, int]) -> float:
        replica, stage = member
        places = len(self.plan.places(self.plan.replicas[replica]))
        return float(rows[self._rank(member), _FIXED_SLOTS + stage // places])

    def _delay(self, member: tuple[int, int], unit: int) -> float:
        replica, stage = member
        return gradient_delay_ms(self.plan, self.plan.replicas[replica].stages[stage], unit)

    def _sleep(self) -> None:
        left_s = self.board.zero_s + self.clock_ms / 1e3 - time.monotonic()
        if left_s > 0:
            time.sleep(left_s)
