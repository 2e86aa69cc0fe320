"""What every route needs: the service, and who asks.

Must not know any route.
"""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, TypeVar

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from argosy.server.api.problems import ForbiddenError
from argosy.server.dryrun import Tryout
from argosy.server.facts import Facts
from argosy.server.jobs import Intake
from argosy.server.loop import Along, Question, wall_us
from argosy.server.ranklogs import RankLogs
from argosy.server.service import Service
from argosy.server.tokens import Holder, audited, holder_of

T = TypeVar("T")
BEARER = HTTPBearer(auto_error=False, description="A token of `argosy token create`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """What routes work with."""

    service: Service
    intake: Intake
    tryout: Tryout
    facts: Facts
    ranklogs: RankLogs
    started_us: int

    async def ask(self, question: Question[T]) -> T:
        """Ask the committed state."""
        return await asyncio.wrap_future(self.service.loop.ask(question))


async def office_of(request: Request) -> Office:
    """Give what routes work with."""
    found: Office = request.app.state.office
    return found


Here = Annotated[Office, Depends(office_of)]


async def holder(here: Here, shown: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)] = None) -> Holder:
    """Find who asks; nobody without a token gets further."""
    found = holder_of(here.service.store, shown.credentials) if shown is not None else None
    if found is None or found.role == "join":
        text = "no token was sent" if shown is None else "this token is unknown or was taken back"
        if found is not None:
            text = "a join token lets machines in, and opens nothing else"
        raise HTTPException(HTTPStatus.UNAUTHORIZED, f"{text}; send Authorization: Bearer TOKEN, or set ARGOSY_TOKEN")
    return found


Who = Annotated[Holder, Depends(holder)]


async def admin(who: Who) -> Holder:
    """Let administrators through."""
    if not who.is_admin:
        raise ForbiddenError(f"{who.name} is no administrator; ask one, or use an administrator's token")
    return who


Admin = Annotated[Holder, Depends(admin)]


def noting(who: Holder, deed: str, about: str, text: str = "") -> Along:
    """Write who did what into the audit log, in the same commit."""
    rows = [audited(wall_us(), who.name, deed, about, text)]
    return lambda _state, _record: rows
