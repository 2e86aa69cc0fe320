"""What a message means: a signature names a mechanism by the words that programs print when it happens.

Pure data. Must not know how lines are searched, nor what is concluded from many.
"""

from dataclasses import dataclass
from typing import Literal

Role = Literal["cause", "symptom", "context", "harmless"]
"""cause: says what broke; symptom: says that something else did; context: neither, but it tells where or narrows a
cause down; harmless: looks like a fault and is none."""

# Families whose faults are believed even in a warning.
HARDWARE = frozenset({"gpu", "npu", "node", "driver", "network"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One mechanism and how it shows in a log.

    name: unique, such as `nccl.watchdog_timeout`. fault_class: what it speaks for if it is a cause, such as
    `gpu.ecc_uncorrectable`; its family is the part before the dot. layer: who prints it: kernel, driver, fabric,
    runtime, framework, launcher, scheduler, storage, user. literals: short texts of which at least one stands in every
    line that the pattern matches, so that search can skip the rest. pattern: a regular expression over the line's text;
    its named groups (rank, chip, host, code, peer, size ...) become fields. culprit: which kind of culprit it points at
    (contracts.incident.CULPRIT_KINDS). strength: from 1 (hints) to 3 (proves). sources: where the fact was read.
    """

    name: str
    meaning: str
    role: Role
    layer: str
    literals: tuple[str, ...]
    pattern: str
    fault_class: str = ""
    culprit: str = "unknown"
    remedy: str = "retry"
    advice: str = ""
    strength: int = 2
    ignore_case: bool = False
    sources: tuple[str, ...] = ()

    @property
    def holds_in_warnings(self) -> bool:
        """Whether it is believed even in words that are harmless as a rule: it proves that hardware failed."""
        family = self.fault_class.partition(".")[0]
        return self.role == "cause" and self.strength > 2 and (not family or family in HARDWARE)
