"""The planner's side of `cli.offering`: from a job and a fleet to what the job is offered."""

from argosy.contracts.errors import BadInputError
from argosy.contracts.job import Job
from argosy.model.config import read_config
from argosy.plan.offering import Offering
from argosy.plan.options import options_for
from argosy.server.planning import Ask

GIVEN = "the model's config.json"


def offer(ask: Ask) -> Offering:
    """Find the options of a training job. Raises NeverFitsError, BadInputError."""
    if not isinstance(ask.job, Job):
        raise BadInputError(f"{ask.job.name}: a job of kind {ask.job.kind} is not planned")
    return options_for(
        ask.job,
        read_config(ask.config, GIVEN),
        ask.ground.classes,
        ask.ground.long_links,
        job_id=ask.job_id,
        fleet=ask.ground.fleet,
    )
