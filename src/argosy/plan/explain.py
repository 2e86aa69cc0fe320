"""Plans in words: a line for each option, and what the chosen one does and what holds it back.

Text only, without colour or layout, so that the command line, the report and a log say the same. Must not choose or
time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.contracts.plan import Plan, Prediction, Replica
from argosy.network.wires import find_wire

NEXT_BEST = "next best"
LINES_MAX = 8
HOLDUPS_MAX = 4
LAYERS_LISTED_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One option in words, ready for a table."""

    option: str
    chips: str
    step: str
    tokens_per_second: str
    mfu: str
    cost: str
    efficiency: str
    long_link: str


def option_rows(plans: Sequence[Plan], goal: str) -> list[Row]:
    """Describe options, the chosen one first. goal: what it was chosen for."""
    costs = [cost for plan in plans if (cost := predicted(plan).cost_per_trillion_tokens) is not None]
    cheapest = min(costs, default=None)
    return [row(plan, option_name(plan, index, goal, cheapest)) for index, plan in enumerate(plans)]


def option_name(plan: Plan, index: int, goal: str, cheapest: float | None) -> str:
    """Name an option by what sets it apart."""
    classes = plan_chips(plan)
    if index == 0:
        return goal
    if cheapest is not None and predicted(plan).cost_per_trillion_tokens == cheapest:
        return "cheapest"
    if any(len({stage.chip_class for stage in replica.stages}) > 1 for replica in plan.replicas):
        return "mixed pipelines"
    if len({name.split("/")[0] for name in classes}) == 1:
        return "one site" if len(classes) > 1 else f"{next(iter(classes)).split('/')[0]} alone"
    return NEXT_BEST


def row(plan: Plan, option: str) -> Row:
    """Describe one option."""
    told = predicted(plan)
    cost = told.cost_per_trillion_tokens
    several = len(plan_chips(plan)) > 1
    return Row(
        option=option,
        chips=chips_text(plan),
        step=marked(time_text(told.step_ms), plan.emulated),
        tokens_per_second=marked(rate_text(told.tokens_per_second), plan.emulated),
        mfu=marked(share_text(told.mfu), plan.emulated),
        cost="-" if cost is None or plan.emulated else f"{cost:,.0f}",
        efficiency=marked(share_text(told.efficiency), plan.emulated) if several else "-",
        long_link=crossing_text(plan),
    )


def summary_lines(plans: Sequence[Plan], goal: str) -> list[str]:
    """Say how the chosen plan is split, what it is held against and what holds it back, and the next best."""
    chosen, told = plans[0], predicted(plans[0])
    count = len(chosen.replicas)
    zero = ", optimizer state sharded (ZeRO-1)" if chosen.zero_stage else ""
    lines = [f"{goal}, {count} replica{'s' if count > 1 else ''}, schedule {chosen.schedule}{zero}:"]
    lines += replica_lines(chosen)
    held = [f"{holdup.what} ({marked(share_text(holdup.share), chosen.emulated)})" for holdup in told.holdups]
    lines.append(f"bound: {told.bound_name}; this plan reaches {marked(share_text(told.efficiency), chosen.emulated)}.")
    if any(len(plan_chips(plan)) < len(plan_chips(chosen)) for plan in plans[1:]):
        lines.append("options on a part of these chips take the whole batch, so they do not add up to the bound.")
    lines.append(f"held back by: {'; '.join(held[:HOLDUPS_MAX]) or 'nothing above 0.1 %'}.")
    if len(plans) > 1:
        second = option_rows(plans, goal)[1]
        name = "" if second.option == NEXT_BEST else f"{second.option}, "
        lines.append(f"next best: {name}{second.chips}, {second.step} a step.")
    return lines


def replica_lines(plan: Plan) -> list[str]:
    """Describe the replicas, those of like stages together."""
    likes: dict[object, list[Replica]] = {}
    for replica in plan.replicas:
        key = tuple(replace(stage, ranks=()) for stage in replica.stages)
        likes.setdefault(key, []).append(replica)
    texts = [replica_texts(alike) for alike in list(likes.values())[:LINES_MAX]]
    widths = [max(len(text[column]) for text in texts) for column in range(len(texts[0]))]
    lines = [
        "  " + "   ".join([text[0].rjust(widths[0]), *(t.ljust(w) for t, w in zip(text[1:], widths[1:], strict=True))])
        for text in texts
    ]
    more = [f"  and {len(likes) - LINES_MAX} more kinds"] if len(likes) > LINES_MAX else []
    return [line.rstrip() for line in lines] + more


def replica_texts(alike: Sequence[Replica]) -> tuple[str, ...]:
    """Describe replicas of like stages: how many, their chips, how they are cut, micro-batches, memory."""
    stages, size = alike[0].stages, alike[0].microbatch_size
    layers = [stage.end_layer - stage.first_layer for stage in stages]
    cut = "+".join(map(str, layers)) if len(layers) <= LAYERS_LISTED_MAX else f"{min(layers)} to {max(layers)}"
    staged = f"1 stage of {cut} layers" if len(layers) == 1 else f"{len(layers)} stages of {cut} layers"
    recompute = ", full recompute" if any(stage.recompute == "full" for stage in stages) else ""
    fewest, most = (pick(replica.microbatches for replica in alike) for pick in (min, max))
    counted = f"{most}" if fewest == most else f"{fewest} to {most}"
    fullest = max(stages, key=lambda stage: stage.memory_gb / max(stage.memory_limit_gb, 1e-9))
    return (
        f"{len(alike)} x",
        " + ".join(dict.fromkeys(stage.chip_class for stage in stages)),
        f"TP {stages[0].tp}, {staged}{recompute}",
        f"{counted} micro-batch{'es' if most > 1 else ''}" + (f" of {size}" if size > 1 else ""),
        f"{size_text(fullest.memory_gb)} of {size_text(fullest.memory_limit_gb)} GB",
    )


def crossing_text(plan: Plan) -> str:
    """Say what goes over long links: gradients, activations or nothing."""
    told = predicted(plan)
    gradients = [e for e in plan.exchanges if find_wire(plan.wires, e.wire).long_link]
    sent = sum(e.wire_bytes + e.gather_bytes for e in gradients)
    texts = []
    if sent:
        hidden = marked(share_text(told.exchange_hidden, digits=0), plan.emulated)
        texts.append(f"gradients, {bytes_text(sent)} a step, hidden {hidden}")
    activations = sum(
        2 * replica.microbatches * send.payload_bytes
        for replica in plan.replicas
        for send in replica.sends
        if find_wire(plan.wires, send.wire).long_link
    )
    if activations:
        texts.append(f"activations, {bytes_text(activations)} a step")
    return "; ".join(texts) or "nothing"


def plan_chips(plan: Plan) -> dict[str, int]:
    """Count the chips in use of each class."""
    counts: dict[str, int] = {}
    for replica in plan.replicas:
        for stage in replica.stages:
            counts[stage.chip_class] = counts.get(stage.chip_class, 0) + stage.tp
    return counts


def chips_text(plan: Plan) -> str:
    """Say how many chips of each kind; with their site where two sites have the kind."""
    counts = plan_chips(plan)
    kinds = [name.split("/")[1] for name in counts if "/" in name]
    short = len(set(kinds)) == len(counts)
    return " + ".join(f"{chips:,} {name.split('/')[1] if short else name}" for name, chips in counts.items())


def predicted(plan: Plan) -> Prediction:
    """Give a plan's prediction; plans come from the planner, which makes one for each."""
    if plan.prediction is None:
        raise ValueError("a plan without a prediction can't be explained")
    return plan.prediction


def marked(text: str, emulated: bool) -> str:
    """Mark a figure of emulated chips, so that nobody takes it for one of real chips.

    >>> marked("42.0 ms", True), marked("42.0 ms", False)
    ('~42.0 ms', '42.0 ms')
    """
    return f"~{text}" if emulated else text


def share_text(share: float, digits: int = 1) -> str:
    """Write a share of 1 in percent.

    >>> share_text(0.9637), share_text(0.885, digits=0)
    ('96.4 %', '88 %')
    """
    return f"{share * 100:.{digits}f} %"


def time_text(time_ms: float) -> str:
    """Write a time with a unit that suits it.

    >>> time_text(1840), time_text(42)
    ('1.84 s', '42.0 ms')
    """
    return f"{time_ms / 1e3:,.2f} s" if time_ms >= 1000 else f"{time_ms:.1f} ms"


def rate_text(per_second: float) -> str:
    """Write a rate with a short unit."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if per_second >= limit:
            return f"{per_second / (1e3 if unit == ' k' else limit):.2f}{unit}"
    return f"{per_second:,.0f}"


def bytes_text(count: float) -> str:
    """Write bytes with a unit that suits them."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= limit:
            return f"{count / limit:,.1f} {unit}"
    return f"{count:.0f} B"


def size_text(gb: float) -> str:
    """Write memory without more digits than it is known to."""
    return f"{gb:.0f}" if gb >= 10 else f"{gb:.2g}"
