"""A template: one way to lay one replica over a sequence of classes, its layers cut, its stages timed.

Built for a tensor-parallel degree, a number of stages on each class, a micro-batch size and a way of recompute. Must
not know how many replicas there are in all, nor the batch.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.plan import EMBEDDING, Send, Stage, Wire
from argosy.network.wires import send_ms
from argosy.plan.cost import UnitCost, payload_bytes, unit_cost
from argosy.plan.links import Holder, boundary_wire
from argosy.plan.memory import Holding, ends_gb, place_holding, unit_gb
from argosy.plan.partition import StageCosts, fullest, partition
from argosy.plan.setting import Setting, Way

Streams = Mapping[frozenset[str], int]
"""How many ranks send over the link between two sites at once, by the pair of sites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a template is built from.

    runs: (class, stages on it), in the order of the pipeline. schedule and microbatches: how many micro-batches a stage
    holds follows from them. count: replicas that there will be. shards: ranks that share an optimizer's state.
    """

    runs: tuple[tuple[ChipClass, int], ...]
    tp: int
    microbatch_size: int
    recompute: str
    schedule: str
    microbatches: int
    count: int = 1
    shards: int = 1

    @property
    def places(self) -> tuple[ChipClass, ...]:
        """The class of each stage."""
        return tuple(chip_class for chip_class, stages in self.runs for _ in range(stages))

    @property
    def depth(self) -> int:
        """How many stages there are."""
        return sum(stages for _, stages in self.runs)

    @property
    def chips(self) -> int:
        """Chips of one replica."""
        return self.tp * self.depth

    @property
    def key(self) -> tuple[object, ...]:
        """What two layouts of one fleet must share to have the same stages; counts that no stage sees are left out."""
        held = min(self.depth, self.microbatches) if self.schedule == "1f1b" else self.microbatches
        runs = tuple((chip_class.name, stages) for chip_class, stages in self.runs)
        return runs, self.tp, self.microbatch_size, self.recompute, self.schedule, held, self.shards

    @property
    def way(self) -> Way:
        """How one micro-batch is laid over a stage."""
        return Way(tp=self.tp, microbatch_size=self.microbatch_size, recompute=self.recompute)

    def holding(self, stage: int) -> Holding:
        """How one stage holds its units."""
        return place_holding(
            self.way, self.schedule, stage, self.depth, self.microbatches, optimizer_shards=self.shards
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A layout with its layers cut and its stages timed, update left out. wires: those of its boundaries.

    pace_ms: from one micro-batch to the next in the steady state. fill_ms: of one micro-batch alone, there and back.
    """

    layout: Layout
    stages: tuple[Stage, ...]
    sends: tuple[Send, ...]
    wires: tuple[Wire, ...]
    pace_ms: float
    fill_ms: float


def make_template(setting: Setting, layout: Layout, links: Sequence[LongLink]) -> Template | None:
    """Cut the layers for a layout and time its stages; None where no cut fits in memory."""
    if len(layout.places) > setting.shape.num_layers or not may_hold(setting, layout):
        return None
    costs = stage_costs(setting, layout)
    # What a profile does not hold takes forever.
    ends = partition(costs) if all(math.isfinite(cost.layer_ms.sum() + cost.fixed_ms) for cost in costs) else None
    if ends is None:
        return None
    stages = timed_stages(setting, layout, ends)
    wires = boundary_wires(layout, links, crossing_streams([layout]))
    return joined(layout, stages, wires, payload_bytes(setting, layout.way))


def joined(layout: Layout, stages: tuple[Stage, ...], wires: tuple[Wire, ...], sent_bytes: float) -> Template:
    """Make the template of timed stages and the wires between them."""
    posts_ms = [send_ms(wire, sent_bytes) for wire in wires]
    hops_ms = [post + wire.one_way_ms for post, wire in zip(posts_ms, wires, strict=True)]
    return Template(
        layout=layout,
        stages=stages,
        sends=tuple(Send(wire=wire.name, payload_bytes=sent_bytes) for wire in wires),
        wires=wires,
        pace_ms=pace_ms(layout.schedule, stages, posts_ms, hops_ms),
        fill_ms=sum(s.forward_ms + s.backward_ms for s in stages) + 2 * sum(hops_ms),
    )


def rejoined(template: Template, links: Sequence[LongLink], streams: Streams) -> Template:
    """Give a template's boundaries over long links the share that so many streams leave them."""
    if not any(wire.long_link for wire in template.wires):
        return template
    wires = boundary_wires(template.layout, links, streams)
    return joined(template.layout, template.stages, wires, template.sends[0].payload_bytes)


def pace_ms(schedule: str, stages: Sequence[Stage], posts_ms: Sequence[float], hops_ms: Sequence[float]) -> float:
    """Estimate the time between micro-batches: the slowest stage or wire, or under 1F1B the longest loop.

    A 1F1B stage lets only as many micro-batches in as stages follow, so they share the time of one there and back.
    """
    works = [stage.forward_ms + stage.backward_ms for stage in stages]
    pace = max(*works, *posts_ms, 0.0)
    if schedule == "1f1b":
        for s in range(len(stages) - 1):
            pace = max(pace, (sum(works[s:]) + 2 * sum(hops_ms[s:])) / (len(stages) - s))
    return pace


def may_hold(setting: Setting, layout: Layout) -> bool:
    """Tell quickly that a layout can't hold the model: if all its chips are too few with every layer on the last stage.

    There the fewest micro-batches are in flight.
    """
    places = layout.places
    first, last = (cost_of_stage(setting, layout, index, places) for index in (0, len(places) - 1))
    need_gb = float(last.layer_gb.sum()) + last.fixed_gb + (first.fixed_gb if len(places) > 1 else 0.0)
    return need_gb <= sum((chip_class.chip.memory_gb or 0.0) * stages for chip_class, stages in layout.runs)


def stage_costs(setting: Setting, layout: Layout) -> list[StageCosts]:
    """Tabulate what layers cost at each place of a layout."""
    places = layout.places
    return [cost_of_stage(setting, layout, index, places) for index in range(len(places))]


def cost_of_stage(setting: Setting, layout: Layout, index: int, places: Sequence[ChipClass]) -> StageCosts:
    """Tabulate what layers cost on one of a layout's stages, once for all that hold their layers alike."""
    first, last = index == 0, index == len(places) - 1
    holding = layout.holding(index)
    key = ("costs", places[index].name, holding, first, last)
    if key not in setting.tables:
        setting.tables[key] = stage_cost(setting, layout, places[index], holding, first, last)
    costs: StageCosts = setting.tables[key]
    return costs


def stage_cost(
    setting: Setting, layout: Layout, place: ChipClass, holding: Holding, first: bool, last: bool
) -> StageCosts:
    """Tabulate what layers cost on one stage."""
    times = {kind: total_ms(cost_at(setting, layout, place, kind)) for kind in set(setting.kinds)}
    sizes = {kind: unit_gb(setting, kind, holding) for kind in set(setting.kinds)}
    fixed_ms = total_ms(cost_at(setting, layout, place, EMBEDDING)) if first else 0.0
    fixed_ms += total_ms(cost_at(setting, layout, place, setting.shape.num_layers)) if last else 0.0
    return StageCosts(
        layer_ms=np.array([times[kind] for kind in setting.kinds]),
        layer_gb=np.array([sizes[kind] for kind in setting.kinds]),
        fixed_ms=fixed_ms,
        fixed_gb=ends_gb(setting, place, first, last, holding),
        limit_gb=place.chip.memory_gb or 0.0,
    )


def cost_at(setting: Setting, layout: Layout, place: ChipClass, unit: int) -> UnitCost:
    """Time a unit at a place of a layout."""
    key = (place.name, unit, layout.way)
    if key not in setting.tables:
        setting.tables[key] = unit_cost(setting, place, unit, layout.way)
    cost: UnitCost = setting.tables[key]
    return cost


def all_layers_ms(setting: Setting, layout: Layout, place: ChipClass) -> float:
    """Give what one micro-batch takes through all layers if they were at one place; worked out once."""
    key = ("all layers", place.name, layout.tp, layout.microbatch_size, layout.recompute)
    if key not in setting.tables:
        counts = Counter(setting.kinds)
        setting.tables[key] = sum(n * total_ms(cost_at(setting, layout, place, kind)) for kind, n in counts.items())
    time_ms: float = setting.tables[key]
    return time_ms


def total_ms(cost: UnitCost) -> float:
    """Add forward and backward."""
    return cost.forward_ms + cost.backward_ms


def timed_stages(setting: Setting, layout: Layout, ends: Sequence[int]) -> tuple[Stage, ...]:
    """Make the stages of a cut, with times, shares and memory; each is made once."""
    key = ("stages", layout.key, tuple(ends))
    if key not in setting.tables:
        setting.tables[key] = made_stages(setting, layout, ends)
    stages: tuple[Stage, ...] = setting.tables[key]
    return stages


def made_stages(setting: Setting, layout: Layout, ends: Sequence[int]) -> tuple[Stage, ...]:
    """Make the stages of a cut."""
    stages = []
    first_layer = 0
    costs_of = stage_costs(setting, layout)
    for index, (place, end_layer) in enumerate(zip(layout.places, ends, strict=True)):
        first, last = index == 0, index == len(ends) - 1
        layers = range(first_layer, end_layer)
        units = (
            *([EMBEDDING] if first else []),
            *(setting.kind(layer) for layer in layers),
            *([setting.shape.num_layers] if last else []),
        )
        costs = [cost_at(setting, layout, place, unit) for unit in units]
        backward_ms = sum(cost.backward_ms for cost in costs)
        costed = costs_of[index]
        memory = costed.fixed_gb + float(costed.layer_gb[first_layer:end_layer].sum())
        stages.append(
            Stage(
                first_layer=first_layer,
                end_layer=end_layer,
                chip_class=place.name,
                forward_ms=sum(cost.forward_ms for cost in costs),
                backward_ms=backward_ms,
                backward_shares=tuple(cost.backward_ms / backward_ms for cost in costs),
                weight_share=sum(cost.weight_ms for cost in costs) / backward_ms,
                tp=layout.tp,
                recompute=layout.recompute,
                memory_gb=memory,
                memory_limit_gb=place.chip.memory_gb or 0.0,
            )
        )
        first_layer = end_layer
    return tuple(stages)


def crossing_streams(layouts: Iterable[Layout]) -> Streams:
    """Count the ranks that send over each pair of sites at once: TP x replicas for every boundary that crosses it."""
    streams: Counter[frozenset[str]] = Counter()
    for layout in layouts:
        for before, after in itertools.pairwise(layout.places):
            if before.site != after.site:
                streams[frozenset((before.site, after.site))] += layout.tp * layout.count
    return streams


def boundary_wires(layout: Layout, links: Sequence[LongLink], streams: Streams) -> tuple[Wire, ...]:
    """Find the wire of each boundary of a layout, one that crosses sites with its share of the link."""
    wires = []
    places = layout.places
    of_class = {name: sum(place.name == name for place in places) for name in {place.name for place in places}}
    for index in range(1, len(places)):
        before, after = (
            Holder(chip_class=c, tp=layout.tp, class_stages=of_class[c.name]) for c in places[index - 1 : index + 1]
        )
        same_before = sum(place.name == after.chip_class.name for place in places[:index])
        sharing = streams.get(frozenset((before.chip_class.site, after.chip_class.site)), 1)
        wires.append(boundary_wire(before, after, same_before, sharing, links))
    return tuple(wires)


def needed_gb(setting: Setting, layout: Layout) -> float:
    """Give the least memory that the fullest rank of a layout needs, whatever its chips have; 10^9 bytes."""
    return fullest(stage_costs(setting, layout))
