"""The route of events as they come: server-sent, resumable by id.

A reader that is slow holds up nobody: events lie once for all, and each reader's place is a number.
"""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from argosy.server.api.finding import may_read
from argosy.server.api.office import Here, Who
from argosy.server.api.problems import RESPONSES
from argosy.server.models import EventView, OwnEvent
from argosy.server.tokens import Holder

ROUTER = APIRouter(prefix="/v1", responses=RESPONSES)
PATIENCE_S = 10.0
"""How often a reader that has nothing to read is told that the connection lives."""


@ROUTER.get("/events", tags=["service"], operation_id="events", response_class=StreamingResponse)
async def events(
    here: Here,
    request: Request,
    who: Who,
    last_event_id: Annotated[str, Header(max_length=64)] = "",
    after: Annotated[str, Query(max_length=64, description="As Last-Event-ID; 0 for all that is kept.")] = "",
) -> StreamingResponse:
    """Stream what happens as server-sent events; each carries an id, from which a reader goes on."""

    async def body() -> AsyncIterator[str]:
        async for event in here.service.feed.follow(last_event_id or after, PATIENCE_S):
            if await request.is_disconnected():
                return
            yield _sent(_for(who, event))

    return StreamingResponse(body(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _for(who: Holder, event: EventView | None) -> EventView | None:
    """Leave out what is for a job's owner alone."""
    hidden = isinstance(event, OwnEvent) and not may_read(who, event.owner)
    return event.model_copy(update={"text": ""}) if event is not None and hidden else event


def _sent(event: EventView | None) -> str:
    """Write an event as one of a stream."""
    if event is None:
        return ": still here\n\n"
    return f"id: {event.id}\nevent: {event.kind}\ndata: {event.model_dump_json()}\n\n"
