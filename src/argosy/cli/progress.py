"""A run on the screen: its plan, its data, its steps.

Shows what it is told; the words for plans are those of `argosy plan`.
"""

import time
from collections.abc import Callable

from rich.console import Console

from argosy.cli.choosing import Choice
from argosy.cli.inputs import Inputs
from argosy.cli.live_screen import LiveScreen
from argosy.cli.options import print_plans
from argosy.cli.pace import LABEL, Pace
from argosy.cli.run_texts import data_text, start_text
from argosy.contracts.messages import Note, Ready, Saved, StepDone, Upward
from argosy.train.data.prepare import TokenSetInfo


class Screen(LiveScreen):
    """Shows a run to a person."""

    def __init__(self, console: Console | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, now_s)
        self._ranks = 0
        self._pace: Pace | None = None
        self._resumed = False

    def planned(self, inputs: Inputs, choice: Choice) -> None:
        """Show the options and the chosen plan."""
        self.expect(inputs, choice)
        for note in choice.notes:
            self.say("note", note)
        print_plans(self.console, inputs, choice.plans)
        self.console.print()

    def expect(self, inputs: Inputs, choice: Choice) -> None:
        """Know what the steps to come belong to."""
        self._ranks = choice.plan.world_size
        self._pace = Pace(inputs, choice)

    def preparing(self, what: str, share: float) -> None:
        """Show how far the data is."""
        self.data_status.show(f"{'data':{LABEL}}{what} {share:.0%}".replace("%", " %"))

    def prepared(self, info: TokenSetInfo) -> None:
        """Show what the data is."""
        self.data_status.show(data_text(info), final=True)
        self.starting()

    def starting(self) -> None:
        """Say that ranks start; on a terminal the first step is written over it."""
        text = start_text(self._ranks)
        if self.console.is_terminal:
            self.status.show(text)
        else:
            self.console.print(text)

    def heard(self, message: Upward) -> None:
        """Show steps, checkpoints and notes; failures are told at the end."""
        match message:
            case Ready(step=step) if step and not self._resumed:  # every rank says so
                self._resumed = True
                self.say("resume", f"from step {step}")
            case StepDone() if self._pace is not None:
                text = self._pace.text(message, self.now_s())
                self.status.show(text, final=message.step == self._pace.steps)
            case Saved():
                self.say("saved", f"step {message.step} in {message.path}, {message.wall_s:.1f} s")
            case Note() if message.level == "warning":
                self.say("warning", message.text)
