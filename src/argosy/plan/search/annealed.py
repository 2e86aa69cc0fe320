"""Look for a better draft far from one that is good: where a walk over mixes of pipelines leads from it.

The search takes classes together or apart, and of each the pipelines that use all chips; a walk (`plan.mix`) also finds
those that use a part of one class with another, and what suits the rest. It prices mixes by the cost tables; the
timeline decides. Must not know what a job prefers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from argosy.plan.mix.mix import improved
from argosy.plan.mix.tables import Carrier, Pipeline
from argosy.plan.pipelines.grid import TP_RATIO_MAX, Part, known_recomputes, ways
from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.search.drafts import Candidate, Draft
from argosy.plan.search.mixtables import Laid, Terms, mix_problem
from argosy.plan.search.neighbours import made
from argosy.plan.search.search import Search

# Changes tried in a walk; stages of a pipeline at most, unless it began with more.
TRIED, STAGES_MAX = 15_000, 64
# What is shared in every micro-batch needs replicas that are all alike, which the search tries one by one.
ZERO_MAX = 1


def annealed(search: Search, draft: Draft, parts: Sequence[Part], tried: int = TRIED) -> Iterator[Candidate]:
    """Give what a walk from a draft ends at, for every family; nothing for frameworks whose replicas are all alike."""
    layouts = [group.template.layout for group in draft.groups]
    if search.freedom.form or draft.zero_stage > ZERO_MAX or len({(one.cp, one.ep) for one in layouts}) > 1:
        return
    terms = terms_of(search, draft, parts)
    begun = mix_of(draft, terms)
    found = improved(mix_problem(terms), begun, tried)
    if uncut(found) == uncut(begun):
        return
    walked = [layout_of(search, terms, layouts[0], pipeline, count) for pipeline, count in found]
    for family in search.families if walked else ():
        yield from made(search, walked, family, search.batch)


def uncut(mix: Sequence[tuple[Pipeline, int]]) -> Counter[object]:
    """Count pipelines by what they are but for where layers are cut, which is done anew."""
    counts: Counter[object] = Counter()
    for pipeline, count in mix:
        counts[pipeline.microbatch_size, pipeline.carriers] += count
    return counts


def terms_of(search: Search, draft: Draft, parts: Sequence[Part]) -> Terms:
    """Say what mixes may be made of on some chips, run as a draft is."""
    setting, layout = search.base.setting, draft.groups[0].template.layout
    deepest = max(STAGES_MAX, *(group.template.layout.depth for group in draft.groups))
    # Bettering may have found a size that the search doesn't try.
    sizes = {*search.freedom.sizes, *(group.template.layout.microbatch_size for group in draft.groups)}
    freedom = replace(search.freedom, sizes=tuple(sorted(sizes)))
    laid = [
        Laid(chip_class=number, plain=plain.way(run), lean=plain.way(run, plain.recomputes[-1]))
        for number, part in enumerate(parts)
        for plain in ways(setting, [part.chip_class], freedom)
        for run in plain.runs
        if (plain.cp, plain.ep) == (layout.cp, layout.ep) and plain.sequences <= search.batch
    ]
    return Terms(
        setting=setting,
        classes=tuple(part.chip_class for part in parts),
        chips=tuple(part.chips for part in parts),
        links=tuple(search.base.links),
        batch=search.batch,
        laid=tuple(laid),
        ratio=1 if search.freedom.runnable else TP_RATIO_MAX,
        schedule=draft.schedule,
        virtual_stages=layout.virtual_stages,
        zero_stage=draft.zero_stage,
        shards=max(draft.shards),
        streams=draft.replicas * layout.runs[0].tp,
        stages_max=min(setting.shape.num_layers, search.freedom.deepest(setting.shape), deepest),
    )


def mix_of(draft: Draft, terms: Terms) -> list[tuple[Pipeline, int]]:
    """Read a draft as a mix, whatever the micro-batches that replicas were dealt; virtual stages as one a place."""
    numbers = {chip_class.name: number for number, chip_class in enumerate(terms.classes)}
    counts: dict[Pipeline, int] = {}
    for group in draft.groups:
        layout, cut = group.template.layout, group.template.cut
        layers, depth = terms.setting.shape.num_layers, layout.depth
        even = tuple(layers * (place + 1) // depth for place in range(depth))
        pipeline = Pipeline(
            microbatch_size=layout.sequences,
            carriers=tuple(
                Carrier(chip_class=numbers[run.chip_class.name], tp=layout.width(run)) for run in layout.places
            ),
            ends=cut.ends if layout.virtual_stages == 1 else even,
        )
        counts[pipeline] = counts.get(pipeline, 0) + group.count
    return list(counts.items())


def layout_of(search: Search, terms: Terms, like: Layout, pipeline: Pipeline, count: int) -> Layout:
    """Lay a mix's pipeline out; CP, EP and recompute as in another layout. Layers are cut anew."""
    runs = [
        Run(
            chip_class=terms.classes[carrier.chip_class],
            places=len(list(stages)),
            tp=carrier.tp // (like.cp * like.ep),
        )
        for carrier, stages in groupby(pipeline.carriers)
    ]
    laid = replace(
        like,
        runs=tuple(runs),
        microbatch_size=pipeline.microbatch_size // like.ep,
        recomputes=search.freedom.recomputes,
        virtual_stages=1,
        count=count,
    )
    return replace(laid, recomputes=known_recomputes(terms.setting, laid))
