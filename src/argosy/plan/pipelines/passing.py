"""What many pipelines alike but for their number and depth pass on, at once: gradients around rings, and activations.

Estimates before any layer is cut, in the arithmetic of the wires. Must not know which pipelines are worth having.
"""

import numpy as np
from numpy.typing import NDArray

from argosy.network.wires import BITS_PER_BYTE, MS_PER_GBIT, send_ms
from argosy.plan.costs.cost import payload_bytes
from argosy.plan.costs.curves import wire_efficiency
from argosy.plan.costs.links import port_gbps, scale_up_wire, site_wire
from argosy.plan.costs.setting import Setting
from argosy.plan.costs.tables import gradient_sums
from argosy.plan.pipelines.layouts import Layout, Run

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def ring_ms(setting: Setting, plain: Layout, run: Run, places: Integers, count: Integers) -> Floats:
    """Time the gradients of all layers around all who hold them, as `exposed.ring_factors` does for one layout."""
    chip_class, width = run.chip_class, plain.width(run)
    node, near = chip_class.chips_per_node, min(width, chip_class.chips_per_node)
    inside = (count * places * width <= node) | (chip_class.nodes == 1)
    ports = chip_class.nic_gbps * wire_efficiency(chip_class) * near / np.minimum(near * places, node)
    gbps = np.where(inside, scale_up_wire(chip_class, run.tp).gbps, ports)
    everywhere, own = count * plain.cp * plain.ep, count * plain.cp
    dense, experts = (float(sums[-1]) for sums in gradient_sums(setting))
    spread = max(1.0, run.tp * plain.ep / node)
    passed = 2 * (everywhere - 1) / everywhere * dense + 2 * (own - 1) / own * experts / spread
    sent_ms: Floats = passed * BITS_PER_BYTE / (np.maximum(gbps, 1e-300) * MS_PER_GBIT)
    return sent_ms


def hop_ms(setting: Setting, plain: Layout, run: Run, places: Integers) -> Floats:
    """Time activations from one place to the next of a run: the mean of boundaries inside nodes and between them."""
    chip_class, width = run.chip_class, plain.width(run)
    sent_bytes = payload_bytes(setting, plain.way(run))
    wires = site_wire("", port_gbps(chip_class)), scale_up_wire(chip_class, 1)
    between, inside = (send_ms(wire, sent_bytes) + wire.one_way_ms if wire.gbps > 0 else 0.0 for wire in wires)
    apart = np.where(places * width > chip_class.chips_per_node, min(1.0, width / chip_class.chips_per_node), 0.0)
    mean_ms: Floats = apart * between + (1 - apart) * inside
    return mean_ms
