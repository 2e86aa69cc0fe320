"""Which chips a job may have, and why it never fits when it does not.

Never fits, no chips of the kind asked for, and no figure for the precision are three different answers, each said with
its way out.
"""

import difflib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.plan.costs.cost import missing_peak, peak_tflops
from argosy.plan.pipelines.grid import DEPTH_MAX, Part, pure_layouts, tp_degrees
from argosy.plan.pipelines.places import needed_gb
from argosy.plan.search.search import Search

# For the cheapest plan fewer chips may do: halves of a class are tried down to one node.
HALVINGS_MAX = 6
# More classes than this are tried in full only: who wants fewer chips wants fewer kinds too.
HALVED_CLASSES_MAX = 2
# Peaks below this are mistakes: times would leave the range of numbers.
PEAK_MIN_TFLOPS = 1e-9
TOO_LARGE = "No number of these chips holds it; a smaller train.microbatch_size or train.sequence_length needs less."


def usable_classes(job: Job, classes: Sequence[ChipClass]) -> tuple[list[ChipClass], list[str]]:
    """Choose the classes that the job allows and that can be planned for; say of the others why not."""
    check_batch(job.train.global_batch_size, job.train.microbatch_size)
    check_classes(classes)
    names = sorted({chip_class.chip.name for chip_class in classes})
    for name in job.chips.allow:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"
            raise BadInputError(f"chips.allow: the fleet has no {name!r}; {hint} (`argosy fleet show` lists them)")
    allowed = [c for c in classes if not job.chips.allow or c.chip.name in job.chips.allow]
    refusals = {c.name: refusal_of(job, c) for c in allowed}
    usable = [c for c in allowed if not refusals[c.name]]
    check_prices(job, usable)
    return usable, [text for text in dict.fromkeys(refusals.values()) if text]


def refusal_of(job: Job, chip_class: ChipClass) -> str:
    """Say why a class can't be planned for; empty when it can."""
    chip = chip_class.chip
    peak = peak_tflops(chip, job.train.precision)
    if peak is not None and not PEAK_MIN_TFLOPS <= peak < math.inf:
        return f"{chip.name} has a {job.train.precision} peak of {peak:g} TFLOP/s; correct it in a catalogue file"
    if peak is None:
        return missing_peak(chip, job.train.precision)
    if chip.memory_gb is None:
        return f"{chip.name} has no memory_gb in the catalogue; add it in a catalogue file"
    if chip_class.nic_gbps <= 0 and chip_class.nodes > 1:
        return f"{chip_class.name} has {chip_class.nodes:,} nodes and no network; give nics in the fleet file"
    if job.objective.power_kw is not None and chip.tdp_w is None:
        return f"{chip.name} has no tdp_w in the catalogue, which objective.power needs"
    return ""


def check_classes(classes: Sequence[ChipClass]) -> None:
    """Refuse classes that no fleet file gives: counts below one, networks without a figure, two of one name."""
    for chip_class in classes:
        for what, count in (("nodes", chip_class.nodes), ("chips_per_node", chip_class.chips_per_node)):
            if count < 1:
                raise BadInputError(f"{chip_class.name}: {what} is {count}; give 1 or more, or leave the class out")
        if not 0 <= chip_class.nic_gbps < math.inf:
            raise BadInputError(f"{chip_class.name}: nic_gbps is {chip_class.nic_gbps}; give 0 or more Gb/s")
    twice = [name for name, count in Counter(c.name for c in classes).items() if count > 1]
    if twice:
        raise BadInputError(f"several classes are called {twice[0]}; give each a name of its own")


def check_batch(batch: int, microbatch_size: int | None) -> None:
    """Refuse micro-batches of a size that does not go into the batch."""
    if microbatch_size is None or batch % microbatch_size == 0:
        return
    near = max(size for size in range(1, microbatch_size) if batch % size == 0)
    raise BadInputError(
        f"train.microbatch_size {microbatch_size:,} does not go into train.global_batch_size {batch:,}; {near:,} does, "
        "or leave it out"
    )


def check_prices(job: Job, classes: Sequence[ChipClass]) -> None:
    """Refuse an objective that needs prices when no chip has one."""
    if job.objective.goal == "fastest" or not classes or any(c.chip.price_per_hour is not None for c in classes):
        return
    names = ", ".join(dict.fromkeys(chip_class.chip.name for chip_class in classes))
    raise BadInputError(
        f"objective {job.objective.goal} needs prices, and the catalogue has none for {names}; "
        "give price_per_hour in a file for --catalogue, or take objective: fastest"
    )


def choose_parts(job: Job, classes: Sequence[ChipClass]) -> list[tuple[Part, ...]]:
    """List how many chips of each class to try: all that the job may have; halves of one or two where price counts.

    When the job may not have all, be it for their number or their power, classes with the most arithmetic (or the most
    for their price or power) are filled first.
    """
    counts = {chip_class.name: chip_class.chips for chip_class in classes}
    if job.chips.maximum is not None:
        left = job.chips.maximum
        for chip_class in sorted(classes, key=lambda c: worth(job, c), reverse=True):
            counts[chip_class.name] = min(left, chip_class.chips)
            left -= counts[chip_class.name]
    if job.objective.power_kw is not None:
        left_kw = job.objective.power_kw
        for chip_class in sorted(classes, key=lambda c: worth(job, c), reverse=True):
            counts[chip_class.name] = min(counts[chip_class.name], powered_chips(chip_class, left_kw))
            left_kw -= counts[chip_class.name] * (chip_class.chip.tdp_w or 0.0) / 1e3
    if not all(counts.values()):
        return []
    choices = [counts]
    if job.objective.goal != "fastest" and len(classes) <= HALVED_CLASSES_MAX:
        for _ in range(HALVINGS_MAX):
            halved = {c.name: max(c.chips_per_node, choices[-1][c.name] // 2) for c in classes}
            if halved == choices[-1] or sum(halved.values()) >= sum(choices[-1].values()):
                break
            choices.append(halved)
    return [tuple(Part(chip_class=c, chips=choice[c.name]) for c in classes) for choice in choices]


def powered_chips(chip_class: ChipClass, power_kw: float) -> int:
    """Count the chips of a class that a power feeds: whole nodes, or what there is of one."""
    chips = min(chip_class.chips, int(power_kw * 1e3 / (chip_class.chip.tdp_w or float("inf")) + 1e-9))
    return chips - chips % chip_class.chips_per_node or chips


def worth(job: Job, chip_class: ChipClass) -> float:
    """Rate a chip: its peak, or its peak for its price where the job wants it cheap, or for its power under a cap."""
    peak = peak_tflops(chip_class.chip, job.train.precision) or 0.0
    if job.objective.power_kw is not None and job.objective.goal == "fastest":
        return peak / (chip_class.chip.tdp_w or float("inf"))
    price = chip_class.chip.price_per_hour
    return peak / price if price and job.objective.goal != "fastest" else peak


def never_fits(search: Search, job: Job, classes: Sequence[ChipClass], refusals: Sequence[str]) -> NeverFitsError:
    """Say why no plan fits, and what would."""
    because = "".join(f"\n  {refusal}" for refusal in refusals)
    have = sum(chip_class.chips for chip_class in classes)
    if not classes:
        return NeverFitsError(f"{job.model} can't be planned on any chip of this fleet:{because or ' it has none'}")
    if have < job.chips.minimum:
        kinds = ", ".join(dict.fromkeys(chip_class.chip.name for chip_class in classes))
        return NeverFitsError(
            f"chips.min asks for {job.chips.minimum:,} chips; the fleet has {have:,} ({kinds}){because}"
        )
    most = job.chips.maximum or have
    batch = job.train.global_batch_size
    if job.objective.power_kw is not None:
        return too_weak(search, job, classes, because)
    needs = [(least_gb(search, Part(chip_class=c, chips=min(most, c.chips)), batch), c) for c in classes]
    need_gb, chip_class = min(needs, key=lambda pair: pair[0] / (pair[1].chip.memory_gb or 1.0))
    limit_gb = chip_class.chip.memory_gb or 0.0
    if search.base.setting.missing and not math.isfinite(need_gb):
        return NeverFitsError(f"{job.model} can't be planned: no way to lay it out has all its times:{because}")
    if need_gb <= limit_gb:
        return NeverFitsError(
            f"{job.model} fits in memory but no plan uses the {job.chips.minimum:,} chips that chips.min asks for with "
            f"a global_batch_size of {job.train.global_batch_size:,}; lower chips.min or raise the batch{because}"
        )
    fleets = [f"{chips:,} {c.chip.name}" for c in unlike(classes) if (chips := smallest_chips(search, c, batch))]
    smallest = f"Smallest fleet that fits: {' or '.join(fleets)}." if fleets else TOO_LARGE
    smallest += f" chips.max is {job.chips.maximum:,}." if fleets and job.chips.maximum is not None else ""
    return NeverFitsError(
        f"{job.model} does not fit: the best split needs {need_gb:,.4g} GB on its fullest rank, "
        f"{chip_class.chip.name} has {limit_gb:,g}. {smallest}{because}"
    )


def too_weak(search: Search, job: Job, classes: Sequence[ChipClass], because: str) -> NeverFitsError:
    """Say that no plan stays within the power, and which fleets would do with how much."""
    found = {c.chip.name: (smallest_chips(search, c, job.train.global_batch_size), c) for c in unlike(classes)}
    fleets = [f"{n:,} {name} ({n * (c.chip.tdp_w or 0.0) / 1e3:,.3g} kW)" for name, (n, c) in found.items() if n]
    smallest = f"Smallest fleet that fits: {' or '.join(fleets)}." if fleets else TOO_LARGE
    return NeverFitsError(
        f"no plan of {job.model} stays within objective.power of {job.objective.power_kw:,.4g} kW. {smallest}{because}"
    )


def unlike(classes: Sequence[ChipClass]) -> list[ChipClass]:
    """Keep one class of each chip."""
    return list({chip_class.chip.name: chip_class for chip_class in classes}.values())


def least_gb(search: Search, part: Part, batch: int) -> float:
    """Give the least that the fullest rank needs on one class, by any layout the search would try; 10^9 bytes.

    The smallest micro-batch and the most recompute need the least. The optimizer's state may be sharded over the
    replicas of a layout, which are in one site.
    """
    needs = [float("inf")]
    freedom = replace(search.freedom, sizes=(min(search.freedom.sizes),), recomputes=search.freedom.recomputes[-1:])
    for layout in pure_layouts(search.base.setting, part, freedom):
        count = min(layout.count, -(-batch // layout.sequences))
        least = replace(layout, microbatches=min(layout.depth, -(-batch // (layout.sequences * count))))
        ranks = count * layout.cp * layout.ep
        for zero_stage in zero_stages(search, layout.depth, ranks):
            needs.append(needed_gb(search.base.setting, replace(least, zero_stage=zero_stage, shards=ranks)))
    return min(needs)


def holds_alone(search: Search, chip_class: ChipClass, batch: int) -> bool:
    """Tell whether some layout that the search would try fits in memory on one class alone."""
    return least_gb(search, Part(chip_class=chip_class, chips=chip_class.chips), batch) <= (
        chip_class.chip.memory_gb or 0.0
    )


def zero_stages(search: Search, depth: int, ranks: int) -> list[int]:
    """List the ZeRO stages that pipelines of a depth may have: the last two only without a pipeline."""
    stages = {family.zero_stage for family in search.families}
    return [stage for stage in sorted(stages) if (stage < 2 or depth == 1) and (stage == 0 or ranks > 1)]


def smallest_chips(search: Search, chip_class: ChipClass, batch: int) -> int | None:
    """Find the fewest chips of a class, in whole nodes, that the search finds a plan for; None if no number does.

    More nodes than all replicas at the greatest depth and TP could use are of no help. The number is found by doubling
    and halving, so one node fewer does not do.
    """

    def fits(nodes: int) -> bool:
        return bool(search.estimates([Part(chip_class=chip_class, chips=nodes * chip_class.chips_per_node)], batch, 1))

    shape = search.base.setting.shape
    replica_chips = max(tp_degrees(shape, [chip_class])) * min(shape.num_layers, DEPTH_MAX)
    most = -(-replica_chips * batch // chip_class.chips_per_node)
    widest = Part(chip_class=chip_class, chips=most * chip_class.chips_per_node)
    if least_gb(search, widest, batch) > (chip_class.chip.memory_gb or 0.0):
        return None
    low, high = 0, 1
    while not fits(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high * chip_class.chips_per_node
