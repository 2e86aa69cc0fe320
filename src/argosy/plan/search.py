"""The search for drafts: which classes take part, how each lays its replicas, and which drafts are worth timing.

Bounded everywhere, so that a fleet of 100,000 chips, which is a handful of classes, is searched like a small one. It
estimates; the timeline decides. Must not know prices nor what is asked for.
"""

import itertools
import math
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from argosy.contracts.fleet import ChipClass
from argosy.model.shape import ModelShape
from argosy.network.wires import find_wire, send_ms
from argosy.plan.drafts import Draft, make_draft, sketch
from argosy.plan.links import can_join
from argosy.plan.schedules import choose_schedule
from argosy.plan.shares import Kind, least_time
from argosy.plan.templates import Layout, Template, all_layers_ms, make_template

MICROBATCH_SIZES = (1, 2, 4)
RECOMPUTES = ("none", "full")
DEPTHS_TRIED, DEPTH_MAX = 14, 128
COUNTS_TRIED = 6
BLOCK_MAX = 3
PARTITIONED_MAX = 4
CHOICES_MAX, COMBINATIONS_MAX = 12, 48

Choice = tuple[Template, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """So many chips of a class that a draft may use."""

    chip_class: ChipClass
    chips: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A draft that is not timed yet, and a guess of its step."""

    draft: Draft
    step_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What may become a draft. zero_stages: to try in turn. least_ms: what it takes at least."""

    choice: tuple[Choice, ...]
    schedule: str
    zero_stages: tuple[int, ...]
    least_ms: float


class Search:
    """Finds drafts for one job. base: a draft without groups; sizes, recomputes: what the job leaves open."""

    def __init__(self, base: Draft, sizes: Sequence[int], recomputes: Sequence[str]) -> None:
        self.base = base
        self.sizes = tuple(sizes)
        self.recomputes = tuple(recomputes)
        self.known: dict[object, list[Choice]] = {}
        self.templates: dict[object, Template | None] = {}

    def estimates(self, parts: Sequence[Part], batch: int, limit: int) -> list[Estimate]:
        """Guess drafts that use all of these parts for a batch; answers the best few, best first.

        Candidates come by the least that their stages' work takes, so most are left out before they are drafts.
        """
        candidates: list[Candidate] = []
        for size in self.sizes:
            if batch % size:
                continue
            for blocks in partitions(parts):
                candidates += self.combined(blocks, batch, size)
        found: list[Estimate] = []
        for candidate in sorted(candidates, key=lambda candidate: candidate.least_ms):
            if len(found) >= limit and candidate.least_ms >= found[limit - 1].step_ms:
                break
            estimate = self.estimate(candidate, batch)
            if estimate is not None:
                insort(found, estimate, key=lambda estimate: estimate.step_ms)
        return found[:limit]

    def estimate(self, candidate: Candidate, batch: int) -> Estimate | None:
        """Guess a candidate's draft, its optimizer whole if it fits so; None if it does not fit at all."""
        for zero_stage in candidate.zero_stages:
            base = replace(self.base, zero_stage=zero_stage)
            draft = make_draft(base, candidate.choice, batch, candidate.schedule)
            if draft is not None:
                return Estimate(draft=draft, step_ms=guess_ms(draft))
        return None

    def combined(self, blocks: Sequence[tuple[Part, ...]], batch: int, size: int) -> Iterator[Candidate]:
        """List candidates of one choice a block, the batch shared by speed."""
        sites = {part.chip_class.site for block in blocks for part in block}
        if not can_join(sites, self.base.links):
            return
        shard = len(sites) == 1
        powers = [sum(self.power(part) for part in block) for block in blocks]
        keep = max(1, min(CHOICES_MAX, int(COMBINATIONS_MAX ** (1 / len(blocks)))))
        lists = [
            self.choices(block, max(1, round(batch / size * power / sum(powers))), size, shard, keep)
            for block, power in zip(blocks, powers, strict=True)
        ]
        for choice in itertools.product(*lists):
            least_ms = least_work_ms(choice, batch // size)
            stages = zero_stages(choice, len(sites))
            for schedule in schedules(choice):
                yield Candidate(choice=choice, schedule=schedule, zero_stages=stages, least_ms=least_ms)

    def power(self, part: Part) -> float:
        """Give a part's peak in TFLOPS, to share a batch by at first."""
        return part.chips * part.chip_class.chip.tflops[self.base.setting.precision]

    def choices(self, block: tuple[Part, ...], microbatches: int, size: int, shard: bool, keep: int) -> list[Choice]:
        """List templates over the classes of a block with their counts, the quickest few for so many micro-batches.

        shard: the optimizer's state may be sharded over the replicas. Layouts come by the least they can take.
        """
        key = (tuple((part.chip_class.name, part.chips) for part in block), microbatches, size, shard, keep)
        if key not in self.known:
            found: list[tuple[float, Choice]] = []
            tried = [
                (self.least_ms(layout, microbatches), layout) for layout in self.layouts(block, microbatches, size)
            ]
            for least_ms, layout in sorted(tried, key=lambda pair: pair[0]):
                if len(found) >= keep and least_ms >= found[keep - 1][0]:
                    break
                choice = self.fitted(layout, shard)
                if choice is not None:
                    insort(found, (choice_ms(choice, microbatches), choice), key=lambda pair: pair[0])
            self.known[key] = [choice for _, choice in found[:keep]]
        return self.known[key]

    def least_ms(self, layout: Layout, microbatches: int) -> float:
        """Give what a layout takes at least: its layers cut as evenly as if they could be split, nothing else.

        Stages of speeds v take layers / sum of v a micro-batch; one micro-batch alone takes all layers at the fastest.
        """
        alone_ms = [all_layers_ms(self.base.setting, layout, place) for place, _ in layout.runs]
        if not all(map(math.isfinite, alone_ms)):
            return math.inf
        speeds = [1 / time_ms for time_ms in alone_ms]
        pace_ms = 1 / sum(speed * stages for speed, (_, stages) in zip(speeds, layout.runs, strict=True))
        return 1 / max(speeds) + (math.ceil(microbatches / layout.count) - 1) * pace_ms

    def fitted(self, layout: Layout, shard: bool) -> Choice | None:
        """Make a layout's template: with the least recompute that fits, then with the optimizer sharded."""
        ways = [(s, recompute) for s in sorted({1, layout.count if shard else 1}) for recompute in self.recomputes]
        # What needs the least memory comes second: where that does not fit either, nothing between them does.
        for index in dict.fromkeys([0, len(ways) - 1]):
            first = self.template(replace(layout, shards=ways[index][0], recompute=ways[index][1]))
            if first is not None:
                break
        else:
            return None
        for shards, recompute in ways[: index + 1]:
            template = self.template(replace(layout, shards=shards, recompute=recompute))
            if template is not None:
                return template, layout.count
        return None

    def template(self, layout: Layout) -> Template | None:
        """Make a template, once."""
        key = (layout.key, layout.count)
        if key not in self.templates:
            self.templates[key] = make_template(self.base.setting, layout, self.base.links)
        return self.templates[key]

    def layouts(self, block: tuple[Part, ...], microbatches: int, size: int) -> Iterator[Layout]:
        """List layouts of a block: every TP degree, then depths of a pipeline on one class or shares of several."""
        for tp in tp_degrees(self.base.setting.shape, [part.chip_class for part in block]):
            runs = self.pure_runs(block[0], tp) if len(block) == 1 else self.mixed_runs(block, tp)
            for run, count in runs:
                count = min(count, microbatches)
                stages = sum(s for _, s in run)
                # More micro-batches than stages are held no differently, so such layouts are one.
                share = min(stages, math.ceil(microbatches / count))
                yield Layout(
                    runs=run,
                    tp=tp,
                    microbatch_size=size,
                    recompute=self.recomputes[0],
                    schedule=choose_schedule(stages, share),
                    microbatches=share,
                    count=count,
                )

    def pure_runs(self, part: Part, tp: int) -> Iterator[tuple[tuple[tuple[ChipClass, int], ...], int]]:
        """List pipelines of one class and how many of them its chips make."""
        groups = part.chips // tp
        for depth in spread(min(self.base.setting.shape.num_layers, groups, DEPTH_MAX), DEPTHS_TRIED):
            yield ((part.chip_class, depth),), groups // depth

    def mixed_runs(self, block: tuple[Part, ...], tp: int) -> Iterator[tuple[tuple[tuple[ChipClass, int], ...], int]]:
        """List pipelines through several classes, in every order, for several counts of replicas."""
        layers = self.base.setting.shape.num_layers
        for count in spread(min(part.chips // tp for part in block), COUNTS_TRIED):
            depths = [part.chips // tp // count for part in block]
            if sum(depths) > min(layers, DEPTH_MAX):
                continue
            for order in itertools.permutations(range(len(block))):
                yield tuple((block[i].chip_class, depths[i]) for i in order), count


def partitions(parts: Sequence[Part]) -> Iterator[list[tuple[Part, ...]]]:
    """List the ways to put classes into blocks that share pipelines; with many classes each stays by itself.

    A pipeline goes through at most BLOCK_MAX classes.
    """
    if len(parts) > PARTITIONED_MAX:
        yield [(part,) for part in parts]
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


def spread(maximum: int, count: int) -> list[int]:
    """Choose at most about `count` numbers from 1 to a maximum: all of few, else close together at first, then wide.

    >>> spread(5, 14), spread(64, 6)
    ([1, 2, 3, 4, 5], [1, 2, 5, 12, 28, 64])
    """
    if maximum <= count:
        return list(range(1, maximum + 1))
    return sorted({round(maximum ** (index / (count - 1))) for index in range(count)})


def tp_degrees(shape: ModelShape, classes: Sequence[ChipClass]) -> list[int]:
    """List the TP degrees that stay in a node of every class and cut the model evenly."""
    cut = [shape.num_heads, shape.num_kv_heads, shape.intermediate_size, shape.vocab_size]
    if shape.latent is not None:
        cut.remove(shape.num_kv_heads)
    most = math.gcd(*(chip_class.chips_per_node for chip_class in classes))
    return [tp for tp in range(1, most + 1) if most % tp == 0 and all(size % tp == 0 for size in cut)]


def zero_stages(choice: Sequence[Choice], sites: int) -> tuple[int, ...]:
    """List the ZeRO stages to try in turn: 0 unless memory needs 1; 1 for several like-cut replicas in a site."""
    needed = any(template.layout.shards > 1 for template, _ in choice)
    tps = {template.layout.tp for template, _ in choice}
    possible = sites == 1 and len(tps) == 1 and sum(count for _, count in choice) > 1
    return (*(() if needed else (0,)), *((1,) if possible else ()))


def schedules(choice: Sequence[Choice]) -> list[str]:
    """List the schedules to try: what suits the micro-batches, and gpipe for pipelines that cross a long link.

    1F1B waits for a micro-batch to come back before it lets the next in; GPipe hides the delay for more memory.
    """
    crossing = any(wire.long_link for template, _ in choice for wire in template.wires)
    return ["", "gpipe"] if crossing else [""]


def least_work_ms(choice: Sequence[Choice], microbatches: int) -> float:
    """Give what a choice takes at least, whatever its schedule and wires: its stages' work, dealt for the least."""
    kinds = []
    for template, count in choice:
        works = [stage.forward_ms + stage.backward_ms for stage in template.stages]
        kinds.append(Kind(pace_ms=max(works), fill_ms=sum(works), count=count))
    return least_time(kinds, microbatches)


def choice_ms(choice: Choice, microbatches: int) -> float:
    """Guess how long a choice takes for so many micro-batches, exchanges left out."""
    template, count = choice
    return template.fill_ms + (math.ceil(microbatches / count) - 1) * template.pace_ms


def guess_ms(draft: Draft) -> float:
    """Guess a draft's step: its slowest group, and what of its exchanges no backward hides."""
    plan = sketch(draft)
    compute_ms = max(g.template.fill_ms + (g.microbatches - 1) * g.template.pace_ms for g in draft.groups)
    shared: dict[str, float] = {}
    for exchange in plan.exchanges:
        wire = find_wire(plan.wires, exchange.wire)
        lane = wire.name if wire.shared else f"{wire.name} {exchange.members}"
        shared[lane] = shared.get(lane, 0.0) + send_ms(wire, exchange.wire_bytes + exchange.gather_bytes)
    drain_ms = min(sum(stage.backward_ms for stage in replica.stages) for replica in plan.replicas)
    first_ms = min(replica.stages[0].backward_ms for replica in plan.replicas)
    by_name = {wire.name: wire for wire in plan.wires}
    exposed = [ms - (drain_ms if lane in by_name else first_ms) for lane, ms in shared.items()]
    return compute_ms + max([0.0, *exposed])
