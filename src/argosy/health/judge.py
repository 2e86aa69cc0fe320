"""From sightings in logs and findings in traces to Incidents: the last word of diagnosis.

Logs say why something broke, traces say who stands still: a finding becomes an incident of its own only where no line
of a log explains it. Must not know files, clocks or how signatures are searched.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath

from argosy.contracts.incident import Evidence, Incident
from argosy.health.book import Book
from argosy.health.causes import Case, find_cases
from argosy.health.clues import Clue, gather
from argosy.health.culprit import culprit_of, sufferers_of
from argosy.health.finding import Finding
from argosy.health.sightings import Sighting
from argosy.health.telling import sources_of, words_of

EVIDENCE_MAX = 12
TEXT_MAX = 400
CONFIDENCE = {1: "low", 2: "medium", 3: "high"}


def judge(sightings: Iterable[Sighting], findings: Sequence[Finding], book: Book) -> tuple[Incident, ...]:
    """Judge what was seen in logs together with what traces show.

    Gives one Incident for each fault, the earliest first; none where nothing failed; one of class `unknown` where
    something did and nothing tells what.
    """
    clues = gather(sightings, book)
    cases = find_cases(clues, book)
    explained = [case for case in cases if case.root.strength > 1]
    joined: list[Incident] = []
    if not findings:
        return tuple(_incident(case, (), book) for case in cases)
    if not explained:
        return tuple(_of_finding(finding, clues) for finding in findings)
    left = list(findings)
    for case in explained:
        mine = [finding for finding in left if _explains(case, finding, alone=len(explained) == 1)]
        left = [finding for finding in left if finding not in mine]
        joined.append(_incident(case, mine, book))
    return (*joined, *(_of_finding(finding, ()) for finding in left))


def _explains(case: Case, finding: Finding, alone: bool) -> bool:
    """Tell whether a log's cause is why a rank stands still: the same rank or host, or a standstill of nobody known."""
    root = case.root
    if root.rank is not None and finding.ranks:
        return root.rank in finding.ranks
    if root.host and finding.hosts:
        return root.host in finding.hosts
    return alone and (finding.fault_class.startswith("process.") or finding.confidence != "high")


def _incident(case: Case, findings: Sequence[Finding], book: Book) -> Incident:
    root = case.root
    known = book.fault_class(root.fault_class)
    culprit = culprit_of(root, case.clues)
    evidence = (*_evidence(case), *(item for finding in findings for item in finding.evidence))
    sufferers = sufferers_of(culprit, root, case.clues)
    return Incident(
        fault_class=root.fault_class or "unknown",
        culprit=culprit,
        confidence=_confidence(case),
        remedy=root.remedy or known.remedy,
        advice=_advice(case, known.advice),
        evidence=evidence,
        sufferers=tuple(dict.fromkeys((*sufferers, *(name for finding in findings for name in finding.sufferers)))),
        detected_us=min((clue.at_us for clue in case.clues if clue.at_us is not None), default=None),
    )


def _confidence(case: Case) -> str:
    """High for what proves, one step more where another layer says the same, one less where another family rivals."""
    root = case.root
    level = root.strength
    says_too = {clue.layer for clue in case.clues if clue.role == "cause" and clue.family == root.family}
    if len(says_too) > 1 and root.strength > 1:
        level += 1
    if case.rivals:
        level -= 1
    return "low" if root.fault_class == "unknown" else CONFIDENCE[min(3, max(1, level))]


def _advice(case: Case, advice: str) -> str:
    """Add what the driver itself recommends, where it does."""
    said = [clue.field("action") for clue in case.clues if clue.signature == "nvidia.recovery_action"]
    named = [action for action in said if action and action.lower() != "none"]
    return f"{advice} The driver recommends: {named[-1]}." if named else advice


def _evidence(case: Case) -> Iterator[Evidence]:
    """Give the cause first, then what followed, each kind of line once with all who printed it."""
    kinds: dict[tuple[str, str], list[Clue]] = {}
    shown = (case.root, *(clue for clue in case.clues if clue.role != "context" or clue.fault_class))
    for clue in shown:
        if clue.line != case.root.line or clue is case.root:
            kinds.setdefault((clue.signature, clue.code), []).append(clue)
    for clues in list(kinds.values())[:EVIDENCE_MAX]:
        first = clues[0]
        place = f"{PurePath(first.line.source).name}:{first.line.number}"
        who = sources_of(clues)
        source = f"{who}, {place}" if who else place
        yield Evidence(source=source, text=words_of(first)[:TEXT_MAX], at_us=first.at_us, layer=first.layer)


def _of_finding(finding: Finding, clues: Sequence[Clue]) -> Incident:
    """Make an incident of what traces show, with the lines that the same ranks and hosts printed."""
    lines = [clue for clue in clues if clue.role != "context" and _about(clue, finding)]
    case = Case(root=lines[0], clues=tuple(lines)) if lines else None
    ours = Incident(
        fault_class=finding.fault_class,
        culprit=finding.culprit,
        confidence=finding.confidence,
        remedy=finding.remedy,
        advice=finding.advice,
        evidence=finding.evidence,
        sufferers=finding.sufferers,
        detected_us=finding.at_us,
    )
    return replace(ours, evidence=(*finding.evidence, *_evidence(case))) if case else ours


def _about(clue: Clue, finding: Finding) -> bool:
    return clue.rank in finding.ranks if clue.rank is not None else clue.host in finding.hosts
