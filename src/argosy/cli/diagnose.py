"""`argosy diagnose`: from a pile of logs and dumps to the one thing that broke.

Joins the reading of files with the judgement of the room `health`; knows neither formats nor faults.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from argosy.cli.diagnose_intake import Files, read_zone, take_files
from argosy.cli.diagnose_screen import json_text, print_incidents, print_notes
from argosy.cli.diagnose_slow import watched_book
from argosy.cli.diagnose_verdict import verdict
from argosy.cli.files import read_text
from argosy.cli.words import console, counted
from argosy.health.scanner import Scanner

WIDTH = 120
# Found, and asked to say so by the exit code; apart from the codes of errors.
FOUND_CODE = 10


def command(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Logs, dumps and folders of them; - is standard input.")
    ],
    patterns: Annotated[
        list[Path] | None,
        typer.Option(
            "--patterns", metavar="FILE", help="A file of your own signatures; see docs/diagnose-signatures.md."
        ),
    ] = None,
    timezone: Annotated[str, typer.Option(help="Zone of times that name none, such as +08:00.")] = "",
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help=f"Leave with {FOUND_CODE} when something broke.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Say what broke a job: what, who, who only suffered, how that is known, and what to do."""
    zone_minutes = read_zone(timezone) if timezone else None
    hint = "write one as docs/diagnose-signatures.md shows"
    users = {str(path): read_text(path, "file of patterns", hint) for path in patterns or ()}
    book = watched_book(users)
    files = take_files(paths, Scanner(book.signatures), zone_minutes)
    incidents = verdict(files, book)
    if as_json:
        typer.echo(json_text({"incidents": incidents, **about(files)}))
    else:
        screen = console(WIDTH)
        print_incidents(screen, incidents)
        if not incidents:
            screen.print(f"nothing that broke was found in {read_words(files)}", markup=False)
        print_notes(screen, files.taken.offsets, notes_of(files))
    return FOUND_CODE if incidents and exit_code else 0


def read_words(files: Files) -> str:
    """Say how much was read."""
    words = f"{counted(files.logs, 'log')} ({counted(files.lines, 'line')})"
    return f"{words} and {counted(len(files.dumps), 'dump')}" if files.dumps else words


def notes_of(files: Files) -> list[str]:
    """List what a person should know of what was read."""
    notes = list(files.reading.notes)
    if files.reading.skipped:
        notes.append(f"{counted(files.reading.skipped, 'file')} of other kinds left out; name one to have it read")
    if files.taken.dropped:
        notes.append(f"{counted(files.taken.dropped, 'line')} beyond what is kept of one kind were not judged")
    return notes


def about(files: Files) -> dict[str, Any]:
    """Tell for JSON what was read, how clocks differ, and what to know."""
    read = {
        "files": files.reading.files,
        "logs": files.logs,
        "dumps": len(files.dumps),
        "lines": files.lines,
        "bytes": files.reading.read_bytes,
    }
    return {"clocks": files.taken.offsets, "read": read, "notes": notes_of(files)}
