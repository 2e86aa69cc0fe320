"""What a run leaves behind."""

from dataclasses import replace
from pathlib import Path

import pytest

from argosy.cli import outputs
from argosy.cli.ended import Ended
from argosy.cli.outputs import write_outputs
from argosy.contracts.errors import BadInputError, InfrastructureError
from support.runs import Workspace, ended_run


def exporting(workspace: Workspace, **changes: object) -> Ended:
    """Make a finished run of a job that exports."""
    ended = ended_run(workspace.inputs("export_to=out"), directory=workspace.folder / "run", **changes)
    return replace(ended, outcome=replace(ended.outcome, saved="ck/step-00000008"))


class TestOutputs:
    def test_report_without_trace(self, workspace: Workspace) -> None:
        """A report is always written, a trace only when asked for and traced."""
        ended = write_outputs(ended_run(workspace.inputs(), directory=workspace.folder / "run"), Path("trace.json"))
        assert ended.report == workspace.folder / "run" / "report.html"
        assert ended.report.is_file()
        assert ended.trace is None

    def test_nothing_without_steps(self, workspace: Workspace) -> None:
        """A run that did no step leaves no report."""
        ended = ended_run(workspace.inputs(), directory=workspace.folder / "run")
        ended = replace(ended, outcome=replace(ended.outcome, steps=(), new_steps=0), measured=None, lines=())
        assert write_outputs(ended, None).report is None

    def test_the_report_stays_where_all_was_done_before(self, workspace: Workspace) -> None:
        """A run that finds nothing left to do has no figures of its own, so those of the last one stay."""
        ended = write_outputs(ended_run(workspace.inputs(), directory=workspace.folder / "run"), None)
        assert ended.report is not None
        before = ended.report.read_text()
        again = replace(ended, outcome=replace(ended.outcome, new_steps=0), measured=None, lines=(), report=None)
        assert write_outputs(again, None).report is None
        assert ended.report.read_text() == before

    def test_exports_the_last_checkpoint(self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
        """A finished run exports what it saved last."""
        calls: list[object] = []
        monkeypatch.setattr(outputs, "export", lambda *arguments: calls.append(arguments))
        assert write_outputs(exporting(workspace), None).export == Path("out")
        assert calls == [(Path("ck/step-00000008"), Path("out"), "fp32")]

    def test_exports_when_all_was_done_before(self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run without a step left saves nothing and once exported nothing either; the newest checkpoint is taken."""
        calls: list[object] = []
        monkeypatch.setattr(outputs, "export", lambda *arguments: calls.append(arguments))
        for step in (4, 8):
            (workspace.folder / f"ck/step-{step:08d}").mkdir(parents=True)
            (workspace.folder / f"ck/step-{step:08d}/argosy.json").touch()
        ended = ended_run(workspace.inputs("export_to=out", "checkpoint={to: ck}"), directory=workspace.folder / "run")
        ended = replace(ended, outcome=replace(ended.outcome, steps=(), new_steps=0), measured=None, lines=())
        assert write_outputs(ended, None).export == Path("out")
        assert calls == [(Path("ck/step-00000008"), Path("out"), "fp32")]

    def test_a_failed_run_exports_nothing(self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run that failed keeps its error and exports nothing."""
        monkeypatch.setattr(outputs, "export", pytest.fail)
        assert write_outputs(exporting(workspace, error=InfrastructureError("x")), None).export is None

    def test_a_failed_export_is_the_runs_error(self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
        """When only the export fails, the error says that training is done and how to try again."""

        def refuse(*_: object) -> None:
            raise BadInputError("export: out holds notes.txt")

        monkeypatch.setattr(outputs, "export", refuse)
        ended = write_outputs(exporting(workspace), None)
        assert isinstance(ended.error, BadInputError)
        assert "`argosy export ck/step-00000008 out` tries the export again" in str(ended.error)
        assert ended.report is not None
