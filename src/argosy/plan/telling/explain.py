"""Plans in words: a line for each option, and what the chosen one does and what holds it back.

Text only, without colour or layout, so that the command line, the report and a log say the same. Must not choose or
time.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from argosy.contracts.plan import Plan, Prediction, Replica, Stage
from argosy.network.wires import find_wire
from argosy.plan.costs.memory import FRAGMENTATION, RUNTIME_GB

LINES_MAX = 8
HOLDUPS_MAX = 4
LAYERS_LISTED_MAX = 10
LINE_WIDTH = 110
SHARDED = {
    1: "optimizer state sharded (ZeRO-1)",
    2: "optimizer state and gradients sharded (ZeRO-2)",
    3: "optimizer state, gradients and weights sharded (ZeRO-3)",
}


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
    classes = used_classes(plans)
    return [row(plan, name, classes) for plan, name in zip(plans, option_names(plans, goal), strict=True)]


def option_names(plans: Sequence[Plan], goal: str) -> list[str]:
    """Name options, each differently, by what they use; the first by the goal too.

    The cheapest is told where prices are shown.
    """
    costs = [predicted(plan).cost_per_trillion_tokens for plan in plans if not plan.emulated]
    known = [cost for cost in costs if cost is not None]
    cheapest = min(known) if len(known) == len(plans) > 1 and goal != "cheapest" else None
    classes = used_classes(plans)
    names: list[str] = []
    for index, plan in enumerate(plans):
        what = option_name(plan, classes)
        name = f"{goal}: {what}" if index == 0 else what
        again = sum(other.removeprefix(f"{goal}: ").split(", way ")[0] == what for other in names)
        names.append(f"{name}, way {again + 1}" if again else name)
    if cheapest is None:
        return names
    told = [predicted(plan).cost_per_trillion_tokens == cheapest for plan in plans]
    return [f"{name}, cheapest of these" if least else name for name, least in zip(names, told, strict=True)]


def option_name(plan: Plan, classes: Collection[str]) -> str:
    """Name an option by what it is. classes: all that are used by any option."""
    used = list(plan_chips(plan))
    mixed = {frozenset(stage.chip_class for stage in replica.stages) for replica in plan.replicas}
    for kinds in sorted((kinds for kinds in mixed if len(kinds) > 1), key=len, reverse=True):
        row = [name for name in used if name in kinds]
        sites = list(dict.fromkeys(site_of(name) for name in row))
        apart = " + ".join(name for name in used if name not in kinds)
        joined = " + ".join(sites if len(sites) > 1 else map(chip_of, row))
        return f"{joined} in one pipeline{f', {apart} apart' if apart else ''}"
    sites = list(dict.fromkeys(map(site_of, used)))
    if len(sites) > 1:
        return f"{' + '.join(sites)}, each chip in pipelines of its own"
    whole = [name for name in classes if site_of(name) == sites[0]]
    return f"{sites[0]} alone" if len(used) == len(whole) > 1 else f"{' + '.join(used)} alone"


def site_of(chip_class: str) -> str:
    """Give the site in a class's name."""
    return chip_class.split("/")[0]


def chip_of(chip_class: str) -> str:
    """Give what follows the site in a class's name."""
    return chip_class.split("/", 1)[-1]


def row(plan: Plan, option: str, classes: Collection[str]) -> Row:
    """Describe one option. classes: all that are used by any."""
    told = predicted(plan)
    cost = told.cost_per_trillion_tokens
    several = len(plan_chips(plan)) > 1
    return Row(
        option=option,
        chips=chips_text(plan, classes),
        step=marked(time_text(told.step_ms), plan.emulated),
        tokens_per_second=marked(rate_text(told.tokens_per_second), plan.emulated),
        mfu=marked(share_text(told.mfu), plan.emulated),
        cost="-" if cost is None or plan.emulated else price_text(cost),
        efficiency=marked(share_text(told.efficiency), plan.emulated) if several else "-",
        long_link=crossing_text(plan),
    )


def summary_lines(plans: Sequence[Plan], goal: str, width: int = LINE_WIDTH) -> list[str]:
    """Say how the chosen plan is split, what it is held against and what holds it back, and the next best.

    width: columns that there are; lines in columns keep to them, sentences are left to be folded.
    """
    chosen, told = plans[0], predicted(plans[0])
    count = len(chosen.replicas)
    virtual = f", {chosen.virtual_stages} virtual stages each" if chosen.virtual_stages > 1 else ""
    zero = f", {SHARDED[chosen.zero_stage]}" if chosen.zero_stage else ""
    lines = [f"{goal}, {count:,} replica{'' if count == 1 else 's'}, schedule {chosen.schedule}{virtual}{zero}:"]
    lines += [*replica_lines(chosen, width), memory_line(chosen)]
    held = [f"{holdup.what} ({marked(share_text(holdup.share), chosen.emulated)})" for holdup in told.holdups]
    reached = marked(share_text(told.efficiency), chosen.emulated)
    lines.append(f"reference: {reference_text(told)}; this plan reaches {reached}.")
    if any(len(plan_chips(plan)) < len(plan_chips(chosen)) for plan in plans[1:]):
        lines.append("options on a part of these chips take the whole batch, so they do not add up to the reference.")
    lines += filter(None, [company_line(plans), bound_line(chosen)])
    lines.append(f"held back by: {'; '.join(held[:HOLDUPS_MAX]) or 'nothing above 0.1 %'}.")
    if len(plans) > 1:
        second = option_rows(plans, goal)[1]
        lines.append(f"next best: {second.option}, {second.chips}, {second.step} a step.")
    return lines


def company_line(plans: Sequence[Plan]) -> str:
    """Say how an efficiency can be above 100 %; empty where none that is shown is."""
    shares = [predicted(plan).efficiency for plan in plans if len(plan_chips(plan)) > 1]
    if all(share <= 1 or share_text(share) == share_text(1) for share in shares):
        return ""
    return (
        "efficiency above 100 %: those chips do more together than each class would alone with its share of the batch, "
        "as where alone it needs more stages or finer cuts."
    )


def reference_text(told: Prediction) -> str:
    """Say what a plan is held against, and of several classes what each gives."""
    rates = [
        f"{part.chip_class} {marked(rate_text(part.tokens_per_second), part.emulated)}"
        + (" (arithmetic: the model does not fit on it alone)" if part.by_arithmetic else "")
        for part in told.reference_parts
    ]
    return f"{told.reference_name}, give {' + '.join(rates)} tokens/s" if rates else told.reference_name


def bound_line(plan: Plan) -> str:
    """Say what no plan can surpass, and how far this one is from it; empty where nothing was proven."""
    told = predicted(plan)
    if told.gap is None:
        return ""
    least, longer = time_text(told.step_ms / (1 + told.gap)), share_text(told.gap)
    return (
        f"bound: no plan takes less than {marked(least, plan.emulated)} a step on the chips that this job may have "
        f"(proven by arithmetic alone, so maybe out of reach); this one is {marked(longer, plan.emulated)} longer."
    )


def memory_line(plan: Plan) -> str:
    """Say what the memory of a plan is, and which reserve is in it."""
    runtime = "" if plan.emulated else f" and {RUNTIME_GB:g} GB for the runtime"
    gaps = share_text(FRAGMENTATION, digits=0)
    return f"memory: of the fullest rank, with {gaps} for the allocator's gaps{runtime} in reserve."


def replica_lines(plan: Plan, width: int = LINE_WIDTH) -> list[str]:
    """Describe the replicas, those of like stages together."""
    likes: dict[object, list[Replica]] = {}
    for replica in plan.replicas:
        key = tuple(replace(stage, ranks=()) for stage in replica.stages)
        likes.setdefault(key, []).append(replica)
    shown = list(likes.values())[:LINES_MAX]
    texts = [replica_texts(alike, plan.virtual_stages) for alike in shown]
    pure = [text for text, alike in zip(texts, shown, strict=True) if len(class_runs(plan.places(alike[0]))) == 1]
    widths = [max(len(text[column]) for text in pure or texts) for column in range(len(texts[0]))]
    lines = []
    for text, alike in zip(texts, shown, strict=True):
        lines += aligned(text, widths, width) if text in pure else mixed_lines(plan, text, alike[0], widths[0])
    left = len(likes) - LINES_MAX
    more = [f"  and {left} more kind{'' if left == 1 else 's'}"] if left > 0 else []
    return [line.rstrip() for line in lines] + more


def aligned(text: Sequence[str], widths: Sequence[int], width: int) -> list[str]:
    """Write one line in columns, or two where one would be wider than `width`."""
    head, *rest = [text[0].rjust(widths[0]), *(t.ljust(w) for t, w in zip(text[1:], widths[1:], strict=True))]
    if sum(widths) + 3 * len(rest) + 2 <= width:
        return ["  " + "   ".join([head, *rest])]
    return ["  " + "   ".join([head, *rest[:2]]), " " * (widths[0] + 5) + "   ".join(rest[2:])]


def mixed_lines(plan: Plan, text: Sequence[str], replica: Replica, width: int) -> list[str]:
    """Write replicas that run through several classes: what they share, then a line for each run of places."""
    stages, places = replica.stages, plan.places(replica)
    ways = {way_text(stage) for stage in stages}
    same = f"{ways.pop()}, " if len(ways) == 1 else ""
    lines = [f"  {text[0].rjust(width)}   {same}{staged_text(len(places), plan.virtual_stages)}, {text[3]}"]
    for first, end in class_runs(places):
        run = [stage for index, stage in enumerate(stages) if first <= index % len(places) < end]
        which = f"stages {first + 1}-{end}" if end - first > 1 else f"stage {end}"
        cut = layers_text(run)
        way = "" if same else f"{way_text(run[0])}, "
        lines.append(
            f"{' ' * (width + 5)}{run[0].chip_class} {which}: {way}{cut}{recompute_text(run)}, {fullest_text(run)}"
        )
    return lines


def staged_text(places: int, virtual_stages: int) -> str:
    """Count the stages of a pipeline: places, which may have several virtual stages each.

    >>> staged_text(1, 1), staged_text(4, 2)
    ('1 stage', '4 stages x 2 virtual')
    """
    return f"{places} stage{'s' if places > 1 else ''}{f' x {virtual_stages} virtual' if virtual_stages > 1 else ''}"


def class_runs(stages: Sequence[Stage]) -> list[tuple[int, int]]:
    """List the runs of stages of one class: first stage and the one after the last."""
    runs: list[tuple[int, int]] = []
    for index, stage in enumerate(stages):
        if runs and stages[runs[-1][0]].chip_class == stage.chip_class:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def layers_text(stages: Sequence[Stage]) -> str:
    """Say how many layers stages hold: each if they are few, else the fewest and the most."""
    layers = [stage.end_layer - stage.first_layer for stage in stages]
    if len(layers) > LAYERS_LISTED_MAX:
        few, many = min(layers), max(layers)
        return f"{few} layer{'' if few == 1 else 's'} each" if few == many else f"{few} to {many} layers"
    return f"{'+'.join(map(str, layers))} layer{'' if sum(layers) == 1 else 's'}"


def fullest_text(stages: Sequence[Stage]) -> str:
    """Say how full the fullest of stages is."""
    fullest = max(stages, key=lambda stage: stage.memory_gb / max(stage.memory_limit_gb, 1e-9))
    return f"{size_text(fullest.memory_gb)} of {size_text(fullest.memory_limit_gb)} GB"


def replica_texts(alike: Sequence[Replica], virtual_stages: int = 1) -> tuple[str, ...]:
    """Describe replicas of like stages: how many, their chips, how they are cut, micro-batches, memory."""
    stages, size = alike[0].stages, alike[0].microbatch_size
    staged = f"{staged_text(len(stages) // virtual_stages, virtual_stages)} of {layers_text(stages)}"
    fewest, most = (pick(replica.microbatches for replica in alike) for pick in (min, max))
    counted = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    return (
        f"{len(alike):,} x",
        " + ".join(dict.fromkeys(stage.chip_class for stage in stages)),
        f"{way_text(stages[0])}, {staged}{recompute_text(stages)}",
        f"{counted} micro-batch{'es' if most > 1 else ''}" + (f" of {size}" if size > 1 else ""),
        fullest_text(stages),
    )


def way_text(stage: Stage) -> str:
    """Say how a micro-batch is laid over a stage's chips: `TP 8`, with `CP 2` and `EP 4` where there are such."""
    more = [f"{name} {degree}" for name, degree in (("CP", stage.cp), ("EP", stage.ep)) if degree > 1]
    return ", ".join([f"TP {stage.tp}", *more])


def recompute_text(stages: Sequence[Stage]) -> str:
    """Say what is computed again in backward, empty if nothing is: `, full recompute of 3 to 4 layers a stage`."""
    held = [stage.end_layer - stage.first_layer for stage in stages]
    again = [recomputed_layers(stage) for stage in stages]
    if not any(again):
        return ""
    kinds = " and ".join(dict.fromkeys(stage.recompute for stage in stages if recomputed_layers(stage)))
    if again == held:
        return f", {kinds} recompute"
    few, many = min(again), max(again)
    counted = str(few) if few == many else f"{few} to {many}"
    return f", {kinds} recompute of {counted} layer{'' if many == 1 else 's'} a stage"


def recomputed_layers(stage: Stage) -> int:
    """Count the layers of a stage whose activations are computed again."""
    layers = stage.end_layer - stage.first_layer
    if stage.recompute == "none":
        return 0
    return layers if stage.recompute_layers is None else min(layers, stage.recompute_layers)


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
        for stage in plan.places(replica):
            counts[stage.chip_class] = counts.get(stage.chip_class, 0) + stage.width
    return counts


def used_classes(plans: Sequence[Plan]) -> list[str]:
    """List the classes of chips that any of some plans uses."""
    return list(dict.fromkeys(name for plan in plans for name in plan_chips(plan)))


def chips_text(plan: Plan, classes: Collection[str]) -> str:
    """Say how many chips of each kind, with the whole name of a class where several have the kind.

    classes: all that the reader sees beside these, such as those of the other rows of a table.
    """
    kinds = Counter(kind_of(name) for name in {*classes, *plan_chips(plan)})
    shown = ((kind_of(name) if kinds[kind_of(name)] == 1 else name, chips) for name, chips in plan_chips(plan).items())
    return " + ".join(f"{chips:,} {name}" for name, chips in shown)


def kind_of(chip_class: str) -> str:
    """Give the chip's kind in a class's name.

    >>> kind_of("north/h800-sxm/8x"), kind_of("fast")
    ('h800-sxm', 'fast')
    """
    return chip_class.split("/")[1] if "/" in chip_class else chip_class


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

    >>> share_text(0.9637), share_text(0.885, digits=0), share_text(10.795)
    ('96.4 %', '88 %', '1,079.5 %')
    """
    return f"{share * 100:,.{digits}f} %"


def time_text(time_ms: float) -> str:
    """Write a time with a unit that suits it.

    >>> time_text(1840), time_text(42), time_text(7.2e6), time_text(0.0418)
    ('1.84 s', '42.0 ms', '2.0 h', '42 us')
    """
    if time_ms < 1:
        return f"{time_ms * 1e3:.0f} us"
    if time_ms >= 6e6:
        return f"{time_ms / 3.6e6:,.1f} h"
    return f"{time_ms / 1e3:,.2f} s" if time_ms >= 1000 else f"{time_ms:.1f} ms"


def rate_text(per_second: float) -> str:
    """Write a rate with a short unit."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if per_second >= limit:
            return f"{per_second / (1e3 if unit == ' k' else limit):.2f}{unit}"
    return f"{per_second:,.0f}"


def price_text(dollars: float) -> str:
    """Write a price without cents where they don't matter.

    >>> price_text(62_288.4), price_text(3.2), price_text(0.00012)
    ('62,288', '3.2', 'under 0.01')
    """
    if dollars >= 100:
        return f"{dollars:,.0f}"
    return f"{dollars:.2g}" if dollars >= 0.01 or dollars <= 0 else "under 0.01"


def bytes_text(count: float) -> str:
    """Write bytes with a unit that suits them."""
    for limit, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= limit:
            return f"{count / limit:,.1f} {unit}"
    return f"{count:.0f} B"


def size_text(gb: float) -> str:
    """Write memory without more digits than it is known to."""
    return f"{gb:.0f}" if gb >= 10 else f"{gb:.2g}"
