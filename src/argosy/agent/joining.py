"""How an agent gets its key: once, by a join token; kept on its disk from then on."""

import logging
import time
from pathlib import Path

import msgspec

from argosy.agent.http import Courier, RefusedError
from argosy.agent.keys import Identity, read_identity, write_identity
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.talk import JOIN_PATH, HostFacts, JoinAnswer, JoinAsk, read_word, write_word

LOG = logging.getLogger("argosy.agent")
REPLY_S = 30.0
AGAIN_S = 1.0
SERVER_ERRORS = 500


class NotWantedError(InfrastructureError):
    """The server refuses this agent: its token, its node or its host."""


def join(
    server: str,
    state: Path,
    facts: HostFacts,
    *,
    token: str,
    node: str,
    patience_s: float,
    refused_key: str = "",
) -> Identity:
    """Give this agent's name and key at a server, joining it unless it did before.

    refused_key: one that the server doesn't know any more. Raises BadInputError without key and token, NotWantedError
    when the server refuses, InfrastructureError when it isn't there.
    """
    identity = read_identity(state)
    if identity.service and identity.key not in ("", refused_key) and identity.server == server:
        return identity
    if not token:
        raise BadInputError(f"this agent has no key of {server} yet; join it with --token TOKEN")
    answer = _ask(server, JoinAsk(token=token, agent=identity.agent, facts=facts, node=node), patience_s)
    joined = msgspec.structs.replace(identity, server=server, service=answer.service, node=answer.node, key=answer.key)
    try:
        write_identity(state, joined)
    except OSError as error:
        raise InfrastructureError(f"can't keep the key in {state}: {error.strerror}") from error
    return joined


def _ask(server: str, ask: JoinAsk, patience_s: float) -> JoinAnswer:
    """Join; a server that is not there yet is asked again until the patience ends."""
    deadline_s = time.monotonic() + patience_s
    courier = Courier(server, "")
    told = ""
    try:
        while True:
            try:
                return read_word(courier.post(JOIN_PATH, write_word(ask), REPLY_S), JoinAnswer)
            except InfrastructureError as error:
                if isinstance(error, RefusedError) and error.status < SERVER_ERRORS:
                    raise NotWantedError(str(error)) from error
                if time.monotonic() + AGAIN_S > deadline_s:
                    raise
                if str(error) != told:
                    told = str(error)
                    LOG.info("%s; asked again for up to %.0f s", told, deadline_s - time.monotonic())
            time.sleep(AGAIN_S)
    finally:
        courier.close()
