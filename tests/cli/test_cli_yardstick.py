"""MFU and price of a throughput, whatever a plan's prediction says."""

from dataclasses import replace

import pytest

from argosy.cli.choosing import Choice, choose
from argosy.cli.inputs import Inputs
from argosy.cli.yardstick import Yardstick, yardstick
from argosy.model.flops import train_flops_per_token
from support.runs import Workspace


def real(workspace: Workspace, *, cpu: bool = False) -> tuple[Inputs, Choice]:
    """Choose a plan and play its chips for real ones, or CPU cores."""
    inputs = workspace.inputs()
    choice = choose(inputs)
    classes = tuple(
        replace(c, emulated=False, chip=replace(c.chip, name="cpu" if cpu else c.chip.name, price_per_hour=2.0))
        for c in inputs.classes
    )
    return replace(inputs, classes=classes), replace(choice, plan=replace(choice.plan, emulated=False))


class TestYardstick:
    def test_mfu_is_flops_over_peak(self, workspace: Workspace) -> None:
        """The chips of the workspace have 0.004 and 0.002 TFLOPS, so MFU is the model's FLOPs over 6e9."""
        inputs = workspace.inputs()
        choice = choose(inputs)
        flops = train_flops_per_token(choice.shape, choice.plan.sequence_length)
        assert yardstick(inputs, choice).mfu(1000.0) == pytest.approx(flops * 1000 / 6e9)

    def test_agrees_with_the_planner(self, workspace: Workspace) -> None:
        """At the predicted throughput MFU is the predicted one."""
        inputs = workspace.inputs()
        choice = choose(inputs)
        told = choice.plan.prediction
        assert told is not None
        assert yardstick(inputs, choice).mfu(told.tokens_per_second) == pytest.approx(told.mfu)

    def test_a_plan_files_word_counts_for_nothing(self, workspace: Workspace) -> None:
        """A plan.json whose prediction boasts once raised the MFU that was called measured; the figures stay."""
        inputs, choice = real(workspace)
        told = choice.plan.prediction
        assert told is not None
        boast = replace(choice.plan, prediction=replace(told, mfu=9.0, cost_per_trillion_tokens=0.01))
        boasting = yardstick(inputs, replace(choice, plan=boast, from_file=True))
        assert boasting == yardstick(inputs, choice)

    def test_price(self, workspace: Workspace) -> None:
        """Two chips at 2 $ an hour cost 1.11 million $ a trillion tokens at 1,000 a second; emulated ones nothing."""
        inputs, choice = real(workspace)
        assert yardstick(inputs, choice).cost(1000.0) == pytest.approx(4 / 3600 / 1000 * 1e12)
        assert yardstick(inputs, choice).cost(0.0) is None
        assert yardstick(workspace.inputs(), choose(workspace.inputs())).cost(1000.0) is None

    def test_cores_are_the_catalogues(self, workspace: Workspace) -> None:
        """MFU of real CPU cores says that the peak is the catalogue's, for cores differ by far."""
        assert yardstick(*real(workspace, cpu=True)).mfu_name == "MFU, of the catalogue's core"
        assert yardstick(*real(workspace)).mfu_name == "MFU"

    def test_nothing_known(self) -> None:
        """Without model and chips there is neither."""
        assert Yardstick().mfu(1000.0) is None
        assert Yardstick().cost(1000.0) is None
