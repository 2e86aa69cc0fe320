"""Which chips a job may have, and why it never fits when it does not.

Never fits, no chips of the kind asked for, and no figure for the precision are three different answers, each said with
its way out.
"""

import difflib
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.plan.costs.cost import missing_peak, peak_tflops
from argosy.plan.pipelines.grid import Part
from argosy.plan.search.counts import fewer_chips
from argosy.plan.search.needs import least_gb, shallowest, smallest_chips
from argosy.plan.search.search import Search

# More classes than this are tried in full only: who wants fewer chips wants fewer kinds too.
HALVED_CLASSES_MAX = 2
# So many orders to fill classes in are tried at most: all of four.
ORDERS_MAX = 24
W_PER_KW = 1e3
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
    """List how many chips of each class to try, for any goal: all that the job may have, and fewer of one or two.

    When the job may not have all, be it for their number or their power, they are filled in every order, and first by
    what the job's goal makes them worth.
    """
    orders: list[Sequence[ChipClass]] = [sorted(classes, key=lambda c: worth(job, c), reverse=True)]
    if job.chips.maximum is not None or job.objective.power_kw is not None:
        orders += itertools.islice(itertools.permutations(classes), ORDERS_MAX)
    filled = [counts for order in orders if all((counts := filled_counts(job, order)).values())]
    if len(classes) <= HALVED_CLASSES_MAX:
        filled += [fewer for counts in filled for fewer in fewer_chips(counts, classes)]
    choices = [tuple(Part(chip_class=c, chips=counts[c.name]) for c in classes) for counts in filled]
    return list({tuple(part.chips for part in parts): parts for parts in choices}.values())


def filled_counts(job: Job, order: Sequence[ChipClass]) -> dict[str, int]:
    """Count the chips that a job may have of each class, the first filled first."""
    left = job.chips.maximum if job.chips.maximum is not None else sum(chip_class.chips for chip_class in order)
    left_kw = math.inf if job.objective.power_kw is None else job.objective.power_kw
    counts = {}
    for chip_class in order:
        chips = min(left, chip_class.chips)
        if left_kw < math.inf:
            chips = min(chips, powered_chips(chip_class, left_kw))
            left_kw -= chips * (chip_class.chip.tdp_w or 0.0) / W_PER_KW
        counts[chip_class.name] = chips
        left -= chips
    return counts


def whole_parts(classes: Sequence[ChipClass]) -> list[Part]:
    """Take all chips of some classes."""
    return [Part(chip_class=chip_class, chips=chip_class.chips) for chip_class in classes]


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
    parts = [Part(chip_class=c, chips=min(most, c.chips)) for c in classes]
    need_gb, limit_gb, where = least_need(search, parts, batch)
    if search.base.setting.missing and not math.isfinite(need_gb):
        return NeverFitsError(f"{job.model} can't be planned: no way to lay it out has all its times:{because}")
    if need_gb <= limit_gb and job.chips.minimum > 1 and search.estimates(parts, batch, 1):
        return NeverFitsError(
            f"{job.model} fits in memory but no plan uses the {job.chips.minimum:,} chips that chips.min asks for with "
            f"a global_batch_size of {batch:,}; lower chips.min or raise the batch{because}"
        )
    fleets = [f"{chips:,} {c.chip.name}" for c in unlike(classes) if (chips := smallest_chips(search, c, batch))]
    smallest = f"Smallest fleet that fits: {' or '.join(fleets)}." if fleets else too_large(classes)
    smallest += f" chips.max is {job.chips.maximum:,}." if fleets and job.chips.maximum is not None else ""
    if need_gb <= limit_gb:
        return NeverFitsError(
            f"{job.model} fits in memory, but no plan takes a global_batch_size of {batch:,}: "
            f"{hindrance(search, parts)}. {smallest if fleets else ''}{because}".rstrip(" ")
        )
    return NeverFitsError(
        f"{job.model} does not fit: the best split needs {need_gb:,.4g} GB on its fullest rank, {where}. "
        f"{eased_text(search, job, parts, need_gb)}{smallest}{because}"
    )


def hindrance(search: Search, parts: Sequence[Part]) -> str:
    """Say what keeps a batch from layouts that fit in memory: schedules that want more micro-batches, or shares."""
    found = [(layout, part) for part in parts if (layout := shallowest(search, part, search.batch))]
    if not found:
        return "each split that fits goes through several kinds of chips, and none can share it out"
    layout, part = min(found, key=lambda one: one[0].depth)
    rounds, schedules = search.batch // layout.sequences, {family.schedule for family in search.families}
    if rounds >= layout.depth or "gpipe" in schedules:
        return "the splits that fit can't share it out over their replicas; try another batch"
    enough = layout.depth * layout.sequences
    larger = Search(search.base, replace(search.freedom, batch=enough), enough)
    return (
        f"the shallowest split that fits has {layout.depth:,} stages, and {' and '.join(sorted(schedules))} need a "
        f"micro-batch for each; the batch makes {rounds:,}"
        + (f", one of {enough:,} would do" if larger.estimates([part], enough, 1) else "")
    )


def too_large(classes: Sequence[ChipClass]) -> str:
    """Say that no number of chips holds a model, and what would be less."""
    if any(chip_class.nic_gbps <= 0 for chip_class in classes):
        return "No single node holds it, and several need a network; give nics in the fleet file."
    return TOO_LARGE


def least_need(search: Search, parts: Sequence[Part], batch: int) -> tuple[float, float, str]:
    """Give the least need of any split, the memory there is for it, 10^9 bytes, and in words whose that is.

    On one class, or on all together where pipelines may go through them and even that does not fit.
    """
    tried: list[tuple[float, float, tuple[Part, ...]]] = [
        (least_gb(search, [part], batch), part.chip_class.chip.memory_gb or 0.0, (part,)) for part in parts
    ]
    if len(parts) > 1 and all(need_gb > limit_gb for need_gb, limit_gb, _ in tried):
        limit_gb = min(part.chip_class.chip.memory_gb or 0.0 for part in parts)
        joined = least_gb(search, parts, batch), limit_gb, tuple(parts)
        tried += [joined] if joined[0] > limit_gb else []
    need_gb, limit_gb, used = min(tried, key=lambda one: one[0] / (one[1] or 1.0))
    chips = {part.chip_class.chip.name: part.chip_class.chip.memory_gb or 0.0 for part in used}
    return need_gb, limit_gb, ", ".join(f"{name} has {memory_gb:,g}" for name, memory_gb in chips.items())


def eased_text(search: Search, job: Job, parts: Sequence[Part], need_gb: float) -> str:
    """Say what less would do if the job left recompute and micro-batches open; empty where it does."""
    if job.train.recompute in (None, "full") and job.train.microbatch_size in (None, 1):
        return ""
    freedom = replace(search.freedom, sizes=(1,), recomputes=("full",))
    eased_gb, _, where = least_need(Search(search.base, freedom, search.batch), parts, search.batch)
    if eased_gb >= need_gb:
        return ""
    return f"With train.recompute: full and train.microbatch_size: 1 it needs {eased_gb:,.4g} GB, {where}. "


def too_weak(search: Search, job: Job, classes: Sequence[ChipClass], because: str) -> NeverFitsError:
    """Say that no plan stays within the power, and which fleets would do with how much."""
    found = {c.chip.name: (smallest_chips(search, c, job.train.global_batch_size), c) for c in unlike(classes)}
    fleets = [f"{n:,} {name} ({n * (c.chip.tdp_w or 0.0) / 1e3:,.3g} kW)" for name, (n, c) in found.items() if n]
    smallest = f"Smallest fleet that fits: {' or '.join(fleets)}." if fleets else too_large(classes)
    return NeverFitsError(
        f"no plan of {job.model} stays within objective.power of {job.objective.power_kw:,.4g} kW. {smallest}{because}"
    )


def unlike(classes: Sequence[ChipClass]) -> list[ChipClass]:
    """Keep one class of each chip."""
    return list({chip_class.chip.name: chip_class for chip_class in classes}.values())
