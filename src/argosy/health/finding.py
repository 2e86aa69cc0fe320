"""What location concludes from traces, dumps and stacks: one fault with its culprit, before logs are joined to it.

Pure data. Must not know how it was found, nor what logs say.
"""

from dataclasses import dataclass

from argosy.contracts.incident import Culprit, Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault that traces show.

    fault_class: family and kind, such as `process.hang`. confidence: high, medium or low. remedy: one of
    contracts.incident.REMEDIES. ranks, hosts: what it is about, for joining it with lines of logs that name them; the
    culprit where it is known, else the candidates. sufferers: the ranks that only waited.
    at_us: when the culprit was last seen doing what it should; None where no trace carries a time.
    """

    fault_class: str
    culprit: Culprit
    confidence: str
    remedy: str
    advice: str
    evidence: tuple[Evidence, ...] = ()
    sufferers: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    at_us: int | None = None
