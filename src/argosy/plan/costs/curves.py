"""How near real chips come to their data sheets: a table of shares by chip family, each with its source.

Only what the roofline multiplies peaks with stands here; it must not know models or plans.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from argosy.contracts.fleet import Chip, ChipClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Shares of peaks that a family of chips reaches; start_ms comes on top of every matrix product.

    chips: starts of the names that it is for. products: of the matrix peak, by large matrix products. attention: of the
    same peak, by fused attention, masked halves not counted. memory: of memory bandwidth, by element-wise work. wires:
    of a link's rate, by collectives (bus bandwidth). source: where the shares come from.
    """

    chips: tuple[str, ...]
    products: float
    attention: float
    memory: float = 0.8
    wires: float = 0.75
    start_ms: float = 0.0
    source: str


# products of A100 and H100: fitted on all published runs of the sets that benchmarks/planner_accuracy.py fits too; what
# these curves say of those runs is in-sample. See docs/costs.md.
CURVES = (
    Curve(
        chips=("a100-", "a800-"),
        products=0.725,
        attention=0.615,
        source="fit, all in sample, on published runs of Megatron-LM (arXiv 2104.04473, 2205.05198) and MegaScale; "
        "attention: FlashAttention-2, arXiv 2307.08691, 50 to 73 % of peak; wires and memory: FlagPerf's 78 and 85 %",
    ),
    Curve(
        chips=("h100-", "h800-", "h200-", "gh200"),
        products=0.64,
        attention=0.34,
        start_ms=0.04,
        source="fit, all in sample, on Megatron Core's and Llama 3's published runs; attention: FlashAttention-2 on "
        "H100, 335 TFLOPS",
    ),
    Curve(
        chips=("ascend-",),
        products=0.7,
        attention=0.5,
        source="FlagOpen/FlagPerf@1b5a030 measured 304 TFLOPS of an Ascend in plain bf16 products, 81 % of a 910B2's "
        "peak; training reaches 0.9 of such a figure on A100, and so here",
    ),
    Curve(
        chips=("metax-",),
        products=0.74,
        attention=0.5,
        memory=0.75,
        source="FlagOpen/FlagPerf@1b5a030: 82.8 % of peak in plain bf16 products, 75 % of memory bandwidth; training "
        "taken as 0.9 of the former, as on A100",
    ),
)
# So many names of chips are looked up once.
CHIPS_KEPT = 1024
# No measurement: below the families that have one.
PLAIN = Curve(chips=("",), products=0.6, attention=0.4, source="a guess below the families that were measured")


def curve_of(chip: Chip, curves: Iterable[Curve] = CURVES) -> Curve:
    """Find the curve of a chip's family; PLAIN where nothing was measured."""
    return next((curve for curve in curves if chip.name.startswith(curve.chips)), PLAIN)


@lru_cache(maxsize=CHIPS_KEPT)
def wires_reached(name: str) -> float:
    """Give the part of its wires' rate that a chip of a name reaches."""
    return next((curve.wires for curve in CURVES if name.startswith(curve.chips)), PLAIN.wires)


def wire_efficiency(chip_class: ChipClass) -> float:
    """Give the part of its wires' rate that a class's collectives and messages reach; emulated wires reach all."""
    return 1.0 if chip_class.emulated else wires_reached(chip_class.chip.name)
