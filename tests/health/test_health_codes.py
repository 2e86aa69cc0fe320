"""Vendors' codes against the reference tables: every one is known, with the right action."""

import csv

import pytest

from argosy.health.book import NO_REMEDY

pytestmark = pytest.mark.reference


def rows(reference_data, name):
    """Read one of the reference tables."""
    with (reference_data / "faults" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def told(judged, line):
    """Give the remedy and culprit's kind of a line by itself, or `none`."""
    found = judged(line)
    return found[0].remedy if found and found[0].fault_class != "unknown" else "none"


class TestXid:
    def test_every_code_has_the_right_action(self, book, reference_data):
        """Action and remedy of each Xid are those of the table."""
        wrong = []
        for row in rows(reference_data, "xid.csv"):
            code = book.code("nvidia.xid", row["xid"])
            if code is None or (code.action, code.remedy) != (row["action"], row["remedy_class"]):
                wrong.append((row["xid"], row["action"], row["remedy_class"], code))
        assert wrong == []

    def test_every_line_is_recognised(self, judged, reference_data):
        """A kernel line with the code gives an Incident with its remedy; codes without one give none."""
        wrong = []
        for row in rows(reference_data, "xid.csv"):
            line = f"NVRM: Xid (PCI:0000:5d:00): {row['xid']}, pid=4711, name=python, {row['mnemonic']}"
            right = "none" if row["remedy_class"] in NO_REMEDY else row["remedy_class"]
            if row["remedy_class"] != "follow_other" and told(judged, line) != right:
                wrong.append((row["xid"], right, told(judged, line)))
        assert wrong == []


class TestSXid:
    def test_every_code_has_the_right_severity(self, book, reference_data):
        """The severity of each SXid is that of the table; what may be fatal takes the host out."""
        wrong = []
        for row in rows(reference_data, "sxid.csv"):
            code = book.code("nvidia.sxid", row["sxid"])
            right = "none" if row["severity"] == "non_fatal" else "cordon_replace"
            if code is None or (code.action, code.remedy) != (row["severity"], right):
                wrong.append((row["sxid"], row["severity"], code))
        assert wrong == []

    def test_the_line_says_whether_it_was_fatal(self, judged):
        """A code that may be fatal is no fault where the line says that it was not."""
        line = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, {}, Link 30 LTSSM Fault Up"
        assert told(judged, line.format("Fatal")) == "cordon_replace"
        assert told(judged, line.format("Non-fatal")) == "none"


class TestAscend:
    def test_every_event_has_the_right_remedy(self, book, reference_data):
        """The level and remedy of each event are those of the table."""
        wrong = []
        for row in rows(reference_data, "ascend_codes.csv"):
            code = book.code("ascend.event", row["code"])
            if code is None or (code.action, code.remedy) != (row["level"], row["remedy_class"]):
                wrong.append((row["code"], row["level"], code))
        assert wrong == []

    def test_every_line_is_recognised(self, judged, reference_data):
        """An event by itself gives an Incident with its remedy, or none."""
        events = rows(reference_data, "ascend_codes.csv")
        lines = {row["code"]: f"[fault_manager] event_id: [{row['code']}]" for row in events}
        assert [row["code"] for row in events if told(judged, lines[row["code"]]) != row["remedy_class"]] == []


class TestOthers:
    @pytest.mark.parametrize("code", ["EI0002", "EI0004", "EI0006", "EJ0003"])
    def test_hccl_codes_have_the_right_remedy(self, book, reference_data, code):
        """HCCL's codes are those of the table."""
        row = next(row for row in rows(reference_data, "other_vendor_codes.csv") if row["code_or_pattern"] == code)
        assert book.code("hccl.error", code).remedy == row["remedy_class"]

    def test_metax_events_have_the_right_remedy(self, book, reference_data):
        """MetaX's events are those of the table."""
        table = rows(reference_data, "other_vendor_codes.csv")
        events = [row for row in table if row["code_or_pattern"].startswith("EID")]
        remedies = [book.code("metax.eid", row["code_or_pattern"].split()[1]).remedy for row in events]
        assert remedies == [row["remedy_class"] for row in events]
