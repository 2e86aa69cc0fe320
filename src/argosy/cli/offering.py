"""What the service plans with: models read, and the planner asked, in the planner's own process.

Loads the planner by name and there alone: the server itself need not carry it. Must not know the service.
"""

from importlib import import_module

from argosy.contracts.errors import BadInputError
from argosy.contracts.explain import nearest
from argosy.model.config import read_config
from argosy.model.named import config_text, named_configs
from argosy.model.shape import trainer_refusal
from argosy.plan.offering import Offering
from argosy.server.planning import Ask

GIVEN = "the model's config.json"
WORKER = "argosy.cli.offering_work"


def offer(ask: Ask) -> Offering:
    """Find the options of a training job. Raises NeverFitsError, BadInputError."""
    found: Offering = import_module(WORKER).offer(ask)
    return found


def warm() -> None:
    """Load the planner before it is needed."""
    import_module(WORKER)


def config_of(model: str, text: str) -> str:
    """Give the checked text of a model's config.json: the one that was handed in, else that of a named one.

    Raises BadInputError for a path, which the server does not read, and for a model that the trainer does not run.
    """
    if not text:
        if model not in named_configs():
            near = nearest(model, named_configs())
            hint = f"did you mean {near[0]}? " if near else ""
            raise BadInputError(f"model: no named model {model!r}; {hint}A file's text goes in model_config_text")
        text = config_text(model)[0]
    refusal = trainer_refusal(read_config(text, GIVEN))
    if refusal:
        raise BadInputError(f"model: {refusal}")
    return text
