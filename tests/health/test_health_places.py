"""Whom a message speaks of."""

import pytest

from argosy.health.places import Place, place_in


class TestPlaces:
    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("(PID:8812, Device:3, RankID:11) hbm multi bit ecc", Place(rank=11, chip="3")),
            ("Nodes gpu-17 not responding", Place(host="gpu-17")),
            ("at node (ID: 351e406b, IP: 10.95.143.76) over", Place(host="10.95.143.76")),
            ("Mismatched collective detected at and around rank 39.", Place(rank=39)),
            ("Rank 0 waits for rank 3", Place()),
            ("rank 3 of 8 on node failed", Place()),
            ("GPU 0 has a total capacity of 79.15 GiB", Place(chip="0")),
        ],
    )
    def test_one_is_named_or_none(self, text: str, place: Place):
        """The one rank, host and chip that a message names; of several none."""
        assert place_in(text) == place

    def test_a_host_that_few_lines_name_is_not_lent(self, judged):
        """A kernel's line without a host is not given to the host that another line names."""
        lines = ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "worker-1: Connection closed by peer")
        assert judged(*lines)[0].culprit.name == "chip 0000:3b:00"

    def test_srun_names_who_ended(self, judged):
        """Slurm's line names its own host and rank, not that of the next line."""
        first, second = "srun: error: node-16: task 3: Out Of Memory", "srun: error: node-17: tasks 4-7: Terminated"
        assert judged(first, second)[0].culprit.name == "node-16"

    @pytest.mark.parametrize("heading", ["===== {} =====", "==> logs/{}.log <==", "--- {} ---", "## {} ##"])
    def test_headings_name_hosts(self, judged, heading: str):
        """Where a collector prints each host's part under its name, lines are of the heading above them."""
        xid = "[   90.100000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
        lines = (heading.format("node-16"), "[ 88.1] eth0: link becomes ready", heading.format("node-17"), xid)
        assert judged(*lines)[0].culprit.name == "node-17 chip 0000:3b:00"
