"""What is otherwise in one choice of a draft: its family, or of one kind of its pipelines the layout or how many.

Cut and ready to be drafts. Must not know which is better.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.plan.costs.tables import worked
from argosy.plan.pipelines.fronts import family_layouts
from argosy.plan.pipelines.grid import Family, Part, depths, ways
from argosy.plan.pipelines.layouts import Layout
from argosy.plan.pipelines.paced import choose
from argosy.plan.search.drafts import Candidate, Draft, Group
from argosy.plan.search.search import Search

# Degrees are so much more or less; so many smaller sizes of micro-batches are tried, and larger ones.
RATIO_MAX, SIZES_NEAR = 2, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Like pipelines of a draft. count: how many; microbatches: of all of them; most: of the busiest."""

    layout: Layout
    count: int
    microbatches: int
    most: int


def neighbours(search: Search, draft: Draft, parts: Sequence[Part], batch: int) -> Iterator[Candidate]:
    """List what is otherwise in one choice: the family; or of one kind of pipelines, or all, the layout or number."""
    kinds = kinds_of(draft)
    own = Family(
        schedule=kinds[0].layout.schedule,
        virtual_stages=kinds[0].layout.virtual_stages,
        zero_stage=draft.zero_stage,
    )
    for family in search.families:
        if family != own:
            yield from made(search, [kind.layout for kind in kinds], family, batch)
    free = {part.chip_class.name: part.chips - draft.chips.get(part.chip_class.name, 0) for part in parts}
    for index, kind in enumerate(kinds):
        for layout in [*otherwise(search, kind, free), *fewer(kind)]:
            layouts = [layout if i == index else other.layout for i, other in enumerate(kinds)]
            yield from made(search, layouts, own, batch)
    for factor in (2.0, 0.5) if len(kinds) > 1 else ():
        sized = [resized(search, kind, free, factor) for kind in kinds]
        if all(sized):
            yield from made(search, [layout for layout in sized if layout], own, batch)


def kinds_of(draft: Draft) -> list[Kind]:
    """Put groups of one layout together, whatever the micro-batches that they were dealt."""
    found: dict[object, list[Group]] = {}
    for group in draft.groups:
        found.setdefault((group.template.layout.shape, group.template.layout.microbatch_size), []).append(group)
    kinds = []
    for groups in found.values():
        count, microbatches = sum(g.count for g in groups), sum(g.count * g.microbatches for g in groups)
        layout = replace(groups[0].template.layout, count=count)
        kinds.append(
            Kind(layout=layout, count=count, microbatches=microbatches, most=max(g.microbatches for g in groups))
        )
    return kinds


def made(search: Search, layouts: Sequence[Layout], family: Family, batch: int) -> Iterator[Candidate]:
    """Cut layouts for a family; GPipe in several ways."""
    deep = any(layout.depth > 1 for layout in layouts)
    each = [list(in_family(layout, family, batch, deep=deep)) for layout in layouts]
    for turn in range(max(map(len, each)) if all(each) else 0):
        cut = [choose(search.base.setting, one[min(turn, len(one) - 1)], search.base.links) for one in each]
        choices = [choice for choice in cut if choice is not None]
        if len(choices) == len(layouts):
            picked = tuple((choice.template, choice.count) for choice in choices)
            yield Candidate(choice=picked, family=family, least_ms=0.0)


def in_family(layout: Layout, family: Family, batch: int, *, deep: bool) -> Iterator[Layout]:
    """Give a layout the schedule of a family, if it can have it. deep: others of the plan have several places.

    Beside those a pipeline of one place takes part in zero-bubble, which is 1F1B there.
    """
    if deep and layout.depth == 1 and family.schedule == "zero-bubble":
        plain = family_layouts(layout, replace(family, schedule="1f1b"), batch)
        yield from (replace(one, schedule=family.schedule) for one in plain)
    else:
        yield from family_layouts(layout, family, batch)


def otherwise(search: Search, kind: Kind, free: Mapping[str, int]) -> Iterator[Layout]:
    """Give the layouts that differ in one degree, the size of micro-batches, the depth, or the order of classes."""
    layout = kind.layout
    sizes = sizes_near(search, layout.microbatch_size)
    known = plains(search, layout, sizes)
    tps, rest = tuple(run.tp for run in layout.runs), (layout.cp, layout.ep, layout.microbatch_size)
    changed: list[tuple[object, ...]] = [(tps, layout.cp, layout.ep, size) for size in sizes]
    for factor in (RATIO_MAX, 1 / RATIO_MAX):
        changed.append((tuple(int(tp * factor) for tp in tps), *rest))
        changed += [(tps, *(int(n * factor) if i == axis else n for i, n in enumerate(rest))) for axis in range(2)]
    places = [run.places for run in layout.runs]
    for key in changed:
        if key in known:
            yield from recounted(search, kind, known[key], places, free)
    for other in places_near(search, places):
        yield from recounted(search, kind, layout, other, free)
    if len(places) > 1:
        # Which site holds the first layers decides how many layers are summed across sites.
        yield from recounted(search, kind, replace(layout, runs=layout.runs[::-1]), places[::-1], free)


def sizes_near(search: Search, size: int) -> list[int]:
    """List the next sizes of micro-batches, two smaller and two larger, of those tried and those that divide the batch.

    Nothing where the size is given.
    """
    if len(search.freedom.sizes) < 2:
        return []
    most = max(search.freedom.sizes)
    known = {*search.freedom.sizes, *(n for n in range(1, min(most, search.batch) + 1) if search.batch % n == 0)}
    below, above = [n for n in sorted(known) if n < size], [n for n in sorted(known) if n > size]
    return [*below[-SIZES_NEAR:], *above[:SIZES_NEAR]]


def places_near(search: Search, places: Sequence[int]) -> Iterator[list[int]]:
    """Give depths near that of a pipeline of one class; of several, a place less or more, half or twice as many."""
    layers = search.base.setting.shape.num_layers
    if len(places) > 1:
        found = [[n + (i == at) * step for i, n in enumerate(places)] for at in range(len(places)) for step in (-1, 1)]
        found += [[n // 2 for n in places], [n * 2 for n in places]]
    else:
        tried = depths(layers)
        at = tried.index(places[0]) if places[0] in tried else 0
        found = [[depth] for depth in [*tried[max(0, at - 2) : at], *tried[at + 1 : at + 3]]]
    deepest = min(layers, search.freedom.deepest(search.base.setting.shape))
    yield from (other for other in found if min(other) > 0 and sum(other) <= deepest)


def resized(search: Search, kind: Kind, free: Mapping[str, int], factor: float) -> Layout | None:
    """Give a kind's layout with larger or smaller micro-batches, where there is such."""
    layout = kind.layout
    key = (tuple(run.tp for run in layout.runs), layout.cp, layout.ep, int(layout.microbatch_size * factor))
    known = plains(search, layout, search.freedom.sizes)
    places = [run.places for run in layout.runs]
    return next(recounted(search, kind, known[key], places, free), None) if key in known else None


def plains(search: Search, layout: Layout, sizes: Sequence[int]) -> Mapping[object, Layout]:
    """Give the ways to lay a micro-batch over the classes of a layout, by TP degrees, CP, EP and size.

    sizes: besides that of the layout.
    """
    classes = [run.chip_class for run in layout.runs]
    freedom = replace(search.freedom, sizes=tuple(sorted({*sizes, layout.microbatch_size})))

    def work() -> Mapping[object, Layout]:
        laid = ways(search.base.setting, classes, freedom)
        return {(tuple(run.tp for run in one.runs), one.cp, one.ep, one.microbatch_size): one for one in laid}

    return worked(search.base.setting, ("plains", tuple(c.name for c in classes), freedom), work)


def recounted(
    search: Search, kind: Kind, plain: Layout, places: Sequence[int], free: Mapping[str, int]
) -> Iterator[Layout]:
    """Give a way to lay places so many of them, and as many pipelines as the chips of a kind and free ones make."""
    runs = tuple(replace(run, places=n) for run, n in zip(plain.runs, places, strict=True))
    layout = replace(plain, runs=runs)
    have = {name: free.get(name, 0) + kind.count * chips for name, chips in kind.layout.chips.items()}
    count = search.freedom.count(layout, min(have[name] // chips for name, chips in layout.chips.items()))
    if count:
        yield replace(layout, count=count)


def fewer(kind: Kind) -> Iterator[Layout]:
    """Give fewer pipelines of the same layout: as few as are no busier, the next number that all share evenly, half."""
    rounds, count = kind.microbatches, kind.count
    even = next((n for n in range(count - 1, count // 2, -1) if rounds % n == 0), 0)
    for number in dict.fromkeys((-(-rounds // kind.most), even, count // 2)):
        if 0 < number < count:
            yield replace(kind.layout, count=number)
