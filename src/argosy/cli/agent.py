"""`argosy agent`: the agent of this host, which runs what a server gives it, until it is ended.

Finds out what the host has, since the agent itself knows no catalogue.
"""

import logging
import os
import re
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from argosy import __version__
from argosy.agent.host import gloo_environment, host_facts
from argosy.agent.service import AgentOptions, Service
from argosy.agent.warm import can_train, default_folder
from argosy.contracts.errors import BadInputError
from argosy.contracts.talk import JOIN_VARIABLE, ChipsFound, HostFacts
from argosy.fleet.catalogue import Catalogue, load_catalogue
from argosy.fleet.detect import survey


def command(
    join: Annotated[str, typer.Option("--join", metavar="URL", help="The server, such as http://HOST:7070.")],
    token: Annotated[
        str, typer.Option(help=f"A join token; by default ${JOIN_VARIABLE}. Needed the first time only.")
    ] = "",
    node: Annotated[str, typer.Option(help="This node's name in the fleet; by default the server chooses.")] = "",
    state: Annotated[Path | None, typer.Option(help="The agent's folder: key, ranks, logs.")] = None,
    address: Annotated[str, typer.Option(help="Where other nodes reach this one; by default as the server does.")] = "",
    site: Annotated[str, typer.Option(help="The site that this host stands in.")] = "",
    chips: Annotated[
        list[str] | None, typer.Option(metavar="NxCHIP", help="What it has, such as 8xh800-sxm; by default detected.")
    ] = None,
    catalogue: Annotated[Path | None, typer.Option(help="A file that adds chips or replaces figures.")] = None,
    fork_folder: Annotated[
        Path | None, typer.Option(help="Folder of the fork server, which agents of one host may share.")
    ] = None,
    warm: Annotated[bool, typer.Option("--warm/--cold", help="Keep torch loaded for ranks to come.")] = True,
) -> None:
    """Run the agent of this host: it joins a server, reports what it has, and starts and stops ranks."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    facts = host_facts(find_facts(chips or [], site, load_catalogue(catalogue)), server=join, address=address)
    service = Service(
        AgentOptions(
            server=join.rstrip("/"),
            state=state or default_state(),
            facts=facts,
            fork_folder=fork_folder or default_folder(),
            fork_environment=gloo_environment(facts.address),
            token=token or os.environ.get(JOIN_VARIABLE, ""),
            node=node,
            warm=warm and can_train(),
        )
    )
    logging.getLogger("argosy.agent").info("node %s of %s", service.identity.node, join)
    code = service.run()
    if code:
        raise typer.Exit(code)


def default_state() -> Path:
    """Name the agent's folder: argosy/agent in $XDG_STATE_HOME or ~/.local/state."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(base) / "argosy" / "agent"


def find_facts(chips: list[str], site: str, catalogue: Catalogue) -> HostFacts:
    """Say what this host has: the chips named, else those detected. Raises BadInputError for unknown chips."""
    known = HostFacts(hostname="", boot_id="", site=site, argosy=__version__)
    if chips:
        return msgspec.structs.replace(known, chips=read_chips(chips, catalogue))
    groups = survey(catalogue).fleet.nodes
    found = tuple(ChipsFound(chip=group.chip, count=group.chips_per_node) for group in groups)
    nics = next((group.nics for group in groups if group.nics is not None), None)
    return msgspec.structs.replace(known, chips=found, nics=nics)


def read_chips(texts: list[str], catalogue: Catalogue) -> tuple[ChipsFound, ...]:
    """Read `8xh800-sxm`. Raises BadInputError."""
    found = []
    for text in texts:
        match = re.fullmatch(r"([1-9][0-9]{0,4})x(\S+)", text)
        if match is None:
            raise BadInputError(f"--chips {text}: write a number and a chip, such as 8xh800-sxm")
        found.append(ChipsFound(chip=catalogue.chip(match[2]).name, count=int(match[1])))
    return tuple(found)
