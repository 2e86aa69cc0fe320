"""The line that explains a prediction for CPU cores which is far off."""

from argosy.cli.train_screen import cpu_note
from support.runs import FLEET, Workspace, ended_run


class TestCpuNote:
    def test_only_for_real_cores(self, workspace: Workspace) -> None:
        """Emulated chips have no such line; real cores have one when the prediction is off by more than half."""
        assert cpu_note(ended_run(workspace.inputs())) == ""
        head = FLEET.split("long_links")[0].replace(", south: {}", "")
        workspace.write("here.yaml", f"{head}nodes:\n  - {{site: north, chip: cpu, chips_per_node: 2, count: 1}}\n")
        assert "half a server core" in cpu_note(ended_run(workspace.inputs(fleet="here.yaml")))
