"""Routes of nodes, queues and the policy."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query

from argosy.contracts.event import IntentChanged, PolicyChanged
from argosy.server import views
from argosy.server.api.finding import node_number
from argosy.server.api.office import Admin, Here, Who, noting
from argosy.server.api.problems import RESPONSES
from argosy.server.loop import wall_us
from argosy.server.models import IntentWish, NodeView, PolicyText, QueueView
from argosy.server.rules import read_rules, refusal_in

ROUTER = APIRouter(prefix="/v1", tags=["fleet"], responses=RESPONSES)
NODES_MAX = 1_000


@ROUTER.get("/nodes", operation_id="list_nodes")
async def list_nodes(
    here: Here,
    _who: Who,
    start: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=NODES_MAX)] = 1_000,
) -> list[NodeView]:
    """List nodes in the order in which they came to the fleet."""
    nodes = await here.ask(lambda state: views.node_views(state, start, limit))
    return await here.facts.nodes(nodes)


@ROUTER.get("/nodes/{name}", operation_id="show_node")
async def show_node(here: Here, _who: Who, name: str) -> NodeView:
    """Show a node."""
    found = await here.ask(lambda state: views.node_view(state, node_number(state, name)))
    return (await here.facts.nodes((found,)))[0]


@ROUTER.post("/nodes/{name}/intent", operation_id="set_intent")
async def set_intent(here: Here, who: Admin, name: str, wish: IntentWish) -> NodeView:
    """Open a node, cordon it (what runs goes on, nothing new starts) or drain it (by a deadline, if one is given)."""
    await here.ask(lambda state: node_number(state, name))
    await asyncio.wrap_future(
        here.service.loop.send(
            IntentChanged,
            along=noting(who, wish.intent, name, wish.reason),
            nodes=(name,),
            intent=wish.intent,
            deadline_us=wish.by_us(wall_us()),
            by=who.name,
        )
    )
    return await show_node(here, who, name)


@ROUTER.delete("/nodes/{name}", operation_id="retire_node")
async def retire_node(here: Here, who: Admin, name: str) -> NodeView:
    """Strike a node out for good: its agent's key opens nothing any more, and what runs on it recovers elsewhere."""
    await here.ask(lambda state: node_number(state, name))
    await asyncio.to_thread(here.service.front.hosts.retire, name, who.name)
    return await show_node(here, who, name)


@ROUTER.get("/queues", operation_id="list_queues")
async def list_queues(here: Here, _who: Who) -> list[QueueView]:
    """List queues: what each owns, holds and borrows."""
    return await here.ask(views.queue_views)


@ROUTER.put("/queues", operation_id="set_queues")
async def set_queues(here: Here, who: Admin, wish: PolicyText) -> list[QueueView]:
    """Set the policy from the text of a queues.yaml; a queue that has jobs can't be left out."""
    policy = await asyncio.to_thread(read_rules, wish, here.service.front.hosts.ground)
    record = await asyncio.wrap_future(
        here.service.loop.send(PolicyChanged, along=noting(who, "policy", "fleet"), policy=policy)
    )
    refusal_in(record)
    return await here.ask(views.queue_views)
