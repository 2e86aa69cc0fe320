"""`argosy serve`: the service in the foreground; `argosy up` runs it in the background."""

import getpass
import logging
import os

from argosy.cli.offering import config_of, offer, warm
from argosy.cli.policy_file import policy_text
from argosy.cli.service_inputs import fleet_ground
from argosy.cli.up import (
    LISTEN,
    LOADED,
    AgentsOption,
    CatalogueOption,
    FleetOption,
    ListenOption,
    QueuesOption,
    RestoredOption,
    RetireOption,
    StateOption,
    folder_of,
    read_address,
)
from argosy.server.planning import Skills
from argosy.server.process import serve
from argosy.server.process_options import Options
from argosy.server.rules import read_rules

OWNER_VARIABLE = "ARGOSY_OWNER"


def command(
    fleet: FleetOption = None,
    queues: QueuesOption = None,
    state: StateOption = None,
    listen: ListenOption = LISTEN,
    catalogue: CatalogueOption = None,
    agents: AgentsOption = True,
    retire_missing: RetireOption = False,
    restored: RestoredOption = False,
) -> None:
    """Run the service in the foreground until Ctrl-C; jobs go on after it."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    host, port = read_address(listen)
    ground, here = fleet_ground(fleet, catalogue)
    policy = None if queues is None else read_rules(policy_text(queues), ground)
    logging.getLogger("argosy.server").info(LOADED)
    serve(
        Options(
            folder=folder_of(state),
            host=host,
            port=port,
            ground=ground,
            skills=Skills(offerer=offer, config_of=config_of, warm=warm),
            policy=policy,
            retire_missing=retire_missing,
            restored=restored,
            agents=here if agents else (),
            owner=os.environ.get(OWNER_VARIABLE) or getpass.getuser(),
            ready=lambda url: logging.getLogger("argosy.server").info("ready at %s", url),
        )
    )
