"""The report: one file that stands alone, says what was measured, and marks what is emulated."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from argosy.cli.choosing import choose
from argosy.cli.report import report_html, write_report
from argosy.cli.report_page import Html, table
from argosy.cli.report_wires import hidden_share, wire_uses
from argosy.contracts.codec import encode
from argosy.contracts.errors import InfrastructureError
from support.runs import Workspace, ended_run, step, timed_ranks


class Tags(HTMLParser):
    """Checks that tags close in order and collects what a page refers to."""

    VOID = frozenset({"meta", "line", "rect", "polyline"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that opens."""
        self.links += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Pass over a tag that closes itself."""

    def handle_endtag(self, tag: str) -> None:
        """See that the tag that closes is the one that opened last."""
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def checked(page: str) -> str:
    """Check that a page is well-formed and loads nothing; give it back."""
    tags = Tags()
    tags.feed(page)
    assert (tags.wrong, tags.open, tags.links) == ([], [], [])
    assert not re.search(r"https?://|@import|url\(", page)
    return page


class TestReport:
    def test_stands_alone_and_marks_what_is_emulated(self, workspace: Workspace) -> None:
        """The page is well-formed, loads nothing, and says at the top and in the text that times are emulated."""
        page = checked(report_html(ended_run(workspace.inputs())))
        assert '<span class="tag">emulated</span>' in page
        assert "Figures marked ~ are on that clock" in page
        assert "prefers-color-scheme: dark" in page

    def test_has_all_sections(self, workspace: Workspace) -> None:
        """Figures, curves, timelines, traffic and plan are there."""
        page = report_html(ended_run(workspace.inputs()))
        for part in ("Predicted and measured", "Over the steps", "One step", "Traffic of a step", "The plan"):
            assert part in page
        assert page.count("<svg") == 3

    def test_shows_the_measured_step_where_ranks_traced_it(self, workspace: Workspace) -> None:
        """With traces there is a second timeline, of a step in the middle."""
        inputs = workspace.inputs()
        choice = choose(inputs)
        folder = workspace.folder / "trace"
        folder.mkdir()
        for trace in timed_ranks(choice.plan):
            (folder / f"rank-{trace.rank:05d}.json").write_bytes(encode(trace))
        page = checked(report_html(ended_run(inputs, choice, directory=workspace.folder, traced=True)))
        assert "measured, step 2" in page
        assert page.count("<svg") == 4

    def test_real_chips_have_no_mark(self, workspace: Workspace) -> None:
        """A run on real chips speaks of no emulation."""
        inputs = workspace.inputs()
        choice = choose(inputs)
        told = choice.plan.prediction
        assert told is not None
        parts = tuple(replace(part, emulated=False) for part in told.reference_parts)
        told = replace(told, emulated=False, reference_name="b", reference_parts=parts)
        real = replace(choice.plan, emulated=False, prediction=told)
        choice = replace(choice, plan=real, plans=(real,))
        steps = [step(n, virtual_s=None) for n in (1, 2, 3)]
        page = checked(report_html(ended_run(inputs, choice, steps)))
        assert "emulated" not in page
        assert "~" not in page

    def test_a_failed_run_says_so(self, workspace: Workspace) -> None:
        """The report of a run that failed begins with why, escaped."""
        page = checked(report_html(ended_run(workspace.inputs(), error=InfrastructureError("disk <full>"))))
        assert "disk &lt;full&gt;" in page

    def test_one_step_is_enough(self, workspace: Workspace) -> None:
        """A run of one step has no curve but a report."""
        checked(report_html(ended_run(workspace.inputs(), steps=[step(1)])))

    def test_a_plan_without_prediction(self, workspace: Workspace) -> None:
        """A plan from a file without a prediction has a report too."""
        inputs = workspace.inputs()
        choice = choose(inputs)
        bare = replace(choice.plan, prediction=None)
        checked(report_html(ended_run(inputs, replace(choice, plan=bare, plans=(bare,)))))

    def test_a_resumed_run_counts_on(self, workspace: Workspace) -> None:
        """Ranks count their steps from 1; the report gives the step of the whole curve."""
        inputs = workspace.inputs()
        choice = choose(inputs)
        folder = workspace.folder / "trace"
        folder.mkdir()
        for trace in timed_ranks(choice.plan):
            (folder / f"rank-{trace.rank:05d}.json").write_bytes(encode(trace))
        ended = ended_run(inputs, choice, [step(n) for n in range(1, 105)], directory=workspace.folder, traced=True)
        ended = replace(ended, outcome=replace(ended.outcome, new_steps=4))
        assert "measured, step 102" in report_html(ended)

    def test_the_hosts_clock_is_explained(self, workspace: Workspace) -> None:
        """A step that was measured on real chips says what the host's clock tells of an accelerator."""
        inputs = workspace.inputs()
        choice = choose(inputs)
        folder = workspace.folder / "trace"
        folder.mkdir()
        for trace in timed_ranks(replace(choice.plan, emulated=False)):
            (folder / f"rank-{trace.rank:05d}.json").write_bytes(encode(trace))
        page = report_html(ended_run(inputs, choice, directory=workspace.folder, traced=True))
        assert "it tells when work was launched" in page

    def test_a_plan_file_speaks_for_itself(self, workspace: Workspace) -> None:
        """Predictions out of a plan file are called the file's."""
        inputs = workspace.inputs()
        page = report_html(ended_run(inputs, replace(choose(inputs), from_file=True)))
        assert "predicted by the file" in page

    def test_a_warning_is_shown(self, workspace: Workspace) -> None:
        """What to know before believing the figures stands beside them."""
        assert "fell 40 % behind" in report_html(
            ended_run(workspace.inputs(), warning="the wall clock fell 40 % behind")
        )

    def test_is_written_whole(self, workspace: Workspace) -> None:
        """The file is the page."""
        ended = ended_run(workspace.inputs())
        write_report(Path("report.html"), ended)
        assert Path("report.html").read_text(encoding="utf-8") == report_html(ended)


class TestTable:
    def test_only_html_is_html(self) -> None:
        """A text that looks like a tag is escaped; only what the page itself made is taken as it is."""
        made = table(("<b>", "x"), [("<script>", Html(text="<i>1</i>"))])
        assert "&lt;b&gt;" in made
        assert "&lt;script&gt;" in made
        assert "<i>1</i>" in made


class TestWires:
    def test_wires_carry_what_the_plan_says(self, workspace: Workspace) -> None:
        """Every wire in use is listed with its bytes, and the long link with the share of time that is hidden.

        Two replicas divide nine sequences by their speeds, so that no pipeline is faster.
        """
        plan = choose(workspace.inputs("train.global_batch_size=9")).plan
        uses = {use.wire.name: use for use in wire_uses(plan)}
        sent = sum(exchange.wire_bytes + exchange.gather_bytes for exchange in plan.exchanges)
        assert sum(use.gradient_bytes for use in uses.values()) == pytest.approx(sent)
        assert 0 <= (uses["north-south"].hidden or 0) <= 1
        assert hidden_share(plan, (), 1.0) is None
