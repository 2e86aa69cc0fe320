"""Finding what a route names, in the state: clear when it is not there, or is another's."""

from argosy.control.state import JobState, State
from argosy.server.api.problems import ForbiddenError, NotFoundError
from argosy.server.tokens import Holder
from argosy.server.views import find_job


def own_job(state: State, name: str, who: Holder) -> JobState:
    """Find a job that is the asker's to look into and to end. Raises NotFoundError, ForbiddenError."""
    job = known_job(state, name, who)
    if not who.is_admin and job.claim.owner != who.name:
        raise ForbiddenError(f"{name} is {job.claim.owner or 'nobody'}'s job, not {who.name}'s")
    return job


def known_job(state: State, name: str, who: Holder) -> JobState:
    """Find a job, rather the asker's own than another's of the same name. Raises NotFoundError."""
    job = find_job(state, name, who.name)
    if job is None:
        raise NotFoundError(f"no job {name}; `argosy jobs --all` lists them")
    return job


def may_read(who: Holder, owner: str) -> bool:
    """Say whether somebody may read what a job's code wrote, and what was handed in."""
    return who.is_admin or owner == who.name


def node_number(state: State, name: str) -> int:
    """Find a node. Raises NotFoundError."""
    number = state.nodes.number.get(name)
    if number is None:
        raise NotFoundError(f"no node {name}; `argosy nodes` lists them")
    return number
