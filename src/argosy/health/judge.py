"""From sightings in logs and findings in traces to Incidents: the last word of diagnosis.

Logs say why something broke, traces say who stands still: a finding becomes an incident of its own only where no line
of a log explains it. Must not know files, clocks or how signatures are searched.
"""

from collections.abc import Iterable, Sequence

from argosy.contracts.incident import Incident
from argosy.health.book import Book
from argosy.health.causes import Case, find_cases
from argosy.health.clues import gather
from argosy.health.finding import Finding
from argosy.health.incidents import of_case, of_finding
from argosy.health.sightings import Sighting


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
        return tuple(of_case(case, (), book) for case in cases)
    if not explained:
        return tuple(of_finding(finding, clues) for finding in findings)
    left = list(findings)
    for case in explained:
        mine = [finding for finding in left if _explains(case, finding, alone=len(explained) == 1)]
        left = [finding for finding in left if finding not in mine]
        joined.append(of_case(case, mine, book))
    return (*joined, *(of_finding(finding, ()) for finding in left))


def _explains(case: Case, finding: Finding, alone: bool) -> bool:
    """Tell whether a log's cause is why a rank stands still: the same rank or host, or a standstill of nobody known."""
    root = case.root
    if root.rank is not None and finding.ranks:
        return root.rank in finding.ranks
    if root.host and finding.hosts:
        return root.host in finding.hosts
    return alone and (finding.fault_class.startswith("process.") or finding.confidence != "high")
