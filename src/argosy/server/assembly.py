"""A whole server put together: service, what routes work with, and the HTTP app."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from argosy.server.api.office import Office
from argosy.server.app import App
from argosy.server.dryrun import Tryout
from argosy.server.facts import Facts
from argosy.server.heart import Heart
from argosy.server.jobs import Intake
from argosy.server.ranklogs import RankLogs
from argosy.server.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A server without its socket."""

    service: Service
    app: App


def assemble(heart: Heart, folder: Path) -> Whole:
    """Put a server together around its heart."""
    service = Service(heart)
    store, loop = heart.store, heart.loop
    intake = Intake(
        store,
        loop,
        folder,
        heart.planning.config_of,
        chips=lambda: service.front.hosts.ground.chips,
        to_plan=lambda: heart.offers.waiting,
    )
    office = Office(
        service=service,
        intake=intake,
        tryout=Tryout(heart, partial(intake.read, tried=True)),
        facts=Facts(store, loop, service.front),
        ranklogs=RankLogs(store, loop, service.front),
        started_us=time.time_ns() // 1000,
    )
    return Whole(service=service, app=App(office))
