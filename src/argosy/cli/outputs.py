"""What a run leaves behind when it is over: report, Perfetto trace, exported weights.

Each is written whole or not at all. It must not know how a run goes.
"""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

from argosy.cli.ended import Ended
from argosy.cli.ending import newest_checkpoint
from argosy.cli.report import write_report
from argosy.cli.tracefile import write_trace
from argosy.contracts.errors import ArgosyError

REPORT_FILE = "report.html"


def write_outputs(ended: Ended, trace: Path | None) -> Ended:
    """Export where the job says so, then write the trace that was asked for and the report of whatever steps were done.

    What goes wrong with the export becomes the run's error. A run that found all steps done leaves the report as it is.
    """
    ended = exported(ended)
    if trace is not None and ended.traced:
        write_trace(trace, ended.directory / "trace", ended.choice.plan)
        ended = replace(ended, trace=trace)
    if ended.outcome.new_steps:
        report = ended.directory / REPORT_FILE
        write_report(report, ended)
        ended = replace(ended, report=report)
    return ended


def exported(ended: Ended) -> Ended:
    """Write the last checkpoint's weights to `export_to`, when the run finished.

    A run whose steps were all done before saves nothing; then it is the newest checkpoint there is.
    """
    job = ended.inputs.job
    to, checkpoint = job.export_to, ended.outcome.saved or newest_checkpoint(job)
    if to is None or ended.error is not None or checkpoint is None:
        return ended
    try:
        export(Path(checkpoint), Path(to), "fp32")
    except ArgosyError as error:
        again = f"all steps are done and saved; `argosy export {checkpoint} {to}` tries the export again"
        return replace(ended, error=type(error)(f"{error}\n{again}"))
    return replace(ended, export=Path(to))


def export(checkpoint: Path, to: Path, dtype: str) -> None:
    """Write a checkpoint's weights as a Hugging Face folder; loads torch."""
    import_module("argosy.train.export").export_checkpoint(checkpoint, to, dtype=dtype)
