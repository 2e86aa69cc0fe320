"""What turns throughput into MFU and price: the model and the chips that a plan uses.

Independent of any prediction, so that a figure called measured never leans on a plan file's word.
"""

from dataclasses import dataclass

from argosy.cli.choosing import Choice
from argosy.cli.inputs import Inputs
from argosy.model.flops import model_flops_utilization
from argosy.model.shape import ModelShape
from argosy.plan.costs.cost import peak_tflops
from argosy.plan.telling.explain import plan_chips

SECONDS_PER_HOUR = 3600.0
TOKENS_PRICED = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """The model and the chips in use; without a model there is no MFU.

    peak_tflops: sum of the chips' dense peaks, 0 where one is unknown. dollars_per_hour: of those chips; None where a
    price is unknown or chips are emulated. mfu_name: says of which peak, where that is no chip's own.
    """

    shape: ModelShape | None = None
    sequence_length: int = 1
    peak_tflops: float = 0.0
    dollars_per_hour: float | None = None
    mfu_name: str = "MFU"

    def mfu(self, tokens_per_second: float) -> float | None:
        """Share of the chips' peak that the model's FLOPs take, no recompute counted; None without a peak."""
        if self.shape is None or self.peak_tflops <= 0:
            return None
        return model_flops_utilization(self.shape, self.sequence_length, tokens_per_second, self.peak_tflops)

    def cost(self, tokens_per_second: float) -> float | None:
        """Price of 10^12 tokens."""
        if self.dollars_per_hour is None or tokens_per_second <= 0:
            return None
        return self.dollars_per_hour / SECONDS_PER_HOUR / tokens_per_second * TOKENS_PRICED


def yardstick(inputs: Inputs, choice: Choice) -> Yardstick:
    """Make the yardstick of a plan from the model's shape and the fleet's chips."""
    plan = choice.plan
    by_name = {chip_class.name: chip_class.chip for chip_class in inputs.classes}
    used = [(by_name[name], count) for name, count in plan_chips(plan).items()]
    peaks = [(peak_tflops(chip, plan.precision) or 0.0) * count for chip, count in used]
    prices = [None if chip.price_per_hour is None else chip.price_per_hour * count for chip, count in used]
    known = [price for price in prices if price is not None]
    core = not plan.emulated and any(chip.name == "cpu" for chip, _ in used)
    return Yardstick(
        shape=choice.shape,
        sequence_length=plan.sequence_length,
        peak_tflops=sum(peaks) if all(peaks) else 0.0,
        dollars_per_hour=sum(known) if len(known) == len(prices) and not plan.emulated else None,
        mfu_name="MFU, of the catalogue's core" if core else "MFU",
    )
