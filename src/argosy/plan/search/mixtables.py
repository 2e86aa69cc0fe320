"""The problem that a walk over mixes (`plan.mix`) answers, from the cost tables of a setting.

Guesses what the timeline tells exactly: how a schedule fills and drains, what of the exchanges shows. Must not know how
a walk goes, nor what becomes of its answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.plan import EMBEDDING, GRADIENT_BYTES
from argosy.plan.costs.cost import payload_bytes
from argosy.plan.costs.links import find_link, has_link, port_gbps, scale_up_wire
from argosy.plan.costs.rings import gradient_bytes, parts_of_ring
from argosy.plan.costs.setting import Setting, Way, shards_of
from argosy.plan.costs.tables import end_gb, holding_of, layer_sums, state_sums, unit_times
from argosy.plan.mix.tables import Carrier, Floats, MixProblem, MixTable, Schedule

MS = 1e-3
# Bytes a second of one Gb/s.
GBPS_BYTES = 1.25e8
# What stands for no network.
SLOWEST_GBPS = 1e-6
# Part of a stage's time that is backward.
BACKWARD = 2 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A way to lay a micro-batch over a place of a class, by the class's number, as what is kept most and least."""

    chip_class: int
    plain: Way
    lean: Way


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What mixes are made of, and how they run.

    chips: of each class; laid: ways that may be used, all of one CP and EP degree. ratio: of TP degrees along a
    pipeline, at most. schedule, virtual_stages, zero_stage: of all pipelines; shards: ranks that share. streams: about
    how many ranks send over a long link.
    """

    setting: Setting
    classes: tuple[ChipClass, ...]
    chips: tuple[int, ...]
    links: tuple[LongLink, ...]
    batch: int
    laid: tuple[Laid, ...]
    ratio: int
    schedule: str
    virtual_stages: int
    zero_stage: int
    shards: int
    streams: int
    stages_max: int


def mix_problem(terms: Terms) -> MixProblem:
    """Make the problem of the mixes there are; all bytes are in 10^9."""
    way = terms.laid[0].plain
    sizes = sorted({laid.plain.microbatch_size for laid in terms.laid})
    return MixProblem(
        counts=terms.chips,
        batch=terms.batch,
        weight_bytes=_sent_gb(terms.setting, way),
        tables=tuple(
            _table(terms, [laid for laid in terms.laid if laid.plain.microbatch_size == size]) for size in sizes
        ),
        stages_max=terms.stages_max,
        schedule=_schedule(terms),
        chip_s=tuple(_chip_s(terms, chip_class) for chip_class in terms.classes),
        node_chips=tuple(chip_class.chips_per_node for chip_class in terms.classes),
    )


def _table(terms: Terms, laid: Sequence[Laid]) -> MixTable:
    rows = [_row(terms, each) for each in laid]
    layer_s, again_s, state, stored, lean, fixed = (np.array(part) for part in zip(*rows, strict=True))
    messages = _messages_s(terms, laid)
    return MixTable(
        microbatch_size=laid[0].plain.microbatch_size * laid[0].plain.ep,
        carriers=tuple(carrier_of(each) for each in laid),
        layer_s=layer_s,
        update_s=np.zeros_like(layer_s),
        state_bytes=state,
        stored_bytes=stored,
        fixed_bytes=fixed,
        limit_bytes=np.array([terms.classes[each.chip_class].chip.memory_gb or 0.0 for each in laid]),
        forward_s=messages,
        backward_s=messages,
        lean_bytes=lean,
        again_s=again_s,
    )


def carrier_of(laid: Laid) -> Carrier:
    """Name what a place runs on; its degree is all the chips of the place."""
    return Carrier(chip_class=laid.chip_class, tp=laid.plain.width)


def _row(terms: Terms, laid: Laid) -> tuple[Any, ...]:
    """Give by layer the seconds, those of recomputing, the state and what is kept of each way; embedding and head go
    with the first layer and the last. Then what every place holds besides.
    """
    setting, place, shards = terms.setting, terms.classes[laid.chip_class], shards_of(terms.zero_stage, terms.shards)
    plain, lean = (layer_sums(setting, place, way, shards.passed) for way in (laid.plain, laid.lean))
    layer_ms, again_ms = np.diff(plain.total_ms), np.diff(lean.total_ms - plain.total_ms)
    state, kept, lean_kept = (
        np.diff(state_sums(setting, laid.plain, shards)),
        np.diff(plain.kept_gb),
        np.diff(lean.kept_gb),
    )
    inner = end_gb(setting, place, False, False, holding_of(laid.plain, 1, shards))
    first, idle = (end_gb(setting, place, True, False, holding_of(laid.plain, held, shards)) for held in (1, 0))
    state[0] += idle - inner
    kept[0] += first - idle
    lean_kept[0] += first - idle
    state[-1] += end_gb(setting, place, False, True, holding_of(laid.plain, 1, shards)) - inner
    for layer, unit in ((0, EMBEDDING), (-1, setting.shape.num_layers)):
        cost = unit_times(setting, place, unit, laid.plain, shards.passed)
        layer_ms[layer] += cost.forward_ms + cost.backward_ms
    return layer_ms * MS, again_ms * MS, state, kept, lean_kept, inner


def _messages_s(terms: Terms, laid: Sequence[Laid]) -> Floats:
    """Time activations by (boundary, carrier, next); inside a site they cost a stage nothing."""
    pairs = np.zeros((len(laid), len(laid)))
    for i, near in enumerate(laid):
        for j, far in enumerate(laid):
            one, other = (terms.classes[each.chip_class].site for each in (near, far))
            if one == other:
                continue
            pairs[i, j] = np.inf
            if has_link(one, other, terms.links):
                link, sent = find_link(one, other, terms.links), payload_bytes(terms.setting, near.plain)
                pairs[i, j] = link.one_way_ms * MS + sent * terms.streams / (link.gbps * GBPS_BYTES)
    return np.repeat(pairs[None], terms.setting.shape.num_layers + 1, axis=0)


def _sent_gb(setting: Setting, way: Way) -> Floats:
    """Give the gradients of every layer such that its part by a place's chips is what a ring passes for each."""
    layers = setting.shape.num_layers
    each = [gradient_bytes(setting, unit) for unit in (EMBEDDING, *range(layers + 1))]
    sent = np.array([(dense * way.ep + experts) * way.cp / 1e9 for dense, experts in each])
    sent[1] += sent[0]
    sent[-2] += sent[-1]
    return sent[1:-1]


def _chip_s(terms: Terms, chip_class: ChipClass) -> float:
    """Give the seconds in which a chip sends 10^9 bytes; long links, which all mixes share much alike, are left out."""
    alone = len(terms.classes) == chip_class.nodes == 1
    gbps = scale_up_wire(chip_class, 1).gbps if alone else port_gbps(chip_class)
    return parts_of_ring(terms.zero_stage)[0] * 1e9 / (max(gbps, SLOWEST_GBPS) * GBPS_BYTES)


def _schedule(terms: Terms) -> Schedule:
    """Say how pipelines run.

    Zero-bubble fills gaps with weights' gradients, twice in all; pipelines of virtual stages fill by one of each place.
    """
    hidden, level = 1 - 1 / terms.virtual_stages, terms.schedule == "zero-bubble"
    if level:
        all_sums = [layer_sums(terms.setting, terms.classes[each.chip_class], each.plain) for each in terms.laid]
        hidden = 2 * float(np.mean([sums.weight_ms[-1] / sums.total_ms[-1] for sums in all_sums]))
    summed, gathered = parts_of_ring(terms.zero_stage)
    return Schedule(
        hidden=hidden,
        level=level,
        filled=terms.schedule != "gpipe",
        drained=BACKWARD,
        shown=gathered / summed * terms.setting.numerics.weight_bytes / GRADIENT_BYTES,
        ratio=terms.ratio,
    )
