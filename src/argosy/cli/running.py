"""A training command from beginning to end: plan, run, figures, report, trace, and the error that it ends with.

What `argosy train` and `argosy demo` share. It must not know how anything is shown.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from argosy.cli.attempt import Listener, Wishes, run_attempt
from argosy.cli.before import check_before
from argosy.cli.choosing import Choice, choose
from argosy.cli.ended import Ended
from argosy.cli.ending import ending
from argosy.cli.inputs import Inputs
from argosy.cli.outputs import write_outputs
from argosy.cli.summary import PARTS_SUM, Line, Measured, compare, fell_behind, measure

More = Callable[[Choice, Measured], tuple[Line, ...]]


class Watcher(Listener, Protocol):
    """A listener that also hears how it ended."""

    def ended(self, ended: Ended) -> None:
        """Show the end of the run."""


def run(
    inputs: Inputs, wanted: str | None, wishes: Wishes, trace: Path | None, watcher: Watcher, more: More | None = None
) -> None:
    """Plan, train and report.

    wanted: `--plan`. trace: where the Perfetto trace goes. more: figures besides the usual ones. Raises ArgosyError
    when the run didn't finish, after the watcher was told.
    """
    check_before(inputs, wishes.directory, wishes.port, trace)
    choice = choose(inputs, wanted)
    watcher.planned(inputs, choice)
    outcome = run_attempt(inputs, choice, wishes, watcher)
    measured = measure(inputs, choice, outcome.steps, outcome.new_steps, outcome.finished)
    extra = more(choice, measured) if more and measured else ()
    ended = Ended(
        inputs=inputs,
        choice=choice,
        outcome=outcome,
        measured=measured,
        lines=(*compare(choice.plan, measured), *extra) if measured else (),
        directory=wishes.directory,
        headlines=(PARTS_SUM, *(line.what for line in extra)),
        warning=fell_behind(measured, choice.plan.world_size) if measured else "",
        traced=wishes.trace and bool(outcome.finished),
        error=ending(inputs.job, outcome, wishes.directory),
    )
    ended = write_outputs(ended, trace)
    watcher.ended(ended)
    if ended.error is not None:
        raise ended.error
