"""Joins what logs and dumps gave to the verdict of the room `health`.

Knows neither formats nor faults; a set of dumps that can't be judged together is noted, and the logs are judged alone.
"""

from argosy.cli.diagnose_intake import DAMAGED, Files
from argosy.contracts.incident import Incident
from argosy.health.book import Book
from argosy.health.finding import Finding
from argosy.health.from_dumps import findings_of_dumps
from argosy.health.judge import judge
from argosy.health.liveness import liveness_of


def verdict(files: Files, book: Book) -> tuple[Incident, ...]:
    """Judge everything together: what logs say of dead ranks tells location whom not to wait for."""
    return judge(files.taken.sightings, _findings(files), book)


def _findings(files: Files) -> tuple[Finding, ...]:
    try:
        return findings_of_dumps(files.dumps, liveness_of(files.taken.sightings))
    except DAMAGED as error:
        files.reading.note(f"the dumps can't be judged together ({error or type(error).__name__}); logs were, alone")
        return ()
