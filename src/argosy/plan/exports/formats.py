"""The frameworks that plans can be exported to, by name.

Chooses an exporter; it must not know what any of them writes.
"""

from collections.abc import Callable, Mapping

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.exports.flagscale import check_flagscale, export_flagscale
from argosy.plan.exports.megatron import check_megatron, export_megatron
from argosy.plan.exports.torchtitan import check_torchtitan, export_torchtitan
from argosy.plan.forms import find_named

Exporter = Callable[[Plan, ModelShape, Mapping[str, str] | None], str]

FORMATS: Mapping[str, Exporter] = {
    "megatron": export_megatron,
    "torchtitan": export_torchtitan,
    "flagscale": export_flagscale,
}
"""Name -> exporter of a plan, its model's shape and the vendors of its classes."""


MODELS: Mapping[str, Callable[[ModelShape, int], object]] = {
    "megatron": check_megatron,
    "torchtitan": check_torchtitan,
    "flagscale": check_flagscale,
}
"""Name -> what refuses a model, in sequences of so many tokens, that the framework runs by no plan."""


def check_model(name: str, shape: ModelShape, sequence_length: int) -> None:
    """Refuse a model that a framework can't run, whatever the plan; raises BadInputError with the reason."""
    MODELS[name](shape, sequence_length)


def runs_model(name: str, shape: ModelShape, sequence_length: int) -> bool:
    """Tell whether a framework can run a model by some plan."""
    try:
        check_model(name, shape, sequence_length)
    except BadInputError:
        return False
    return True


def find_exporter(name: str) -> Exporter:
    """Find an exporter by its name; raises BadInputError with the nearest."""
    return find_named(name, FORMATS, f"no export {name!r}")
