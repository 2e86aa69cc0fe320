"""All routes for people, put together as one FastAPI app that describes itself at /v1/openapi.json."""

from fastapi import FastAPI

from argosy import __version__
from argosy.server.api import events, fleet, jobs, logs, people, problems
from argosy.server.api.office import Office

DESCRIPTION = "Hand jobs in, watch them, see why. Times are microseconds since 1970; errors are problem+json."


def make_api(office: Office | None) -> FastAPI:
    """Make the API for people; without an office it only describes itself."""
    api = FastAPI(
        title="Argosy",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    problems.install(api)
    for router in (jobs.ROUTER, logs.ROUTER, fleet.ROUTER, people.ROUTER, events.ROUTER):
        api.include_router(router)
    api.state.office = office
    return api
