"""The frameworks that plans can be exported to, by name.

Chooses an exporter; it must not know what any of them writes.
"""

from collections.abc import Callable, Mapping

from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.exports.flagscale import export_flagscale
from argosy.plan.exports.megatron import export_megatron
from argosy.plan.exports.torchtitan import export_torchtitan
from argosy.plan.forms import find_named

Exporter = Callable[[Plan, ModelShape, Mapping[str, str] | None], str]

FORMATS: Mapping[str, Exporter] = {
    "megatron": export_megatron,
    "torchtitan": export_torchtitan,
    "flagscale": export_flagscale,
}
"""Name -> exporter of a plan, its model's shape and the vendors of its classes."""


def find_exporter(name: str) -> Exporter:
    """Find an exporter by its name; raises BadInputError with the nearest."""
    return find_named(name, FORMATS, f"no export {name!r}")
