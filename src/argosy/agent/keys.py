"""What an agent keeps on its disk about itself: who it is, its node's name and the key that the server gave it.

Readable by its user alone; never written to a log.
"""

import secrets
from pathlib import Path

import msgspec

from argosy.agent.folder import make_folder, write_whole
from argosy.contracts.errors import BadInputError, InfrastructureError


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who this agent is. agent: drawn once. server: whose key it is. service: the id of its store."""

    agent: str
    server: str = ""
    service: str = ""
    node: str = ""
    key: str = ""


def read_identity(state: Path) -> Identity:
    """Read who this agent is, and draw it the first time. Raises InfrastructureError where the folder can't be used."""
    path = state / "identity"
    try:
        make_folder(state)
        if path.exists():
            return msgspec.json.decode(path.read_bytes(), type=Identity)
        identity = Identity(agent=secrets.token_hex(16))
        write_identity(state, identity)
        return identity
    except OSError as error:
        text = f"can't use the agent's folder {state}: {error.strerror}"
        raise InfrastructureError(f"{text}; --state names another") from error
    except msgspec.MsgspecError as error:
        raise InfrastructureError(f"{path} is damaged: {error}; remove it and join again") from error


def write_identity(state: Path, identity: Identity) -> None:
    """Keep it. Raises OSError."""
    write_whole(state / "identity", msgspec.json.encode(identity))


def server_of(state: Path) -> str:
    """Say at which server's URL an agent joined; empty where its folder tells none."""
    try:
        return msgspec.json.decode((state / "identity").read_bytes(), type=Identity).server
    except (OSError, msgspec.MsgspecError):
        return ""


def read_key(state: Path) -> str:
    """Read the key. Raises BadInputError before the agent joined."""
    key = read_identity(state).key
    if not key:
        raise BadInputError("this agent has no key yet; join a server with --join URL --token TOKEN")
    return key
