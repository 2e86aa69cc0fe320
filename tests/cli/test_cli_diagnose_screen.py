"""What `argosy diagnose` prints."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from argosy.cli.diagnose_screen import (
    clipped,
    clock_lines,
    evidence_times,
    print_incident,
    print_incidents,
    sufferers_text,
)
from argosy.contracts.incident import Culprit, Evidence, Incident
from argosy.health.clocks import Offset

AT_US = 1_796_047_331_208_000
INCIDENT = Incident(
    fault_class="gpu.ecc_uncorrectable",
    culprit=Culprit(kind="chip", name="node-17 chip 3"),
    confidence="high",
    remedy="cordon_replace",
    advice="Cordon node-17.",
    evidence=(
        Evidence(source="node-17 kernel", text="Xid 94 [PCI]", at_us=AT_US),
        Evidence(source="rank 139", text="CUDA error: \x1b[31mECC", at_us=AT_US + 703_000),
    ),
    sufferers=("255 other ranks",),
)


def printed(incident: Incident, width: int = 120) -> str:
    """Print an incident to a text."""
    out = io.StringIO()
    print_incident(Console(file=out, width=width, highlight=False), incident)
    return out.getvalue()


class TestIncident:
    def test_it_names_what_who_and_what_to_do(self) -> None:
        """Class, culprit and confidence head the evidence in order; sufferers and advice end it."""
        lines = [" ".join(line.split()) for line in printed(INCIDENT).splitlines()]
        assert lines == [
            "gpu.ecc_uncorrectable node-17 chip 3 confidence high",
            "14:02:11.208 node-17 kernel Xid 94 [PCI] <- first",
            r"14:02:11.911 rank 139 CUDA error: \x1b[31mECC",
            "not at fault 255 other ranks",
            "what to do Cordon node-17.",
        ]

    @pytest.mark.parametrize("width", [60, 40, 20])
    def test_a_narrow_screen_loses_nothing(self, width: int) -> None:
        """On a few columns class, culprit, confidence and advice are still whole."""
        words = "".join(printed(INCIDENT, width).split())
        assert all(part in words for part in ("gpu.ecc_uncorrectable", "node-17chip3", "confidencehigh", "node-17."))
        assert "…" not in words

    def test_long_texts_lose_their_middle(self) -> None:
        """Begin and end of a long line are what tells."""
        assert clipped("x" * 150 + "middle" + "y" * 50) == "x" * 150 + " ... " + "y" * 50
        assert clipped("short") == "short"

    def test_unknown_is_an_answer(self) -> None:
        """Without culprit, evidence or advice it says so."""
        bare = Incident(
            fault_class="unknown", culprit=Culprit(kind="unknown"), confidence="low", remedy="retry", advice=""
        )
        assert "culprit unknown" in printed(bare)
        assert "what to do     retry" in printed(bare)


class TestTimes:
    def test_the_date_shows_where_days_differ(self) -> None:
        """One day needs no date; whole seconds no fraction; no time is blank."""
        evidence = [Evidence(source="", text="", at_us=us) for us in (AT_US, None, AT_US + 86_400_000_000)]
        assert evidence_times(evidence) == [" 2026-11-30 14:02:11.208", " ", " 2026-12-01 14:02:11.208"]
        assert evidence_times([Evidence(source="", text="", at_us=AT_US // 10**6 * 10**6)]) == [" 14:02:11"]
        assert evidence_times([Evidence(source="", text="", at_us=10**30)]) == [" "]

    def test_a_borrowed_time_looks_borrowed(self) -> None:
        """A line without a time shows its neighbour's with a mark, and the mark is explained once."""
        evidence = Evidence(source="rank 5", text="CUDA error", at_us=AT_US, borrowed=True)
        assert evidence_times([evidence]) == ["~14:02:11.208"]
        out = io.StringIO()
        screen = Console(file=out, width=120, highlight=False)
        print_incidents(screen, [replace(INCIDENT, evidence=(evidence,)), replace(INCIDENT, evidence=(evidence,))])
        assert out.getvalue().count("nearest line above") == 1


class TestClocks:
    def test_corrected_clocks_are_stated(self) -> None:
        """Who is off, by how much, and how that is known; whole quarters of an hour may be a zone."""
        made = {"reference": "node-a", "spread_us": 20_000, "shared": 40}
        lines = clock_lines(
            [
                Offset(clock="node-b", offset_us=3_250_000, corrected=True, **made),
                Offset(clock="node-c", offset_us=-8 * 3_600_000_000, corrected=True, **made),
                Offset(clock="node-d", offset_us=1_000, corrected=False, **made),
            ]
        )
        assert [line.split("(from")[0] for line in lines] == [
            "clock    node-b: 3.250 s ahead of node-a ",
            "clock    node-c: 8 h (another time zone?) behind node-a ",
        ]

    def test_many_are_summed_up(self) -> None:
        """A thousand clocks fill no screen."""
        offsets = [
            Offset(clock=str(n), reference="a", offset_us=10**7, spread_us=0, shared=9, corrected=True)
            for n in range(99)
        ]
        assert clock_lines(offsets)[-1] == "clock    and 93 clocks more; --json lists all"


class TestSufferers:
    def test_a_few_are_named(self) -> None:
        """The first few by name, the rest as a count."""
        assert sufferers_text(("rank 1", "rank 2")) == "rank 1, rank 2"
        assert sufferers_text([f"rank {n}" for n in range(9)]).endswith("rank 5 and 3 more")
