"""Reports: numbered, kept until they are acknowledged, bounded, sent again to nobody who has them."""

from argosy.agent.folder import AttemptFolder
from argosy.agent.outgoing import REPORTS_MAX, Outgoing
from argosy.contracts.launching import write_line
from argosy.contracts.messages import Note
from argosy.contracts.talk import LogPart, OrderRefused, RankSaid


def folder_with(path, *texts):
    """Make a folder whose ranks reported notes."""
    folder = AttemptFolder(path)
    with folder.reports.open("ab") as file:
        file.writelines(write_line(Note(text=text)) for text in texts)
    return folder


def part(number):
    """Make a part of a log."""
    return LogPart(number=number, order="r", attempt="a", rank=0, offset=0, data=b"x", next_offset=1, size=1)


class TestReports:
    def test_they_wait_until_acknowledged(self, tmp_path):
        """What the server has is let go, the rest is told again, in order."""
        outgoing = Outgoing()
        outgoing.take("a", 0, folder_with(tmp_path, "one", "two", "three"))
        assert [report.message.text for report in outgoing.first(10)] == ["one", "two", "three"]
        outgoing.acknowledge(2)
        assert [(report.number, report.message.text) for report in outgoing.first(10)] == [(3, "three")]

    def test_only_so_many_go_at_once(self, tmp_path):
        """Back-pressure: the server says how many it takes, even none."""
        outgoing = Outgoing()
        outgoing.take("a", 0, folder_with(tmp_path, "one", "two", "three"))
        assert len(outgoing.first(2)) == 2
        assert outgoing.first(0) == ()

    def test_what_is_new_is_read_on(self, tmp_path):
        """Later reports of a rank follow; half a line waits for its other half."""
        outgoing = Outgoing()
        folder = folder_with(tmp_path, "one")
        outgoing.take("a", 0, folder)
        line = write_line(Note(text="two"))
        with folder.reports.open("ab") as file:
            file.write(line[:5])
        outgoing.take("a", 0, folder)
        assert len(outgoing) == 1
        with folder.reports.open("ab") as file:
            file.write(line[5:])
        outgoing.take("a", 0, folder)
        assert [report.message.text for report in outgoing.first(10)] == ["one", "two"]

    def test_the_next_process_begins_where_the_server_is(self, tmp_path):
        """An agent that starts again sends only what was not acknowledged; positions tell what came twice."""
        before = Outgoing()
        before.take("a", 0, folder_with(tmp_path, "one", "two"))
        before.acknowledge(1)
        after = Outgoing()
        after.take("a", 0, AttemptFolder(tmp_path))
        assert [report.message.text for report in after.first(10)] == ["two"]
        assert after.first(1)[0].position == before.first(1)[0].position

    def test_they_are_bounded(self, tmp_path):
        """A server that is away fills no memory: what ranks say stays in the file until there is room."""
        outgoing = Outgoing()
        folder = folder_with(tmp_path, *(str(number) for number in range(REPORTS_MAX + 50)))
        outgoing.take("a", 0, folder)
        outgoing.take("a", 0, folder)
        assert len(outgoing) == REPORTS_MAX
        outgoing.acknowledge(REPORTS_MAX)
        outgoing.take("a", 0, folder)
        assert [report.message.text for report in outgoing.first(1)] == [str(REPORTS_MAX)]

    def test_a_damaged_report_is_passed_over(self, tmp_path):
        """A line that can't be read is told as a warning, and the next one follows."""
        folder = folder_with(tmp_path)
        folder.reports.write_bytes(b"no json\n" + write_line(Note(text="good")))
        outgoing = Outgoing()
        outgoing.take("a", 0, folder)
        warning, said = outgoing.first(10)
        assert warning.level == "warning"
        assert isinstance(said, RankSaid)


class TestOnce:
    def test_a_refusal_is_told_once(self):
        """An order that comes again and again is refused in one report."""
        outgoing = Outgoing()
        for _ in range(3):
            outgoing.refused("1", "a", "old")
        assert outgoing.first(10) == (OrderRefused(number=1, order="1", attempt="a", text="old"),)

    def test_a_log_is_read_once_for_each_request(self):
        """A request that comes twice is answered once."""
        outgoing = Outgoing()
        outgoing.log_part("r", part)
        outgoing.log_part("r", part)
        assert len(outgoing) == 1
