"""The HTTP app: the API for people under /v1, agents under /agent/v1, and nothing else.

Puts routes together; must not know what they do, nor which address is listened on.
"""

from starlette.types import Receive, Scope, Send

from argosy.server.api.agents import PREFIX, AgentsApp
from argosy.server.api.limits import Limits
from argosy.server.api.office import Office
from argosy.server.api.routes import make_api


class App:
    """Everything that is answered over HTTP."""

    def __init__(self, office: Office) -> None:
        service = office.service
        self._agents = AgentsApp(service.store, service.front, office.intake.bundles)
        self._people = Limits(make_api(office), ("/v1/bundles",))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            await self._agents(scope, receive, send)
        else:
            await self._people(scope, receive, send)
