"""Who may come in: secrets that are shown once, kept as hashes, and can be taken back.

A secret says what it is for (`argosy-user-...`), so that one that leaks into a text is recognised. Must not know what
its holders do.
"""

import hashlib
import secrets
from dataclasses import dataclass

from argosy.contracts.errors import BadInputError
from argosy.server.store import Statement, Store

ROLES = ("admin", "user", "join")
"""admin: everything; user: own jobs; join: machines that come to the fleet, and nothing else."""
SECRET_BYTES = 24
SECRET_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Whoever showed a token. name: of a user."""

    token: str
    name: str
    role: str

    @property
    def is_admin(self) -> bool:
        """Whether everything is allowed."""
        return self.role == "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A new token. secret: shown now and never again; statement: what keeps it."""

    id: str
    secret: str
    statement: Statement


def issue(owner: str, role: str, now_us: int) -> Issued:
    """Make a token. Raises BadInputError for an owner or role that can't be."""
    if role not in ROLES:
        raise BadInputError(f"role: got {role!r}; write one of {', '.join(ROLES)}")
    if not owner.strip() or not owner.isprintable() or len(owner) > 63:
        raise BadInputError(f"owner: got {owner!r}; write a name of 1 to 63 characters")
    name, secret = f"t-{secrets.token_hex(4)}", f"argosy-{role}-{secrets.token_urlsafe(SECRET_BYTES)}"
    values = (name, digest(secret), owner, role, now_us)
    return Issued(
        id=name,
        secret=secret,
        statement=("INSERT INTO token (id, hash, owner, role, at_us) VALUES (?, ?, ?, ?, ?)", values),
    )


def holder_of(store: Store, secret: str) -> Holder | None:
    """Find who holds a secret; None for one that was never given or was taken back."""
    if len(secret) > SECRET_LENGTH_MAX:
        return None
    rows = store.read("SELECT id, owner, role FROM token WHERE hash = ? AND revoked_us IS NULL", (digest(secret),))
    return Holder(token=rows[0][0], name=rows[0][1], role=rows[0][2]) if rows else None


def revoke(token: str, now_us: int) -> Statement:
    """Take a token back."""
    return ("UPDATE token SET revoked_us = ? WHERE id = ? AND revoked_us IS NULL", (now_us, token))


def digest(secret: str) -> str:
    """Give what is kept of a secret; it has 192 bits of chance, so a plain hash can't be guessed back."""
    return hashlib.sha256(secret.encode()).hexdigest()


def audited(now_us: int, who: str, deed: str, about: str, text: str = "") -> Statement:
    """Write down who did what; never a secret."""
    values = (now_us, who, deed, about, text)
    return ("INSERT INTO audit (at_us, who, deed, about, text) VALUES (?, ?, ?, ?, ?)", values)
