"""Which chips a job may have, and why it never fits when it does not.

Never fits, no chips of the kind asked for, and no figure for the precision are three different answers, each said with
its way out.
"""

import difflib
from collections.abc import Sequence

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.plan.cost import missing_peak, peak_tflops
from argosy.plan.search import DEPTH_MAX, Part, Search, tp_degrees
from argosy.plan.templates import Layout, needed_gb

# For the cheapest plan fewer chips may do: halves of a class are tried down to one node.
HALVINGS_MAX = 6
TOO_LARGE = "No number of these chips holds it; a smaller train.microbatch_size or train.sequence_length needs less."


def usable_classes(job: Job, classes: Sequence[ChipClass]) -> tuple[list[ChipClass], list[str]]:
    """Choose the classes that the job allows and that can be planned for; say of the others why not."""
    names = sorted({chip_class.chip.name for chip_class in classes})
    for name in job.chips.allow:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"
            raise BadInputError(f"chips.allow: the fleet has no {name!r}; {hint} (`argosy fleet show` lists them)")
    usable, refusals = [], []
    for chip_class in classes:
        if job.chips.allow and chip_class.chip.name not in job.chips.allow:
            continue
        if peak_tflops(chip_class.chip, job.train.precision) is None:
            refusals.append(missing_peak(chip_class.chip, job.train.precision))
        elif chip_class.chip.memory_gb is None:
            refusals.append(f"{chip_class.chip.name} has no memory_gb in the catalogue; add it in a catalogue file")
        else:
            usable.append(chip_class)
    check_prices(job, usable)
    return usable, list(dict.fromkeys(refusals))


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
    """List how many chips of each class to try: all that the job may have; also halves where price counts.

    When the job may not have all, classes with the most arithmetic (or the most for their price) are filled first.
    """
    counts = {chip_class.name: chip_class.chips for chip_class in classes}
    if job.chips.maximum is not None:
        left = job.chips.maximum
        for chip_class in sorted(classes, key=lambda c: worth(job, c), reverse=True):
            counts[chip_class.name] = min(left, chip_class.chips)
            left -= counts[chip_class.name]
    if not all(counts.values()):
        return []
    choices = [counts]
    if job.objective.goal != "fastest":
        for _ in range(HALVINGS_MAX):
            halved = {c.name: max(c.chips_per_node, choices[-1][c.name] // 2) for c in classes}
            if halved == choices[-1] or sum(halved.values()) >= sum(choices[-1].values()):
                break
            choices.append(halved)
    return [tuple(Part(chip_class=c, chips=choice[c.name]) for c in classes) for choice in choices]


def worth(job: Job, chip_class: ChipClass) -> float:
    """Rate a chip: its peak, or its peak for its price where the job wants it cheap."""
    peak = peak_tflops(chip_class.chip, job.train.precision) or 0.0
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
        return NeverFitsError(f"chips.min asks for {job.chips.minimum} chips; the fleet has {have} ({kinds}){because}")
    most = job.chips.maximum or have
    needs = [(least_gb(search, c, min(most, c.chips), job), c) for c in classes]
    need_gb, chip_class = min(needs, key=lambda pair: pair[0] / (pair[1].chip.memory_gb or 1.0))
    limit_gb = chip_class.chip.memory_gb or 0.0
    if need_gb <= limit_gb:
        return NeverFitsError(
            f"{job.model} fits in memory but no plan uses at least chips.min {job.chips.minimum} chips with a "
            f"global_batch_size of {job.train.global_batch_size}; lower chips.min or raise the batch{because}"
        )
    fleets = [f"{chips} {c.chip.name}" for c in unlike(classes) if (chips := smallest_chips(search, c, job))]
    smallest = f"Smallest fleet that fits: {' or '.join(fleets)}." if fleets else TOO_LARGE
    return NeverFitsError(
        f"{job.model} does not fit: the best split needs {need_gb:.3g} GB on its fullest rank, "
        f"{chip_class.chip.name} has {limit_gb:g}. {smallest}{because}"
    )


def unlike(classes: Sequence[ChipClass]) -> list[ChipClass]:
    """Keep one class of each chip."""
    return list({chip_class.chip.name: chip_class for chip_class in classes}.values())


def least_gb(search: Search, chip_class: ChipClass, chips: int, job: Job) -> float:
    """Give the least that the fullest rank of one replica needs on so many chips of a class; 10^9 bytes."""
    needs = [float("inf")]
    for tp in tp_degrees(search.base.setting.shape, [chip_class]):
        deepest = min(search.base.setting.shape.num_layers, chips // tp, DEPTH_MAX)
        needs += [needed_gb(search.base.setting, small_layout(search, chip_class, tp, deepest, job))] if deepest else []
    return min(needs)


def smallest_chips(search: Search, chip_class: ChipClass, job: Job) -> int | None:
    """Find the fewest chips of a class, in whole nodes, on which one replica fits; None if no number does.

    Memory falls with depth, so the depth is found by halving.
    """
    limit_gb = chip_class.chip.memory_gb or 0.0
    fewest = []
    for tp in tp_degrees(search.base.setting.shape, [chip_class]):
        low, high = 0, min(search.base.setting.shape.num_layers, DEPTH_MAX)
        if needed_gb(search.base.setting, small_layout(search, chip_class, tp, high, job)) > limit_gb:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            fits = needed_gb(search.base.setting, small_layout(search, chip_class, tp, middle, job)) <= limit_gb
            low, high = (low, middle) if fits else (middle, high)
        fewest.append(-(-high * tp // chip_class.chips_per_node) * chip_class.chips_per_node)
    return min(fewest, default=None)


def small_layout(search: Search, chip_class: ChipClass, tp: int, depth: int, job: Job) -> Layout:
    """Describe the replica of a depth that needs the least memory: the smallest micro-batch, the most recompute."""
    size = min(search.sizes)
    return Layout(
        runs=((chip_class, depth),),
        tp=tp,
        microbatch_size=size,
        recompute=search.recomputes[-1],
        schedule="1f1b",
        microbatches=max(1, min(depth, job.train.global_batch_size // size)),
    )
