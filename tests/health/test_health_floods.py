"""Lines alike by the thousand: counted, each rank by itself, and nothing else is lost among them."""

from argosy.health.floods import SAME_MAX
from argosy.health.intake import Intake
from argosy.health.keeper import Keeper

LINE = "[rank{rank}]: 2026-11-30 14:02:{second:02d} connect to 10.0.0.4<{port}> failed: Connection refused\n"


def flood(count: int, ranks: int) -> str:
    """Print lines that differ in digits alone."""
    return "".join(
        LINE.format(rank=number % ranks, second=number % 60, port=10_000 + number) for number in range(count)
    )


def taken(scanner, text: str):
    """Take a log in, in blocks as the command line does."""
    intake = Intake(scanner, keeper := Keeper(), "x")
    data = text.encode()
    for begin in range(0, len(data), 1 << 18):
        intake.feed(data[begin : begin + (1 << 18)])
    intake.close()
    return keeper.settled().sightings


class TestFloods:
    def test_all_are_counted(self, whole_scanner):
        """However many are looked at, all are counted, with the line that stands for them."""
        sightings = taken(whole_scanner, flood(20_000, 2))
        refused = [one for one in sightings if one.signature.name == "net.refused"]
        assert sum(1 + one.repeats for one in refused) == 20_000

    def test_another_line_among_them_keeps_its_number(self, whole_scanner):
        """A fault in the midst of a flood is found, at its line, with its time."""
        text = flood(9_000, 2) + "2026-11-30 14:03:00 CUDA out of memory\n" + flood(9_000, 2)
        (found,) = [one for one in taken(whole_scanner, text) if one.signature.name == "gpu.out_of_memory"]
        assert (found.line.number, found.at_us) == (9_001, 1_796_047_380_000_000)

    def test_a_rank_that_joins_late_is_seen(self, whole_scanner):
        """A rank whose lines begin when others' are only counted has its own."""
        text = flood(9_000, 1) + LINE.format(rank=7, second=1, port=10_000) * (SAME_MAX + 5)
        late = [one for one in taken(whole_scanner, text) if one.line.rank == 7]
        assert sum(1 + one.repeats for one in late if one.signature.name == "net.refused") == SAME_MAX + 5
