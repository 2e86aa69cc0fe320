"""Routes of tokens, of who did what, of chip-hours, and of the service itself."""

import asyncio
import os
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query

from argosy import __version__
from argosy.server import books, tokens, views
from argosy.server.api.office import Admin, Here, Who
from argosy.server.api.problems import RESPONSES, NotFoundError
from argosy.server.loop import wall_us
from argosy.server.models import AuditRow, HoursReport, Status, TokenView, TokenWish

ROUTER = APIRouter(prefix="/v1", responses=RESPONSES)
TIME_US_MAX = 10**17


@ROUTER.get("/status", tags=["service"], operation_id="status")
async def status(here: Here, _who: Who) -> Status:
    """Say how the service is."""
    counts, term, seq = await here.ask(lambda state: (views.counts(state), state.term, state.seq))
    jobs, nodes, chips, held = counts
    return Status(
        version=__version__,
        pid=os.getpid(),
        term=term,
        seq=seq,
        now_us=wall_us(),
        started_us=here.started_us,
        fleet=here.service.front.hosts.ground.fleet,
        jobs=jobs,
        nodes=nodes,
        chips=chips,
        chips_held=held,
        waiting=here.service.loop.waiting,
        trouble=here.service.loop.trouble,
    )


@ROUTER.get("/report", tags=["service"], operation_id="report")
async def report(
    here: Here,
    _who: Who,
    from_us: Annotated[int, Query(ge=0, le=TIME_US_MAX)] = 0,
    to_us: Annotated[int | None, Query(ge=0, le=TIME_US_MAX)] = None,
) -> HoursReport:
    """Count chip-hours by queue and user."""
    now_us = wall_us()
    return await asyncio.to_thread(books.hours, here.service.store, from_us, now_us if to_us is None else to_us, now_us)


@ROUTER.get("/tokens", tags=["tokens"], operation_id="list_tokens")
async def list_tokens(here: Here, _who: Admin) -> list[TokenView]:
    """List tokens, without their secrets."""
    return await asyncio.to_thread(books.token_views, here.service.store)


@ROUTER.post("/tokens", status_code=HTTPStatus.CREATED, tags=["tokens"], operation_id="create_token")
async def create_token(here: Here, who: Admin, wish: TokenWish) -> TokenView:
    """Make a token; its secret is told now and never again."""
    now_us = wall_us()
    made = tokens.issue(wish.owner, wish.role, now_us)
    note = tokens.audited(now_us, who.name, "token.created", made.id, f"{wish.role} {wish.owner}")
    await asyncio.wrap_future(here.service.loop.write(made.statement, note))
    return TokenView(id=made.id, owner=wish.owner, role=wish.role, created_us=now_us, secret=made.secret)


@ROUTER.delete("/tokens/{name}", tags=["tokens"], operation_id="revoke_token")
async def revoke_token(here: Here, who: Admin, name: str) -> TokenView:
    """Take a token back; it opens nothing from now on."""
    now_us = wall_us()
    if all(token.id != name for token in await list_tokens(here, who)):
        raise NotFoundError(f"no token {name}; `argosy token list` lists them")
    note = tokens.audited(now_us, who.name, "token.revoked", name)
    await asyncio.wrap_future(here.service.loop.write(tokens.revoke(name, now_us), note))
    return next(token for token in await list_tokens(here, who) if token.id == name)


@ROUTER.get("/audit", tags=["tokens"], operation_id="audit")
async def audit(
    here: Here,
    _who: Admin,
    before: Annotated[int, Query(ge=0, lt=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> list[AuditRow]:
    """List who did what, newest first."""
    return await asyncio.to_thread(books.audit_rows, here.service.store, before, limit)
