"""What was measured, beside what was predicted: the figures that the screen, the report and JSON share.

Computes from messages, plan, model and chips; what was measured never leans on what was predicted. Times of emulated
chips are marked `~` in every text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from argosy.cli.choosing import Choice
from argosy.cli.inputs import Inputs
from argosy.cli.words import counted
from argosy.cli.yardstick import yardstick
from argosy.contracts.messages import Finished, StepDone
from argosy.contracts.plan import Plan
from argosy.plan.telling.explain import plan_chips, price_text, rate_text, size_text, time_text

# The first step of an attempt warms up memory and caches; it is left out where there are enough others.
WARM_UP_STEPS, STEPS_ENOUGH = 1, 3
PARTS_SUM = "mixed efficiency: of what each site and kind does alone"
# The sleep of an emulated clock is late by less than this on a machine that keeps up.
BEHIND_SHARE_MIN = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Figures of one attempt.

    step_ms: on the emulated clock where chips are emulated, else on the wall's; wall_step_ms: always the wall's. Both
    are medians. tokens_per_second and mfu follow step_ms. mfu_name: see Yardstick. memory_gb: the largest peak of a
    rank; of an emulated chip it is that of a CPU process, interpreter and libraries within.
    """

    steps: int
    loss_first: float
    loss_last: float
    step_ms: float
    wall_step_ms: float
    tokens_per_second: float
    mfu: float | None
    mfu_name: str
    cost_per_trillion_tokens: float | None
    memory_gb: float | None
    emulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure, predicted beside measured, as text. difference: `+1.7 %`, or empty."""

    what: str
    predicted: str
    measured: str
    difference: str = ""


def measure(
    inputs: Inputs, choice: Choice, steps: Sequence[StepDone], new_steps: int, finished: Sequence[Finished]
) -> Measured | None:
    """Work out the figures of the last `new_steps` steps; None when there is none."""
    new = steps[len(steps) - new_steps :] if new_steps else []
    if not new:
        return None
    timed = new[WARM_UP_STEPS:] if len(new) >= STEPS_ENOUGH else new
    wall_step_ms = median(step.wall_s for step in timed) * 1e3
    virtual = [step.virtual_s for step in timed if step.virtual_s is not None]
    step_ms = median(virtual) * 1e3 if virtual else wall_step_ms
    tokens_per_second = new[-1].tokens / step_ms * 1e3 if step_ms > 0 else 0.0
    stick = yardstick(inputs, choice)
    return Measured(
        steps=len(new),
        loss_first=steps[0].loss,
        loss_last=new[-1].loss,
        step_ms=step_ms,
        wall_step_ms=wall_step_ms,
        tokens_per_second=tokens_per_second,
        mfu=stick.mfu(tokens_per_second),
        mfu_name=stick.mfu_name,
        cost_per_trillion_tokens=stick.cost(tokens_per_second),
        memory_gb=max((one.memory_gb for one in finished), default=None),
        emulated=choice.plan.emulated,
    )


def compare(plan: Plan, measured: Measured) -> list[Line]:
    """Set every figure that was both predicted and measured side by side."""
    told = plan.prediction
    mark = "~" if measured.emulated else ""
    if told is None:
        return _unpredicted(measured, mark)
    lines = [
        _time("a step" + (", emulated clock" if measured.emulated else ""), told.step_ms, measured.step_ms, mark),
        Line(
            what="tokens/s",
            predicted=mark + rate_text(told.tokens_per_second),
            measured=mark + rate_text(measured.tokens_per_second),
            difference=change(told.tokens_per_second, measured.tokens_per_second),
        ),
    ]
    if measured.emulated:
        lines.insert(1, _time("a step, on the wall's clock", told.step_ms, measured.wall_step_ms, mark, wall=True))
    if measured.mfu is not None:
        lines.append(
            Line(what=measured.mfu_name, predicted=mark + percent(told.mfu), measured=mark + percent(measured.mfu))
        )
    if told.reference_tokens_per_second > 0 and len(plan_chips(plan)) > 1:
        reached = measured.tokens_per_second / told.reference_tokens_per_second
        lines.append(Line(what=PARTS_SUM, predicted=mark + percent(told.efficiency), measured=mark + percent(reached)))
    lines.append(_memory(plan, measured))
    if told.cost_per_trillion_tokens is not None and measured.cost_per_trillion_tokens is not None:
        lines.append(_cost(told.cost_per_trillion_tokens, measured.cost_per_trillion_tokens))
    return lines


def fell_behind(measured: Measured, ranks: int) -> str:
    """Warn when the machine couldn't play emulated chips as fast as their clock went; empty when it could."""
    if not measured.emulated or measured.step_ms <= 0:
        return ""
    behind = measured.wall_step_ms / measured.step_ms - 1.0
    if behind < BEHIND_SHARE_MIN:
        return ""
    share = f"{behind:.0%}".replace("%", " %")
    why = f"this machine is too busy or too slow to play {counted(ranks, 'rank')}"
    return f"the wall clock fell {share} behind: {why}; virtual times stand"


def change(predicted: float, measured: float) -> str:
    """Write how far a measured figure is from the predicted one.

    >>> change(100, 101.7)
    '+1.7 %'
    """
    text = f"{measured / predicted - 1:+.1%}".replace("%", " %") if predicted > 0 else ""
    return text.replace("-0.0", "+0.0")


def percent(share: float) -> str:
    """Write a share of one."""
    return f"{share:.1%}".replace("%", " %")


def _unpredicted(measured: Measured, mark: str) -> list[Line]:
    """List what needs no prediction."""
    lines = [
        Line(what="a step", predicted="-", measured=mark + time_text(measured.step_ms)),
        Line(what="tokens/s", predicted="-", measured=mark + rate_text(measured.tokens_per_second)),
    ]
    if measured.mfu is not None:
        lines.append(Line(what=measured.mfu_name, predicted="-", measured=mark + percent(measured.mfu)))
    return lines


def _time(what: str, predicted_ms: float, measured_ms: float, mark: str, *, wall: bool = False) -> Line:
    return Line(
        what=what,
        predicted=mark + time_text(predicted_ms),
        measured=("" if wall else mark) + time_text(measured_ms),
        difference=change(predicted_ms, measured_ms),
    )


def _memory(plan: Plan, measured: Measured) -> Line:
    """Compare the fullest rank. The process that plays an emulated chip holds more than the chip would."""
    stages = [stage for replica in plan.replicas for stage in replica.stages]
    fullest = max(stages, key=lambda stage: stage.memory_gb)
    limit = f" of {size_text(fullest.memory_limit_gb)}" if fullest.memory_limit_gb else ""
    predicted = f"{size_text(fullest.memory_gb)}{limit} GB" if fullest.memory_gb else "-"
    if measured.memory_gb is None:
        return Line(what="memory, fullest rank", predicted=predicted, measured="-")
    peak = f"{size_text(measured.memory_gb)} GB" + (" (the process)" if measured.emulated else "")
    # A process that plays a chip holds an interpreter besides, so its size says nothing of the prediction.
    difference = "" if measured.emulated else change(fullest.memory_gb, measured.memory_gb)
    return Line(what="memory, fullest rank", predicted=predicted, measured=peak, difference=difference)


def _cost(predicted: float, measured: float) -> Line:
    return Line(
        what="$ / 1T tokens",
        predicted=price_text(predicted),
        measured=price_text(measured),
        difference=change(predicted, measured),
    )
