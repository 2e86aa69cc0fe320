"""Looking a machine over: vendors' tools played by fixed answers, the kernel's lists by files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from argosy.contracts.fleet import Nics
from argosy.fleet.catalogue import load_catalogue
from argosy.fleet.detect import Run, detect, npu_names, rocm_names, run_tool, survey
from argosy.fleet.fleet_file import read_fleet, write_fleet

CATALOGUE = load_catalogue()
NPU_SMI = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 23.0.rc2                 Version: 23.0.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 92.5        45                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3161 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | OK            | 93.1        44                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3161 / 65536         |
+===========================+===============+====================================================+
"""
ROCM_SMI = (
    '{"card0": {"Card Series": "AMD Instinct MI300X"}, "card1": {"Card Series": "AMD Instinct MI300X"}, "system": {}}'
)


def answering(answers: Mapping[str, str]) -> Run:
    """Play the tools: each answers its text, the others aren't there."""

    def run(command: Sequence[str]) -> str | None:
        return answers.get(command[0])

    return run


def write(path: Path, text: str) -> None:
    """Write one file of a played /sys/class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


class TestSurvey:
    def test_a_bare_machine_is_its_cpu(self, tmp_path: Path) -> None:
        """Without accelerators the CPU's cores are the chips, and the notes say what didn't answer."""
        found = survey(CATALOGUE, answering({}), tmp_path)
        assert [group.chip for group in found.fleet.nodes] == ["cpu"]
        assert "nvidia-smi" in found.notes[0]
        assert "CPU cores" in found.host

    @pytest.mark.parametrize(("flags", "noted"), [("fpu avx2 avx512f avx512bw", True), ("fpu avx2", False)])
    def test_wide_cores_are_noted(self, flags: str, noted: bool, tmp_path: Path) -> None:
        """A CPU with AVX-512 outruns the catalogue's one figure for a core, which the notes say."""
        write(tmp_path / "cpuinfo", f"processor\t: 0\nmodel name\t: X avx512f\nflags\t\t: {flags}\n")
        found = survey(CATALOGUE, answering({}), tmp_path, tmp_path / "cpuinfo")
        assert any("AVX-512" in note for note in found.notes) is noted

    def test_nvidia(self, tmp_path: Path) -> None:
        """nvidia-smi's product names become chips of one node."""
        found = survey(CATALOGUE, answering({"nvidia-smi": "NVIDIA H200\n" * 8}), tmp_path)
        (group,) = found.fleet.nodes
        assert (group.chip, group.chips_per_node, group.count) == ("h200-sxm", 8, 1)
        assert found.products == (("NVIDIA H200", 8),)
        assert found.notes == ()

    @pytest.mark.parametrize(
        ("tool", "answer", "chip"),
        [
            ("npu-smi", NPU_SMI, "ascend-910b3"),
            ("rocm-smi", ROCM_SMI, "mi300x"),
            ("hl-smi", "HL-225\nHL-225\n", "gaudi-2"),
        ],
    )
    def test_other_makers(self, tmp_path: Path, tool: str, answer: str, chip: str) -> None:
        """Each maker's tool is understood."""
        (group,) = survey(CATALOGUE, answering({tool: answer}), tmp_path).fleet.nodes
        assert (group.chip, group.chips_per_node) == (chip, 2)

    def test_two_dies_are_one_chip(self, tmp_path: Path) -> None:
        """A chip whose dies are listed apart counts once."""
        answer = ROCM_SMI.replace("MI300X", "MI250X")
        assert survey(CATALOGUE, answering({"rocm-smi": answer}), tmp_path).fleet.nodes[0].chips_per_node == 1

    def test_unknown_product(self, tmp_path: Path) -> None:
        """A product that the catalogue doesn't know is noted with the nearest chip, never guessed."""
        found = survey(CATALOGUE, answering({"nvidia-smi": "NVIDIA H200 Super\n"}), tmp_path)
        assert found.fleet.nodes[0].chip == "cpu"
        assert any('1 x "NVIDIA H200 Super" are not in the catalogue' in note for note in found.notes)

    def test_mixed_host(self, tmp_path: Path) -> None:
        """Two kinds in one host become two groups and a note."""
        found = survey(CATALOGUE, answering({"nvidia-smi": "Tesla T4\nNVIDIA L4\n"}), tmp_path)
        assert [group.chip for group in found.fleet.nodes] == ["t4", "l4"]
        assert "several kinds" in found.notes[-1]

    def test_this_machine(self) -> None:
        """Whatever this machine is, the fleet found is one that read_fleet accepts."""
        fleet = detect()
        assert read_fleet(write_fleet(fleet), "detected", CATALOGUE) == fleet


class TestNetworkCards:
    def test_infiniband_ports_that_are_up(self, tmp_path: Path) -> None:
        """Active InfiniBand or RoCE ports count, of the rate that carries most in all."""
        for index, (state, rate) in enumerate(
            [("4: ACTIVE", "400"), ("4: ACTIVE", "400"), ("1: DOWN", "400"), ("4: ACTIVE", "25")]
        ):
            port = tmp_path / f"infiniband/mlx5_{index}/ports/1"
            write(port / "state", state + "\n")
            write(port / "rate", f"{rate} Gb/sec (4X NDR)\n")
        found = survey(CATALOGUE, answering({"nvidia-smi": "NVIDIA H200\n"}), tmp_path)
        assert found.fleet.nodes[0].nics == Nics(count=2, gbps=400)

    def test_else_ethernet_devices(self, tmp_path: Path) -> None:
        """Without InfiniBand, physical Ethernet devices with a known speed count; bridges and dead ports don't."""
        for name, speed, physical in (("eth0", "100000", True), ("eth1", "-1", True), ("docker0", "10000", False)):
            write(tmp_path / f"net/{name}/speed", speed)
            if physical:
                (tmp_path / f"net/{name}/device").mkdir()
        found = survey(CATALOGUE, answering({"nvidia-smi": "NVIDIA H200\n"}), tmp_path)
        assert found.fleet.nodes[0].nics == Nics(count=1, gbps=100)


class TestTools:
    @pytest.mark.parametrize("text", [None, "", "no JSON", "[]", '{"card0": 3}'])
    def test_rocm_noise(self, text: str | None) -> None:
        """Whatever rocm-smi prints, reading it names no chip and raises nothing."""
        assert rocm_names(text) == []

    def test_npu_rows(self) -> None:
        """Only rows that name a chip count, not the bus rows beneath them."""
        assert npu_names(NPU_SMI) == ["910B3", "910B3"]
        assert npu_names(None) == npu_names("dcmi model initialized failed") == []

    def test_a_tool_that_is_not_there(self) -> None:
        """A missing tool answers nothing."""
        assert run_tool(("argosy-no-such-tool",)) is None

    def test_a_tool_that_fails(self) -> None:
        """A tool that exits badly answers nothing."""
        assert run_tool(("false",)) is None
