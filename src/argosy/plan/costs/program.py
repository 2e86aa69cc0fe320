"""What a training program makes of the same model on the same chips: what it cuts, fuses, hides and keeps.

Argosy's own trainer is one of several; plans for others and published runs of them are timed by the same arithmetic.
Pure constants; it must not know chips.
"""

from dataclasses import dataclass

from argosy.contracts.plan import TRAINER_PROGRAM
from argosy.model import numerics
from argosy.model.numerics import Numerics


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How a training program works.

    numerics: bytes it keeps; None: Argosy's trainer's, by precision. sequence_parallel: norms and residuals are cut
    inside a TP group. fused_attention: scores are never written to memory, and masked halves are skipped.
    overlapped: exchanges inside a TP group run beside the products that they belong to.
    """

    name: str
    numerics: Numerics | None = None
    sequence_parallel: bool = False
    fused_attention: bool = True
    overlapped: bool = False


TRAINER = Program(name=TRAINER_PROGRAM)
# Megatron-LM as of arXiv 2205.05198.
MEGATRON_2022 = Program(name="megatron-2022", numerics=numerics.MEGATRON, sequence_parallel=True, fused_attention=False)
# Megatron Core since, which torchtitan and FlagScale are near: what plans for other frameworks are timed as.
MEGATRON_CORE = Program(name="megatron-core", numerics=numerics.MEGATRON_CORE, sequence_parallel=True)


def program_for(precision: str, *, own: bool) -> Program:
    """Say what program to plan for: Megatron Core stands for all frameworks, unless only the trainer will do.

    own: only the trainer's plans are wanted, or times were measured with it. Nobody else trains in fp32.
    """
    return TRAINER if own or precision != "bf16" else MEGATRON_CORE
