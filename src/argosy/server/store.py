"""Everything that must outlive the server, in one SQLite file: the log, what users handed in, who may come in.

One connection writes, and only the loop's thread uses it: many events share one commit. Readers have connections of
their own. It knows tables and bytes; it must not know what a record says.
"""

import contextlib
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from argosy.contracts.errors import BadInputError, InfrastructureError

VERSION = 2
LOG_KEPT = 50_000
"""How many records stay behind the snapshot that covers them, for stories and for readers who were away."""
BUSY_S = 10.0
SERVICE_BYTES = 8

Statement = tuple[str, tuple[Any, ...]]
"""One write: SQL with its values."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, line BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS snapshot (seq INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS job (
    id TEXT PRIMARY KEY, seq INTEGER NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, at_us INTEGER NOT NULL,
    document BLOB NOT NULL, source TEXT NOT NULL, model_config TEXT NOT NULL, bundle TEXT NOT NULL, key TEXT,
    digest TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS job_key ON job (owner, key) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS job_name ON job (name);
CREATE TABLE IF NOT EXISTS offering (
    job TEXT NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (job, number));
CREATE TABLE IF NOT EXISTS attempt (
    id TEXT NOT NULL, generation INTEGER NOT NULL, job TEXT NOT NULL, queue TEXT NOT NULL, owner TEXT NOT NULL,
    nodes TEXT NOT NULL, chips INTEGER NOT NULL, began_us INTEGER NOT NULL, running_us INTEGER, ended_us INTEGER,
    wait_us INTEGER NOT NULL, foretold_us INTEGER, price_per_hour REAL, ranks TEXT, predicted TEXT, measured TEXT,
    PRIMARY KEY (id, generation)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS attempt_job ON attempt (job);
CREATE TABLE IF NOT EXISTS forecast (job TEXT PRIMARY KEY, wait_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS untold (about TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS agent (
    node TEXT PRIMARY KEY, hash TEXT NOT NULL, facts BLOB NOT NULL, at_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS token (
    id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, role TEXT NOT NULL, at_us INTEGER NOT NULL,
    revoked_us INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at_us INTEGER NOT NULL, who TEXT NOT NULL, deed TEXT NOT NULL,
    about TEXT NOT NULL, text TEXT NOT NULL);
"""


class Store:
    """One file of the service. Raises InfrastructureError where it can't be read, BadInputError for another version."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._readers = threading.local()
        with told_of(path):
            # Made before SQLite does, so that nobody else can read it for a moment.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._file = _identity(path)
            self._writer = self._open()
            self._writer.executescript(SCHEMA)
        found = self.about("version")
        if not found:
            begun = [("version", str(VERSION)), ("service", secrets.token_hex(SERVICE_BYTES))]
            self.commit((), [put_about(name, value) for name, value in begun])
        elif found != str(VERSION):
            raise BadInputError(f"{path} is of version {found}; this Argosy reads version {VERSION}")

    def commit(self, lines: Iterable[tuple[int, bytes]], statements: Iterable[Statement] = ()) -> None:
        """Append lines of the log by their numbers and carry out writes: all or nothing, on disk when it returns."""
        with told_of(self.path):
            self._see()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                self._writer.executemany("INSERT INTO log VALUES (?, ?)", lines)
                for sql, values in statements:
                    self._writer.execute(sql, values)
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def renew(self) -> None:
        """Make it another service's, which agents join anew: this copy does not know what they did since it was made.

        Numbers of jobs and terms come again, and an agent would take the former ones' ends for those of the new ones.
        """
        void: Statement = ("UPDATE agent SET hash = 'void ' || node WHERE hash != ''", ())
        self.commit((), [put_about("service", secrets.token_hex(SERVICE_BYTES)), void])

    def probe(self) -> None:
        """Write something without meaning. Raises InfrastructureError where nothing can be written."""
        self.commit((), [put_about("tried", "")])

    def keep(self, seq: int, data: bytes) -> None:
        """Keep a snapshot that covers the log up to seq, and drop what is no longer needed."""
        statements: list[Statement] = [
            ("INSERT OR REPLACE INTO snapshot VALUES (?, ?)", (seq, data)),
            ("DELETE FROM snapshot WHERE seq < ?", (seq,)),
            ("DELETE FROM log WHERE seq <= ?", (seq - LOG_KEPT,)),
        ]
        self.commit((), statements)

    def recall(self) -> tuple[bytes | None, list[bytes]]:
        """Give the newest snapshot and the lines after it."""
        found = self.read("SELECT seq, data FROM snapshot ORDER BY seq DESC LIMIT 1")
        covered, data = found[0] if found else (0, None)
        lines = self.read("SELECT line FROM log WHERE seq > ? ORDER BY seq", (covered,))
        return data, [line for (line,) in lines]

    def lines_after(self, seq: int, limit: int) -> list[bytes]:
        """Give lines of the log that come after a number, at most `limit`."""
        rows = self.read("SELECT line FROM log WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit))
        return [line for (line,) in rows]

    def about(self, name: str) -> str:
        """Give a fact about the whole service, empty where there is none."""
        rows = self.read("SELECT value FROM about WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else ""

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Ask from any thread; sees what was committed."""
        with told_of(self.path):
            self._see()
            connection = getattr(self._readers, "connection", None)
            if connection is None:
                connection = self._readers.connection = self._open()
            return list(connection.execute(sql, values).fetchall())

    @property
    def service(self) -> str:
        """Id of this service: another store is another service, which knows nothing of what this one began."""
        return self.about("service")

    def close(self) -> None:
        """Close the writer; readers end with their threads."""
        self._writer.close()

    def _see(self) -> None:
        """Raise OSError where the file is gone: SQLite would go on in what nobody finds again."""
        if _identity(self.path) != self._file:
            raise OSError("another file took its place")

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection


def _identity(path: Path) -> tuple[int, int]:
    """Tell a file from others that may come to have its path."""
    found = path.stat()
    return found.st_dev, found.st_ino


def put_about(name: str, value: str) -> Statement:
    """Write down a fact about the whole service."""
    return ("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))


@contextlib.contextmanager
def told_of(path: Path) -> Iterator[None]:
    """Turn what SQLite and the file system say into an error that names the file and what to do."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        text = f"{path}: the service's store can't be used: {error}"
        full = "full" in str(error)
        raise InfrastructureError(text + ("; free space on its disk" if full else "")) from error
