"""One registry file as an SQLite database: opening, migrating, transactions, and errors that say what to do.

Write-ahead logging, so that readers never wait for a writer; a busy timeout, so that writers queue; short explicit
transactions that take the write lock first (`BEGIN IMMEDIATE`), so that two of them cannot deadlock half-way.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from spade_envs.errors import SpadeError
from spade_registry import schema

BUSY_SECONDS = 30.0
"""How long a connection waits for another one's lock."""
VARIABLE = "SPADE_REGISTRY"


class RegistryError(SpadeError):
    """A registry file that cannot be used as it was asked."""


def default_path() -> Path:
    """The registry of this user: `SPADE_REGISTRY` where set, else `registry.db` in the user's data directory."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("spade-envs", appauthor=False)) / "registry.db"


def open_writable(path: Path) -> sqlite3.Connection:
    """Open a registry for reading and writing; create it, or migrate it after a backup, where needed.

    Raises `RegistryError` for a file that is not a registry, comes from a newer version, or cannot be written.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = _connect(f"file:{quote(str(path))}")
        try:
            _check(connection, path)
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")  # a commit that was acknowledged survives a power cut
            if _version(connection) < schema.VERSION:
                _migrate(connection, path)
            if not os.access(path, os.W_OK):
                raise sqlite3.OperationalError("attempt to write a readonly database")
        except BaseException:
            connection.close()
            raise
    return connection


def open_readonly(path: Path) -> sqlite3.Connection:
    """Open an existing registry for reading only; it works in a folder without write permission, too.

    Raises `RegistryError` where there is no such file, or it has another version than this release reads.
    """
    if not path.exists():
        raise RegistryError(f"there is no registry at {path}: name another with --registry or {VARIABLE}")
    with explained(path):
        try:
            connection = _connect(f"file:{quote(str(path))}?mode=ro")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # The folder cannot take the -shm file that write-ahead logging needs; without writers none is needed.
            connection = _connect(f"file:{quote(str(path))}?mode=ro&immutable=1")
        try:
            _check(connection, path)
            version = _version(connection)
            if version < schema.VERSION:
                raise RegistryError(
                    f"{path} has schema version {version} and is opened read-only; this release reads version "
                    f"{schema.VERSION}: open it for writing once (`spade-envs list --registry {path}`) to migrate it"
                )
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse what is not a registry of this version or an older one."""
    version = _version(connection)
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if tables and application != schema.APPLICATION_ID:
        raise RegistryError(f"{path} is an SQLite database but not a registry: choose another path; it was left alone")
    if version > schema.VERSION:
        raise RegistryError(
            f"{path} has schema version {version}, and this release of spade-envs reads up to {schema.VERSION}: "
            "upgrade spade-envs (pip install --upgrade spade-envs), or name another registry"
        )


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; the switch does not wait for other connections by itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to this release's version in one transaction; a file with content is copied first."""
    with transaction(connection):
        version = _version(connection)  # another process may have migrated it while this one waited for the lock
        if version >= schema.VERSION:
            return
        if version:
            _back_up(path, version)
        for migration in schema.MIGRATIONS[version:]:
            migration(connection)
        connection.execute(f"PRAGMA user_version = {schema.VERSION}")


def _back_up(path: Path, version: int) -> None:
    copy = path.with_name(f"{path.stem}.v{version}.{time.strftime('%Y%m%dT%H%M%S')}.backup{path.suffix}")
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
    except BaseException:
        copy.unlink(missing_ok=True)  # half a backup is worse than none
        raise


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do everything inside, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors, and the file system's, into `RegistryError`s that say what to do."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
        raise RegistryError(_explanation(path, str(error))) from error
    except UnicodeEncodeError as error:
        raise RegistryError(f"{error.object!r} is not valid Unicode text, and cannot be stored or looked up") from error
    except OverflowError as error:
        raise RegistryError("a whole number beyond 64 bits can be neither stored nor looked up") from error
    except OSError as error:
        raise RegistryError(f"the registry {path} cannot be opened: {error.strerror or error}") from error


def _explanation(path: Path, message: str) -> str:
    if "full" in message or "disk I/O" in message:
        return (
            f"the disk of the registry {path} is full or failing ({message}): nothing of the request was written; "
            "free some space and repeat it"
        )
    if "readonly" in message:
        return (
            f"the registry {path} is read-only: change its permissions, or name another with --registry or {VARIABLE}"
        )
    if "not a database" in message or "malformed" in message:
        return f"{path} is not an intact SQLite file ({message}): restore a copy, or name another registry"
    if "locked" in message:
        return f"the registry {path} was locked by another process for {BUSY_SECONDS:.0f} s: end that process or wait"
    if "unable to open" in message:
        return f"the registry {path} cannot be opened: check that its folder exists and can be written"
    return f"the registry {path} refused a request: {message}"
