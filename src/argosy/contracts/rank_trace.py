"""What one rank did, and when, as it writes it beside its logs: one JSON file a rank.

Pure data; a rank's traced clock writes it, the command line draws it. Neither is known here.
"""

from dataclasses import dataclass

EMULATED, HOST = "emulated", "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOp:
    """One operation of one rank.

    kind: F, B, W (weights' part of backward), X (exchange of a unit's gradient) or U (update). stage: of F, B, W; a
    rank may run several. step: counted from 1 since the clock's start. start_ms, end_ms: the host's time since then;
    virtual ones are emulated and None on real chips. For X only virtual times are known, so start_ms and end_ms repeat
    them.
    """

    kind: str
    step: int
    start_ms: float
    end_ms: float
    stage: int | None = None
    microbatch: int | None = None
    unit: int | None = None
    virtual_start_ms: float | None = None
    virtual_end_ms: float | None = None

    @property
    def span_ms(self) -> tuple[float, float]:
        """When it began and ended: on the emulated clock where there is one, else on the host's."""
        if self.virtual_start_ms is None or self.virtual_end_ms is None:
            return self.start_ms, self.end_ms
        return self.virtual_start_ms, self.virtual_end_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTrace:
    """What one rank did.

    clock: what `span_ms` is measured on: `emulated`, or `host`, which on an accelerator tells when work was launched,
    not when the device did it. dropped: operations that were not kept.
    """

    rank: int
    replica: int
    stage: int
    tp_index: int
    clock: str
    ops: tuple[RankOp, ...]
    dropped: int = 0
    version: int = 1
