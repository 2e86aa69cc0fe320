"""The search for drafts: which classes take part, how each lays its replicas, and which drafts are worth timing.

Bounded everywhere, so that a fleet of 100,000 chips, which is a handful of classes, is searched like a small one. It
estimates; the timeline decides. Must not know prices nor what is asked for.
"""

import itertools
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from argosy.plan.costs.links import can_join, has_link
from argosy.plan.pipelines.fronts import Likely, front, likely
from argosy.plan.pipelines.grid import Family, Freedom, Part
from argosy.plan.pipelines.paced import Paced
from argosy.plan.search.combining import combined, least_ms
from argosy.plan.search.drafts import Candidate, Draft, make_draft
from argosy.plan.search.mixing import mixed
from argosy.plan.search.predict import Timed, time_draft

BLOCK_MAX = 3
PARTITIONED_MAX = 4
MIXED_FAMILIES = 2
# More drafts than asked for are timed, as many again but no more than this.
TIMED_MORE_MAX = 12
# Of a family so many choices of several blocks are timed.
SHARE_MAX = 5
# What may be sharded where gradients cross sites, as a ZeRO stage.
ZERO_ACROSS_MAX = 1

ZERO = (0, 1)
TRAINER_FAMILIES = (
    *(Family(schedule=s, zero_stage=z) for s in ("1f1b", "gpipe", "zero-bubble") for z in ZERO),
    *(Family(schedule="interleaved", virtual_stages=v, zero_stage=z) for v in (2, 4, 8) for z in ZERO),
)
OTHER_FAMILIES = tuple(Family(zero_stage=z) for z in (2, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A timed draft with its family."""

    timed: Timed
    family: Family

    @property
    def draft(self) -> Draft:
        """The draft."""
        return self.timed.draft

    @property
    def step_ms(self) -> float:
        """Its step in the steady state."""
        return self.timed.timeline.step_ms


class Search:
    """Finds drafts for one job.

    base: a draft without groups; freedom: what the job leaves open; batch: sequences. crowded: also pipelines through
    several classes that do less than each class alone, for who must use all chips. joined: pipelines through several
    classes are tried at all. blocks: which classes share pipelines, where that is given; else all ways are tried.
    """

    def __init__(self, base: Draft, freedom: Freedom, batch: int) -> None:
        self.base = base
        self.freedom = freedom
        self.batch = batch
        self.crowded = False
        self.joined = True
        self.blocks: list[tuple[Part, ...]] = []
        self.families = families(freedom)

    def estimates(
        self,
        parts: Sequence[Part],
        batch: int,
        limit: int,
        *,
        mix: bool = False,
        chips_min: int = 1,
        spare: int | None = None,
    ) -> list[Estimate]:
        """Time drafts that use these parts for a batch; answers the best few, best first.

        mix: several templates of a class too. chips_min: drafts that use fewer are left out. spare: how many more are
        timed than asked for. Candidates come by what their choices take at least, so most are left out before they are
        drafts.
        """
        found: list[Estimate] = []
        tried: set[object] = set()
        turned: set[Family] = set()
        most = limit + (min(limit, TIMED_MORE_MAX) if spare is None else spare)

        def consider(candidate: Candidate) -> None:
            key = (candidate.family, tuple((t.layout.key, count) for t, count in candidate.choice))
            if key in tried:
                return
            tried.add(key)
            for draft in self.drafts(candidate, batch):
                enough = sum(draft.chips.values()) >= chips_min
                if enough and (len(found) < limit or compute_ms(draft) < found[limit - 1].step_ms):
                    insort(
                        found, Estimate(timed=time_draft(draft), family=candidate.family), key=lambda one: one.step_ms
                    )

        # Some families have many choices that are alike: of each the first gets its turn.
        turns = mix and self.joined
        for candidate in self.candidates(parts, batch):
            full = len(found) >= most
            if len(found) >= limit and candidate.least_ms >= found[limit - 1].step_ms:
                break
            if full and not turns:
                break
            if not full or candidate.family not in turned:
                consider(candidate)
            turned.add(candidate.family)
        for candidate in self.mixes(parts, found, batch) if mix and not self.freedom.form else ():
            consider(candidate)
        return found[:limit]

    def drafts(self, candidate: Candidate, batch: int) -> Iterator[Draft]:
        """Make a candidate's drafts: its gradients in one ring, or by sites; GPipe too where a pipeline crosses sites.

        1F1B waits for a micro-batch to come back before it lets the next in; GPipe hides the delay for more memory.
        """
        base = replace(self.base, zero_stage=candidate.family.zero_stage)
        crossing = any(wire.long_link for template, _ in candidate.choice for wire in template.wires)
        for schedule in ("", "gpipe") if crossing and candidate.family.schedule == "1f1b" else ("",):
            draft = make_draft(base, candidate.choice, batch, schedule)
            if draft is not None and has_form(draft, self.freedom):
                yield from exchanged(draft, self.freedom)

    def candidates(self, parts: Sequence[Part], batch: int) -> Iterator[Candidate]:
        """Give candidates that use these parts, by what they take at least.

        They are the best choices of the blocks for a time. Layers of a way to join classes are cut only when it could
        be the next.
        """
        waiting: list[tuple[float, int, Candidate]] = []
        number = itertools.count()
        for soonest_ms, family, blocks in self.likely_ways(parts, batch):
            while waiting and waiting[0][0] <= soonest_ms:
                yield heappop(waiting)[2]
            fronts = [self.front(block, family) for block in blocks]
            # Of many classes those that can't hold the model alone are left out.
            fronts = fronts if self.joined else [choices for choices in fronts if choices]
            if fronts and all(fronts):
                for candidate in combined(self.base, fronts, family, batch):
                    heappush(waiting, (candidate.least_ms, next(number), candidate))
        while waiting:
            yield heappop(waiting)[2]

    def likely_ways(self, parts: Sequence[Part], batch: int) -> list[tuple[float, Family, list[tuple[Part, ...]]]]:
        """List families with ways to put classes into blocks, by an estimate of their least time."""
        sites = {part.chip_class.site for part in parts}
        alone = len(parts) > 1 and any(part.chip_class.nic_gbps <= 0 for part in parts)
        if alone or not can_join(sites, self.base.links):
            return []
        found = []
        for blocks in [self.blocks] if self.blocks else partitions(parts, joined=self.joined):
            if (self.freedom.form and len(blocks) > 1) or not all(self.linked(block) for block in blocks):
                continue
            for family in self.families:
                # What is sent in every micro-batch goes among like replicas (`exchanged`).
                if family.zero_stage > ZERO_ACROSS_MAX and len(blocks) > 1 and self.joined:
                    continue
                lines = [self.likely(block, family) for block in blocks]
                lines = lines if self.joined else [line for line in lines if line]
                if lines and all(lines):
                    found.append((least_ms(self.base, blocks, lines, batch), family, blocks))
        return sorted(found, key=lambda way: way[0])

    def mixes(self, parts: Sequence[Part], found: Sequence[Estimate], batch: int) -> Iterator[Candidate]:
        """Give for each family that is near the best the mix of templates of all blocks that does most."""
        chips = {part.chip_class.name: part.chips for part in parts}
        best: dict[Family, float] = {}
        for estimate in found:
            best.setdefault(estimate.family, estimate.step_ms)
        for family, step_ms in list(best.items())[:MIXED_FAMILIES]:
            blocks = [b for b in blocks_of(parts, joined=self.joined) if self.linked(b)]
            pool = [choice.template for block in blocks for choice in self.front(block, family)]
            picked = mixed(pool, chips, batch, step_ms)
            if picked:
                yield Candidate(choice=tuple(picked), family=family, least_ms=step_ms)

    def linked(self, block: tuple[Part, ...]) -> bool:
        """Tell whether a block may share pipelines: through several sites only where every two have a link."""
        own = sorted({part.chip_class.site for part in block})
        return all(has_link(*pair, self.base.links) for pair in itertools.combinations(own, 2))

    def pace(self, part: Part) -> float:
        """Give the tokens a second of a class's quickest replicas alone, in a step without end; 0 where none fits."""
        best = 0.0
        likely = {
            family: max((line.rate for line in self.likely((part,), family)), default=0.0) for family in self.families
        }
        for family, rate in sorted(likely.items(), key=lambda item: -item[1]):
            if rate <= best:
                break
            best = max([best, *(choice.rate for choice in self.front((part,), family))])
        return best * self.base.setting.sequence_length * 1e3

    def likely(self, block: tuple[Part, ...], family: Family) -> tuple[Likely, ...]:
        """Estimate what a block may do."""
        return likely(self.base.setting, block, family, self.freedom_of(family), self.batch)

    def freedom_of(self, family: Family) -> Freedom:
        """Give the freedom there is with a family: who shares gradients or weights sends them at the same times."""
        if family.zero_stage <= ZERO_ACROSS_MAX:
            return self.freedom
        return replace(self.freedom, lockstep=True, batch=self.batch)

    def front(self, block: tuple[Part, ...], family: Family) -> tuple[Paced, ...]:
        """Give the choices of a block."""
        return front(
            self.base.setting,
            block,
            family,
            self.freedom_of(family),
            self.base.links,
            self.batch,
            rivals=not self.crowded and len({part.chip_class.site for part in block}) == 1,
        )


def families(freedom: Freedom) -> tuple[Family, ...]:
    """List what all replicas of a plan may share."""
    if freedom.runnable:
        return TRAINER_FAMILIES
    known, form = (*TRAINER_FAMILIES, *OTHER_FAMILIES), freedom.form
    if form is None:
        return known
    return tuple(f for f in known if f.schedule in form.schedules and f.zero_stage in form.zero_stages)


def has_form(draft: Draft, freedom: Freedom) -> bool:
    """Tell whether a draft has the form of the framework that it is for: like replicas, a schedule it knows."""
    form = freedom.form
    if form is None:
        return True
    vendors = {chip_class.chip.vendor for chip_class in draft.classes.values()}
    return len(draft.groups) == 1 and draft.schedule in form.schedules and (form.vendors or len(vendors) == 1)


def exchanged(draft: Draft, freedom: Freedom) -> Iterator[Draft]:
    """Give a draft its ways to exchange gradients: one ring through all, or by phases where it crosses sites.

    What is sharded goes by phases, so that it is gathered inside sites only; only the optimizer's state can. Gradients
    and weights are sharded over replicas that are all alike: all take part in what is sent in every micro-batch, so one
    with fewer would leave the others waiting, and a stage's times count it by the wires of one class.
    """
    if draft.zero_stage > ZERO_ACROSS_MAX and len(draft.groups) > 1:
        return
    crossing = crosses(draft)
    if not (crossing and draft.zero_stage):
        yield draft
    # Where no site has several holders there is nothing to shard.
    alone = draft.zero_stage > 0 and max(draft.shards) < 2
    if crossing and draft.zero_stage <= ZERO_ACROSS_MAX and not alone and not freedom.form:
        yield replace(draft, hierarchical=True)


def crosses(draft: Draft) -> bool:
    """Tell whether gradients cross sites: unless all replicas hold each layer in one."""
    homes = {(g.template.layout.shape, g.template.cut.ends) for g in draft.groups}
    alone = len(homes) == 1 and not draft.setting.shape.tied_embeddings
    return len(draft.sites) > 1 and not alone


def partitions(parts: Sequence[Part], *, joined: bool = True) -> Iterator[list[tuple[Part, ...]]]:
    """List the ways to put classes into blocks that share pipelines; of many classes only those of one site do.

    joined: whether any in several sites may share one. A pipeline goes through at most BLOCK_MAX classes.
    """
    if not joined or len(parts) > PARTITIONED_MAX:
        yield from partitions_by_site(parts)
        return
    if not parts:
        yield []
        return
    head, rest = parts[0], parts[1:]
    for blocks in partitions(rest):
        yield [(head,), *blocks]
        for index, block in enumerate(blocks):
            if len(block) < BLOCK_MAX:
                yield [*blocks[:index], (head, *block), *blocks[index + 1 :]]


def partitions_by_site(parts: Sequence[Part]) -> Iterator[list[tuple[Part, ...]]]:
    """List a few ways: each class by itself, those of one site together, and those of every site."""
    alone: list[tuple[Part, ...]] = [(part,) for part in parts]
    yield alone
    sites: dict[str, tuple[Part, ...]] = {}
    for part in parts:
        sites[part.chip_class.site] = (*sites.get(part.chip_class.site, ()), part)
    several = [block for block in sites.values() if 1 < len(block) <= BLOCK_MAX]
    for block in several:
        yield [block, *(one for one in alone if one[0] not in block)]
    if len(several) > 1:
        yield [*several, *(one for one in alone if not any(one[0] in block for block in several))]


def blocks_of(parts: Sequence[Part], *, joined: bool) -> list[tuple[Part, ...]]:
    """List all blocks that parts can be put into, each once."""
    found = [block for blocks in partitions(parts, joined=joined) for block in blocks]
    named = {tuple(part.chip_class.name for part in block): block for block in found}
    return list(named.values())


def compute_ms(draft: Draft) -> float:
    """Guess a draft's step without exchanges of gradients: its slowest group."""
    return max(g.template.fill_ms + (g.microbatches - 1) * g.template.pace_ms for g in draft.groups)
