"""What the sums of gradients over long links add to a step at least, before there is a draft.

Replicas apart that hold a layer in several sites sum its gradients across; over a slow link that is dearer than all
else, and without it the search would time nothing but such. Must not know how replicas are chosen.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from argosy.contracts.fleet import LongLink
from argosy.network.wires import BITS_PER_BYTE, MS_PER_GBIT
from argosy.plan.costs.links import ring_bytes, ring_crossing
from argosy.plan.costs.setting import Setting
from argosy.plan.costs.tables import gradient_sums
from argosy.plan.pipelines.templates import Template


def crossing_ms(setting: Setting, templates: Sequence[Template], links: Sequence[LongLink]) -> float:
    """Time what crosses sites of the gradients of replicas of these templates, but for what backward hides."""
    if len({site for template in templates for site in template.layout.sites}) == 1:
        return 0.0
    dense, experts = gradient_sums(setting)
    each: defaultdict[frozenset[str], float] = defaultdict(float)
    homes = zip(*(sites_of(template) for template in templates), strict=True)
    for sites, size_bytes in zip(homes, np.diff(dense + experts), strict=True):
        each[frozenset(sites)] += float(size_bytes)
    sent_ms = sum(sum_ms(sites, size_bytes, links) for sites, size_bytes in each.items())
    return max(0.0, sent_ms - max(sum(template.backward_ms) for template in templates))


def whole_crossing_ms(setting: Setting, sites: Iterable[str], links: Sequence[LongLink]) -> float:
    """Time the sums of all layers' gradients over sites that each hold them all."""
    return sum_ms(frozenset(sites), float(sum(one[-1] for one in gradient_sums(setting))), links)


def sites_of(template: Template) -> list[str]:
    """Give the site of each layer."""
    layout, cut = template.layout, template.cut
    stages = enumerate(zip(cut.starts, cut.ends, strict=True))
    homes = [(layout.places[layout.place_of(stage)].chip_class.site, end - start) for stage, (start, end) in stages]
    return [site for site, layers in homes for _ in range(layers)]


def sum_ms(sites: frozenset[str], size_bytes: float, links: Sequence[LongLink]) -> float:
    """Time one sum of each of these sites on its way round all of them; nothing for a single one."""
    if len(sites) < 2:
        return 0.0
    link, passes = ring_crossing(tuple(sorted(sites)), tuple(links))
    return ring_bytes(len(sites), size_bytes) * passes * BITS_PER_BYTE / (link.gbps * MS_PER_GBIT)
