"""What the chips of one stage send one another for a unit: TP, CP and EP exchanges, and rings that gather or scatter.

Rings over the scale-up link while a group stays in its node, over its chips' network ports where it does not. Must not
know pipelines or other stages.
"""

from argosy.contracts.fleet import ChipClass
from argosy.model.memory import Split, boundary_bytes
from argosy.model.numerics import Numerics
from argosy.model.shape import ModelShape
from argosy.network.wires import BITS_PER_BYTE
from argosy.plan.costs.links import SCALE_UP_ONE_WAY_MS, SITE_ONE_WAY_MS, all_reduce_ms, chip_gbps, scale_up_gbytes_s


def tensor_ms(shape: ModelShape, numerics: Numerics, chip_class: ChipClass, unit: int, split: Split) -> float:
    """Time the exchanges of a TP group in one direction of a unit.

    A layer all-reduces its activations twice (arXiv 1909.08053), or scatters and gathers the same bytes where norms are
    cut along the sequence (arXiv 2205.05198); embedding and head once; the head also gathers its logits where the loss
    is not split.
    """
    if split.tp == 1:
        return 0.0
    activation_bytes = boundary_bytes(shape, numerics, split)
    once_ms = all_reduce_ms(chip_class, split.tp, activation_bytes)
    if 0 <= unit < shape.num_layers:
        return 2 * once_ms
    if unit < 0:
        return once_ms
    # A module for multi-token prediction has a layer and a head.
    inside_ms = once_ms + shape.mtp_modules * 3 * once_ms
    if numerics.split_logits:
        return inside_ms
    logits_bytes = (1 + shape.mtp_modules) * split.tokens * shape.vocab_size * numerics.compute_bytes
    # Gathering is half of an all-reduce, and only forward pays it: half of that in each direction.
    return inside_ms + all_reduce_ms(chip_class, split.tp, logits_bytes) / 4


def context_ms(shape: ModelShape, numerics: Numerics, chip_class: ChipClass, unit: int, split: Split) -> float:
    """Time the ring that passes keys and values around a CP group, one pass (Ring Attention, arXiv 2310.01889).

    Forward takes one pass; backward two, for gradients of keys and values travel with them.
    """
    layers = layers_of(shape, unit)
    if split.cp == 1 or not layers:
        return 0.0
    kv_heads = shape.num_heads if shape.latent else max(shape.num_kv_heads, split.tp)
    block_bytes = split.tokens * kv_heads * (shape.head_dim + shape.value_dim) * numerics.compute_bytes / split.tp
    rate, delay_ms = _edge(chip_class, split.tp * split.cp)
    return layers * (split.cp - 1) * (_sent_ms(block_bytes, rate) + delay_ms)


def expert_ms(shape: ModelShape, numerics: Numerics, chip_class: ChipClass, unit: int, split: Split) -> float:
    """Time the two all-to-alls that take tokens to their experts and back, one direction of a unit.

    Every rank sends each token's copy to each of its experts, spread evenly. What stays in the node goes over the
    scale-up link while the rest goes over the network.
    """
    layers = layers_of(shape, unit)
    if split.ep == 1 or not layers or not shape.experts or not shape.has_experts(min(unit, shape.num_layers - 1)):
        return 0.0
    share = split.tp if split.sequence_parallel else 1
    sent_bytes = split.tokens * shape.experts.per_token * shape.hidden_size * numerics.compute_bytes / share
    inner = split.tp * split.cp
    near = min(split.ep, max(1, chip_class.chips_per_node // inner))
    inside_ms = _sent_ms(sent_bytes * (near - 1) / split.ep, scale_up_gbytes_s(chip_class)) + SCALE_UP_ONE_WAY_MS
    if near == split.ep:
        return 2 * layers * inside_ms
    rate = chip_gbps(chip_class) / BITS_PER_BYTE
    return 2 * layers * max(inside_ms, _sent_ms(sent_bytes * (split.ep - near) / split.ep, rate) + SITE_ONE_WAY_MS)


def layers_of(shape: ModelShape, unit: int) -> int:
    """Count the layers in a unit: one, none in the embedding, and in the head those that predict further tokens."""
    if unit < 0:
        return 0
    return 1 if unit < shape.num_layers else shape.mtp_modules


def passed_ms(chip_class: ChipClass, stride: int, shards: int, sent_bytes: float) -> float:
    """Time a gather among so many ranks, or a scatter, as a ring in which each sends so many bytes.

    stride: ranks of a node that go round other rings: members lie so many chips apart. A collective library sends over
    the ports of all members in a node at once, so where members are in several nodes the ring has all those ports
    (nccl-tests, PERFORMANCE.md: bus bandwidth); few of its edges leave a node.
    """
    if shards == 1 or sent_bytes <= 0:
        return 0.0
    near = min(shards, max(1, chip_class.chips_per_node // stride))
    rate, nodes = scale_up_gbytes_s(chip_class), -(-shards // near)
    if nodes == 1:
        return _sent_ms(sent_bytes, rate) + (shards - 1) * SCALE_UP_ONE_WAY_MS
    ports = chip_gbps(chip_class) / BITS_PER_BYTE * near
    delay_ms = (nodes - 1) * SITE_ONE_WAY_MS + (shards - nodes) * SCALE_UP_ONE_WAY_MS
    return _sent_ms(sent_bytes, min(rate, ports) if near > 1 else ports) + delay_ms


def _edge(chip_class: ChipClass, span: int) -> tuple[float, float]:
    """Give the slowest edge of a ring whose group lies within so many chips: 10^9 bytes/s, and its delay."""
    if span <= chip_class.chips_per_node:
        return scale_up_gbytes_s(chip_class), SCALE_UP_ONE_WAY_MS
    return chip_gbps(chip_class) / BITS_PER_BYTE, SITE_ONE_WAY_MS


def _sent_ms(payload_bytes: float, gbytes_s: float) -> float:
    """Time bytes on a wire; one that carries nothing takes forever."""
    if payload_bytes <= 0:
        return 0.0
    return payload_bytes / (gbytes_s * 1e6) if gbytes_s > 0 else float("inf")
