"""A server's folder and socket: what lies where, who may read it, and that one server uses it at a time.

Command line and client find a running server by its card here. Must not know what a server does.
"""

import errno
import fcntl
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from argosy.contracts.errors import BadInputError, InfrastructureError

CARD_NAME = "server.json"
TOKEN_NAME = "token"
JOIN_NAME = "join-token"
LOCK_NAME = "lock"
LOG_NAME = "server.log"
BACKLOG = 4096
SERVER_VARIABLE, TOKEN_VARIABLE = "ARGOSY_SERVER", "ARGOSY_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a running server says of itself to those who may read its folder."""

    url: str
    pid: int


def default_folder() -> Path:
    """Name a server's folder: $ARGOSY_STATE, else argosy/server in $XDG_STATE_HOME or ~/.local/state."""
    named = os.environ.get("ARGOSY_STATE")
    base = os.environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(named) if named else Path(base) / "argosy" / "server"


def make_folder(folder: Path) -> None:
    """Make a folder that only this user can enter. Raises InfrastructureError."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InfrastructureError(f"can't make the folder {folder}: {error.strerror}") from error


def take_lock(folder: Path) -> BinaryIO:
    """Have a folder for this process alone, as long as the file is open. Raises InfrastructureError."""
    try:
        file = (folder / LOCK_NAME).open("ab")
    except OSError as error:
        raise InfrastructureError(f"can't write in {folder}: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise InfrastructureError(f"a server runs in {folder} already; `argosy status` shows it") from error
    return file


def is_used(folder: Path) -> bool:
    """Say whether a server uses a folder now; its card may be that of one that was killed."""
    try:
        with (folder / LOCK_NAME).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def listen(host: str, port: int) -> socket.socket:
    """Open the socket. Raises BadInputError for what is no address of this host, InfrastructureError if it is taken."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise BadInputError(f"--listen {host}: no address of this machine; write one, such as 127.0.0.1") from error
        text = f"can't listen at {host}:{port}: {error.strerror}"
        raise InfrastructureError(f"{text}; another server may run there, --listen chooses another port") from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Say where a socket is reached from this host."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def write_card(folder: Path, card: Card) -> None:
    """Tell where the server is."""
    write_secret(folder / CARD_NAME, json.dumps({"url": card.url, "pid": card.pid}))


def read_card(folder: Path) -> Card | None:
    """Find out where the server is; None where none runs."""
    try:
        found = json.loads((folder / CARD_NAME).read_text(encoding="utf-8"))
        return Card(url=str(found["url"]), pid=int(found["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_secret(path: Path, text: str) -> None:
    """Write a file that only this user can read, whole or not at all. Raises InfrastructureError."""
    partial = path.with_name(f".{path.name}.new")
    try:
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        partial.replace(path)
    except OSError as error:
        raise InfrastructureError(f"{path}: can't be written: {error.strerror}") from error


def read_secret(path: Path) -> str:
    """Read such a file; empty where it is not."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server is, and what opens it. folder: where both were found, if they were."""

    url: str
    token: str
    folder: Path | None = None


def find_address(url: str = "", token: str = "", folder: Path | None = None) -> Address:
    """Find the server: what is given, else $ARGOSY_SERVER and $ARGOSY_TOKEN, else the service of this host.

    The token of this host's service goes to no other address than that service's own.
    Raises InfrastructureError where none is known, BadInputError for what is no address or token.
    """
    url = url or os.environ.get(SERVER_VARIABLE, "")
    token = token or os.environ.get(TOKEN_VARIABLE, "")
    place = folder or default_folder()
    card = read_card(place)
    if not url:
        if card is None:
            raise InfrastructureError(
                f"no service runs in {place}; `argosy up` begins one, {SERVER_VARIABLE} names one elsewhere"
            )
        url = card.url
    url = url.rstrip("/")
    if not token and card is not None and url == card.url:
        token = read_secret(place / TOKEN_NAME)
    check_address(url, token)
    return Address(url=url, token=token, folder=place)


def check_address(url: str, token: str) -> None:
    """Raise BadInputError for what can be no server's URL, or no token; the token itself is not repeated."""
    try:
        found = urlsplit(url)
        good = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:
        good = False
    if not good or not url.isprintable() or " " in url:
        raise BadInputError(f"server: got {url!r}; write a URL such as http://127.0.0.1:7070")
    if not (token.isascii() and token.isprintable()):
        raise BadInputError(f"{TOKEN_VARIABLE}: a token has letters, digits, dashes and underscores alone")
