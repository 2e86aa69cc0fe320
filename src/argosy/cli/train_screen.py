"""The screen of `argosy train`: at the end figures, where the files are, and why a prediction is far off.

Shows what it is told.
"""

from argosy.cli.ended import Ended
from argosy.cli.progress import Screen
from argosy.cli.used import plan_classes

CPU_NOTE_SHARE = 0.5


class TrainScreen(Screen):
    """The screen of `argosy train`."""

    def ended(self, ended: Ended) -> None:
        """Show figures and where the files are; the error itself comes from the top."""
        self.status.close()
        if ended.lines and (ended.error is None or ended.outcome.interrupted):
            self.figures(ended.lines, ended.told_by)
            if ended.warning:
                self.say("warning", ended.warning)
            if note := cpu_note(ended):
                self.say("note", note)
        if ended.measured is None and ended.error is None:
            self.say("done", f"all {ended.inputs.job.train.steps:,} steps were done before; raise train.steps to go on")
        for label, path in (("report", ended.report), ("trace", ended.trace), ("export", ended.export)):
            if path is not None:
                self.say(label, f"{path}" + (" (open in ui.perfetto.dev)" if label == "trace" else ""))


def cpu_note(ended: Ended) -> str:
    """Say why a prediction for real CPU cores is far off; empty where it isn't, or for other chips."""
    plan, measured, predicted = ended.choice.plan, ended.measured, ended.choice.plan.prediction
    if measured is None or predicted is None or plan.emulated:
        return ""
    if abs(measured.step_ms / predicted.step_ms - 1) <= CPU_NOTE_SHARE:
        return ""
    if any(chip_class.chip.name != "cpu" for chip_class in plan_classes(plan, ended.inputs)):
        return ""
    return (
        "the catalogue's figures for `cpu` are those of half a server core, and small models are bound by overhead; "
        "`argosy profile` measures this machine, and --profile plans by it"
    )
