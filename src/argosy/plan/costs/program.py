"""What a training program makes of the same model on the same chips: what it cuts, fuses, hides and keeps.

Argosy's own trainer is one of several; plans for others and published runs of them are timed by the same arithmetic.
Pure constants; it must not know chips.
"""

from dataclasses import dataclass, replace

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import TRAINER_PROGRAM
from argosy.model import numerics
from argosy.model.cutting import padded_vocabulary, uncut
from argosy.model.numerics import Numerics
from argosy.model.shape import ModelShape
from argosy.plan.forms import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How a training program works.

    numerics: bytes it keeps; None: Argosy's trainer's, by precision. sequence_parallel: norms and residuals are cut
    inside a TP group. fused_attention: scores are never written to memory, and masked halves are skipped.
    overlapped: exchanges inside a TP group run beside the products that they belong to. vocabulary_multiple: the
    vocabulary is padded to a multiple of so many x TP; 0: never. copies_keys: TP ranks that share a head of keys hold
    a copy each. torch_rounds: torch deals zero-bubble's micro-batches into as many rounds as they fill the pipeline,
    which must go into them.
    """

    name: str
    numerics: Numerics | None = None
    sequence_parallel: bool = False
    fused_attention: bool = True
    overlapped: bool = False
    vocabulary_multiple: int = 0
    copies_keys: bool = False
    torch_rounds: bool = False

    def cut(self, shape: ModelShape, tp: int) -> ModelShape:
        """Give a model as a TP degree cuts it: with its vocabulary padded, where the program pads."""
        return replace(shape, vocab_size=padded_vocabulary(shape.vocab_size, self.vocabulary_multiple, tp))

    def can_cut(self, shape: ModelShape, tp: int) -> bool:
        """Whether it cuts a model by a TP degree."""
        return not uncut(shape, tp, pads_vocabulary=self.vocabulary_multiple > 0, copies_keys=self.copies_keys)


# What Megatron-LM pads to unless told otherwise (`--make-vocab-size-divisible-by`).
VOCABULARY_MULTIPLE = 128
TRAINER = Program(name=TRAINER_PROGRAM, torch_rounds=True)
# Megatron-LM as of arXiv 2205.05198.
MEGATRON_2022 = Program(
    name="megatron-2022",
    numerics=numerics.MEGATRON,
    sequence_parallel=True,
    fused_attention=False,
    vocabulary_multiple=VOCABULARY_MULTIPLE,
)
# Megatron Core since, which torchtitan and FlagScale are near: what plans for other frameworks are timed as.
MEGATRON_CORE = Program(
    name="megatron-core",
    numerics=numerics.MEGATRON_CORE,
    sequence_parallel=True,
    vocabulary_multiple=VOCABULARY_MULTIPLE,
    copies_keys=True,
)
PRECISIONS = ("fp32", "bf16")


def program_for(precision: str, *, own: bool, form: Form | None = None) -> Program:
    """Say what program to plan for: Megatron Core stands for all frameworks, unless only the trainer will do.

    own: only the trainer's plans are wanted, or times were measured with it. form: of the framework that plans are for,
    which may pad, copy and deal otherwise. Nobody else trains in fp32. Raises BadInputError for a precision whose times
    and bytes nobody here knows, fp8 among them.
    """
    if precision not in PRECISIONS:
        raise BadInputError(
            f"precision {precision!r}: plans are priced in {' and '.join(PRECISIONS)} alone; "
            "`--set train.precision=bf16` plans the same job in bf16"
        )
    program = TRAINER if own or precision != "bf16" else MEGATRON_CORE
    if form is None:
        return program
    return replace(
        program,
        vocabulary_multiple=program.vocabulary_multiple if form.pads_vocabulary else 0,
        copies_keys=program.copies_keys and form.copies_keys,
        torch_rounds=program.torch_rounds or form.torch_rounds,
    )
