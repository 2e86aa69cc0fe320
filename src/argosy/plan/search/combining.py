"""Choices of blocks of chips taken together: which to time, and what they take at least.

Must not know how choices are found, nor what is timed.
"""

from collections.abc import Iterable, Iterator, Sequence

from argosy.plan.pipelines.fronts import Likely
from argosy.plan.pipelines.grid import Family, Part
from argosy.plan.pipelines.paced import Paced
from argosy.plan.search.crossing import crossing_ms, whole_crossing_ms
from argosy.plan.search.drafts import Candidate, Draft

# Times around the estimated step for which the best choices are combined too.
TIMES_AROUND = (1.0, 0.8, 1.25)
# Of each block so many that do less by themselves are combined with the best of the others.
SECONDS = 2
BISECTIONS, CLOSE = 60, 1e-4


def combined(base: Draft, fronts: Sequence[Sequence[Paced]], family: Family, batch: int) -> Iterator[Candidate]:
    """Take choices of all blocks together (`together`), with what they take at least."""
    for best in together(fronts, least_time_ms(fronts, batch)):
        picked = tuple((choice.template, choice.count) for choice in best)
        if len(best) == 1:
            least_ms = best[0].whole_ms(batch)
        else:
            least_ms = least_time_ms([[choice] for choice in best], batch)
            least_ms += crossing_ms(base.setting, [template for template, _ in picked], base.links)
        yield Candidate(choice=picked, family=family, least_ms=least_ms)


def together(fronts: Sequence[Sequence[Paced]], time_ms: float) -> Iterable[tuple[Paced, ...]]:
    """Combine the choices of all blocks that do most in a time, and in some around it; of a block alone give all.

    Layers that lie alike cross sites less: so across sites what does a little less by itself is combined too.
    """
    if len(fronts) == 1:
        return [(choice,) for choice in fronts[0]]
    times = [around * time_ms for around in TIMES_AROUND]
    found = [tuple(max(choices, key=lambda c: c.done(t)) for choices in fronts) for t in times]
    ranked = [sorted(choices, key=lambda c: -c.done(time_ms)) for choices in fronts]
    most = tuple(choices[0] for choices in ranked)
    if len({site for choice in most for site in choice.template.layout.sites}) > 1:
        for index, choices in enumerate(ranked):
            found += [(*most[:index], other, *most[index + 1 :]) for other in choices[1 : 1 + SECONDS]]
    return {tuple(map(id, choices)): choices for choices in found}.values()


def least_ms(base: Draft, blocks: Sequence[tuple[Part, ...]], lines: Sequence[Sequence[Likely]], batch: int) -> float:
    """Estimate the least time of blocks, with the sums of gradients over sites that hold all layers each."""
    time_ms = least_time_ms(lines, batch)
    homes = [{part.chip_class.site for part in block} for block in blocks]
    whole = {next(iter(sites)) for sites in homes if len(sites) == 1}
    if len(whole) < 2:
        return time_ms
    hidden_ms = max(max(line, key=lambda one: one.done(time_ms)).round_ms for line in lines)
    return time_ms + max(0.0, whole_crossing_ms(base.setting, whole, base.links) - hidden_ms)


def least_time_ms(fronts: Sequence[Sequence[Paced | Likely]], batch: int) -> float:
    """Find the time in which the best choices of all blocks do a batch, parts of micro-batches counted."""

    def done(time_ms: float) -> float:
        return sum(max(choice.done(time_ms) for choice in choices) for choices in fronts)

    # No time is shorter than with all rates and no lag.
    low = batch / sum(max(choice.rate for choice in choices) for choices in fronts)
    high = 2 * low
    while done(high) < batch:
        low, high = high, 2 * high
    for _ in range(BISECTIONS):
        if high - low < CLOSE * high:
            break
        middle = (low + high) / 2
        low, high = (low, middle) if done(middle) >= batch else (middle, high)
    return high
