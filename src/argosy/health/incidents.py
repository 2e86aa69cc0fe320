"""Writes Incidents: of a fault that logs tell, or of one that traces alone show.

Must not know how faults are found, nor which finding a line explains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from argosy.contracts.incident import REMEDIES, Incident, Party
from argosy.health.book import UNKNOWN, Book
from argosy.health.causes import Case
from argosy.health.clues import Clue
from argosy.health.culprit import culprit_of, first_to_end, placed, sufferers_of
from argosy.health.evidence import evidence_of
from argosy.health.finding import Finding
from argosy.health.parties import advice_for, again_from, blamed, in_words, parties, places_of

CONFIDENCE = {1: "low", 2: "medium", 3: "high"}
LONE = "Only who waits says so: read the log of the other side, and look for an earlier error, before acting on it."


def of_case(case: Case, findings: Sequence[Finding], book: Book) -> Incident:
    """Make an incident of what logs show, with what traces add to it."""
    root = placed(case.root, case.clues)
    known = book.fault_class(root.fault_class)
    culprit = culprit_of(root, case.clues)
    ranks, hosts = sufferers_of(culprit, root, case.clues)
    ranks |= {rank for finding in findings for rank in finding.sufferers if rank != root.rank}
    places = places_of(case.clues)
    where = blamed(culprit, root, places)
    nobody = culprit.kind in ("unknown", "configuration") and not culprit.name
    one = where[0] if len(where) == 1 and root.fault_class != UNKNOWN else Party()
    return Incident(
        fault_class=root.fault_class or "unknown",
        culprit=culprit,
        confidence=_confidence(case),
        remedy=root.remedy if root.remedy in REMEDIES else known.remedy,
        advice=_begin_with(case) + _advice(case, advice_for(known.advice, one)),
        evidence=(*evidence_of(case.root, case.clues), *(item for finding in findings for item in finding.evidence)),
        sufferers=in_words(ranks, hosts),
        culprits=() if nobody else where,
        suffered=parties(ranks, hosts, places),
        detected_us=min((clue.at_us for clue in case.clues if clue.at_us is not None), default=None),
    )


def of_finding(finding: Finding, clues: Sequence[Clue]) -> Incident:
    """Make an incident of what traces show, with the lines that the same ranks and hosts printed."""
    lines = [clue for clue in clues if clue.role != "context" and _about(clue, finding)]
    places = places_of(clues)
    ours = Incident(
        fault_class=finding.fault_class,
        culprit=finding.culprit,
        confidence=finding.confidence,
        remedy=finding.remedy,
        advice=finding.advice,
        evidence=finding.evidence,
        sufferers=in_words(finding.sufferers, ()),
        culprits=_blamed(finding, places),
        suffered=parties(finding.sufferers, (), places),
        detected_us=finding.at_us,
    )
    return replace(ours, evidence=(*finding.evidence, *evidence_of(lines[0], lines))) if lines else ours


def _confidence(case: Case) -> str:
    """High for what proves, one step more where another layer says the same, one less where another family rivals."""
    root = case.root
    level = root.strength
    says_too = {clue.layer for clue in case.clues if clue.role == "cause" and clue.kin == root.kin}
    if len(says_too) > 1 and root.strength > 1:
        level += 1
    if case.rivals:
        level -= 1
    return "low" if root.fault_class == "unknown" else CONFIDENCE[min(3, max(1, level))]


def _begin_with(case: Case) -> str:
    """Name whose log to read first where nothing tells the cause; empty where something does, or nobody is known."""
    first = first_to_end(case.clues) if case.root.fault_class == UNKNOWN else None
    if first is None:
        return ""
    who = f"rank {first.rank}" + (f" on {first.host}" if first.host else "")
    return f"Read the log of {who} first: it ended before others, with exit code {first.field('code')}. "


def _advice(case: Case, advice: str) -> str:
    """Add what the driver itself recommends, and from which step to go on, where lines tell."""
    said = [clue.field("action") for clue in case.clues if clue.signature == "nvidia.recovery_action"]
    named = [action for action in said if action and action.lower() != "none"]
    driver = f" The driver recommends: {named[-1]}." if named else ""
    lone = f" {LONE}" if case.lone else ""
    return f"{advice}{driver}{lone}{again_from(case.clues, case.root.family)}"


def _blamed(finding: Finding, places: Mapping[int, Party]) -> tuple[Party, ...]:
    """Give the culprits of a finding; what it only suspects is none."""
    if finding.culprit.kind in ("unknown", "code", "configuration"):
        return ()
    alone = finding.hosts[0] if len(finding.hosts) == 1 else ""
    named = parties(finding.ranks, () if finding.ranks else finding.hosts, places)
    return tuple(replace(party, host=party.host or alone) for party in named)


def _about(clue: Clue, finding: Finding) -> bool:
    return clue.rank in finding.ranks if clue.rank is not None else clue.host in finding.hosts
