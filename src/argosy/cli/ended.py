"""A run that is over, as those who show it are told: inputs, plan, outcome, figures, files.

Pure data.
"""

from dataclasses import dataclass
from pathlib import Path

from argosy.cli.attempt import Outcome
from argosy.cli.choosing import Choice
from argosy.cli.inputs import Inputs
from argosy.cli.summary import Line, Measured
from argosy.contracts.errors import ArgosyError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended. measured: None when no step was done. lines: predicted beside measured.

    headlines: which of the lines a reader wants first. warning: what to know before believing the figures. traced:
    ranks wrote what they did into `directory`. error: why the run didn't finish. report, trace, export: what was
    written.
    """

    inputs: Inputs
    choice: Choice
    outcome: Outcome
    measured: Measured | None
    lines: tuple[Line, ...]
    directory: Path
    headlines: tuple[str, ...] = ()
    warning: str = ""
    traced: bool = False
    error: ArgosyError | None = None
    report: Path | None = None
    trace: Path | None = None
    export: Path | None = None

    @property
    def told_by(self) -> str:
        """Title of the predictions: those of a plan file are its own, nobody worked them out again."""
        return "predicted by the file" if self.choice.from_file else "predicted"
