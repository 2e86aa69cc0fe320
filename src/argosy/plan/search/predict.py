"""What is expected of a draft, and what it is held against: step time, throughput, cost, MFU, what holds it back.

Reads times off the timeline and sets them beside a reference. Must not choose.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul

from argosy.contracts.plan import AloneRate, Exchange, Holdup, Plan, Prediction
from argosy.model.flops import model_flops_utilization
from argosy.network.wires import find_wire, send_ms
from argosy.plan.costs.cost import peak_tflops
from argosy.plan.search.drafts import Draft, refitted
from argosy.plan.search.plans import make_parts, sketch, whole
from argosy.plan.timing.check import check_plan
from argosy.plan.timing.timeline import Timeline, sketched, steady

MS_PER_HOUR = 3.6e6
TOKENS_PRICED = 1e12
HOLDUP_SHARE_MIN = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A draft with its timeline.

    tokens: of one step. dollars_per_hour, power_kw: of the chips in use; None where a price or rated power is unknown.
    """

    draft: Draft
    timeline: Timeline
    tokens: int
    dollars_per_hour: float | None
    power_kw: float | None

    @property
    def tokens_per_second(self) -> float:
        """Throughput, in the steady state."""
        return self.tokens / self.timeline.step_ms * 1e3

    @property
    def cost(self) -> float | None:
        """Price of 10^12 tokens."""
        if self.dollars_per_hour is None:
            return None
        return self.dollars_per_hour * self.timeline.step_ms / MS_PER_HOUR / self.tokens * TOKENS_PRICED


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a plan is held against. name: says in words what it is; parts: by class, where there are several."""

    tokens_per_second: float
    name: str
    parts: tuple[AloneRate, ...] = ()


def time_draft(draft: Draft) -> Timed:
    """Time a draft by its sketch, which is legal by the way it is made; `predicted` checks what is chosen."""
    return Timed(
        draft=draft,
        timeline=sketched(*make_parts(draft, [1] * len(draft.groups))),
        tokens=draft.sequences * draft.setting.sequence_length,
        dollars_per_hour=summed(draft, [c.chip.price_per_hour for c in draft.classes.values()]),
        power_kw=summed(draft, [c.chip.tdp_w and c.chip.tdp_w / 1e3 for c in draft.classes.values()]),
    )


def timed_again(draft: Draft) -> Timed | None:
    """Cut a draft that was changed by hand again and time it; None where it does not fit."""
    again = refitted(draft)
    return None if again is None else time_draft(again)


def summed(draft: Draft, values: Sequence[float | None]) -> float | None:
    """Sum over the chips in use a value that each class's chips have; None where one is unknown."""
    known = [value for value in values if value is not None]
    chips = [draft.chips[name] for name in draft.classes]
    return sum(map(mul, known, chips)) if len(known) == len(chips) else None


def predicted(timed: Timed, reference: Reference, least_ms: float = 0.0) -> Plan:
    """Make the whole plan of a timed draft, with its prediction. least_ms: that no step is shorter than; 0: unknown."""
    draft, timeline = timed.draft, timed.timeline
    plan = sketch(draft)
    check_plan(plan)
    share, hidden = exchange_shares(plan, timeline.step_ms)
    peak = sum(
        chips * (peak_tflops(draft.classes[name].chip, plan.precision) or 0.0) for name, chips in draft.chips.items()
    )
    prediction = Prediction(
        step_ms=timeline.step_ms,
        tokens_per_second=timed.tokens_per_second,
        mfu=model_flops_utilization(
            draft.setting.shape, draft.setting.sequence_length, timed.tokens_per_second, peak_tflops=peak
        ),
        reference_tokens_per_second=reference.tokens_per_second,
        reference_name=reference.name,
        reference_parts=reference.parts,
        efficiency=timed.tokens_per_second / reference.tokens_per_second,
        cost_per_trillion_tokens=timed.cost,
        power_kw=timed.power_kw,
        memory_gb=max(stage.memory_gb for replica in plan.replicas for stage in replica.stages),
        gap=timeline.step_ms / least_ms - 1 if least_ms > 0 else None,
        exchange_share=share,
        exchange_hidden=hidden,
        holdups=holdups(timed, plan),
        emulated=plan.emulated,
    )
    return replace(whole(draft), prediction=prediction)


def exchange_shares(plan: Plan, step_ms: float) -> tuple[float, float]:
    """Give exchange_share and exchange_hidden of a plan that takes step_ms a step.

    If nothing overlapped, the step would be longer by the part that is hidden now.
    """
    crossing = exchanges_over(plan, long_link=True)
    crossing_ms = sum(crossing_time_ms(plan, exchange) for exchange in crossing)
    if crossing_ms <= 0:
        return 0.0, 1.0
    hidden = 1.0 - min(1.0, max(0.0, lengthened_ms(plan, crossing, step_ms) / crossing_ms))
    return crossing_ms / (step_ms + crossing_ms * hidden), hidden


def exchanges_over(plan: Plan, *, long_link: bool) -> list[Exchange]:
    """List the exchanges that cross a long link, or those that don't."""
    return [e for e in plan.exchanges if find_wire(plan.wires, e.wire).long_link == long_link]


def lengthened_ms(plan: Plan, exchanges: Sequence[Exchange], step_ms: float) -> float:
    """Time by which exchanges lengthen a plan's step: what it would save to leave them out."""
    return step_ms - steady(without(plan, exchanges)).step_ms


def crossing_time_ms(plan: Plan, exchange: Exchange) -> float:
    """Time an exchange's bytes, and what is gathered after, on their wire."""
    return send_ms(find_wire(plan.wires, exchange.wire), exchange.wire_bytes + exchange.gather_bytes)


def without(plan: Plan, exchanges: Sequence[Exchange]) -> Plan:
    """Leave exchanges out of a plan."""
    units = {exchange.unit for exchange in exchanges}
    return replace(plan, exchanges=tuple(e for e in plan.exchanges if e.unit not in units))


def holdups(timed: Timed, plan: Plan) -> tuple[Holdup, ...]:
    """Name what keeps the chips from computing all the time, largest first.

    Exchanges, by leaving those of each wire out of the timeline; idle stages of each class, in chip time weighted by
    peak.
    """
    draft, step_ms = timed.draft, timed.timeline.step_ms
    found: dict[str, float] = {}
    for long_link in (True, False):
        some = exchanges_over(plan, long_link=long_link)
        if some:
            where = " and ".join(sorted({e.wire for e in some})) if long_link else "inside sites"
            found[f"gradient exchange {where}"] = lengthened_ms(plan, some, step_ms) / step_ms
    exposed = sum(found.values())
    peaks = {name: (peak_tflops(c.chip, plan.precision) or 0.0) for name, c in draft.classes.items()}
    total = sum(chips * peaks[name] for name, chips in draft.chips.items())
    idle = dict.fromkeys(draft.classes, 0.0)
    for group, busy in zip(draft.groups, timed.timeline.busy, strict=True):
        layout = group.template.layout
        for run, share in zip(layout.places, busy, strict=True):
            weight = group.count * layout.width(run) * peaks[run.chip_class.name] / total
            idle[run.chip_class.name] += weight * max(0.0, 1 - share - exposed)
    found |= {f"bubble on {name}": share for name, share in idle.items()}
    kept = [Holdup(what=what, share=share) for what, share in found.items() if share >= HOLDUP_SHARE_MIN]
    return tuple(sorted(kept, key=lambda holdup: -holdup.share))
