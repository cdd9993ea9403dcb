"""Rows into a registry: each function writes one kind of thing on a connection whose transaction the caller owns."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from spade_envs.contract import CONTRACT_VERSION, MAX_SOURCE_BYTES, NAMESPACE, Program, is_win, normalise_source
from spade_envs.errors import ProgramError
from spade_registry.duplicates import fingerprint
from spade_registry.rows import Check, NewEnvironment, Origin, Play, digest, now
from spade_registry.store import RegistryError

OUTCOMES = ("won", "lost", "cut", "faulty", "timeout")
STATUSES = ("accepted", "rejected", "retired")


def as_program(given: Program | str, status: str) -> Program:
    """The program to store; a text without a class, or one that is too long, can be stored as rejected only."""
    if isinstance(given, Program):
        return given
    try:
        return Program.from_source(given)
    except ProgramError:
        if status != "rejected":
            raise
    data = normalise_source(given).encode("utf-8", "replace")[:MAX_SOURCE_BYTES]
    source = data.decode("utf-8", "ignore")
    return Program(source, hashlib.sha256(source.encode()).hexdigest(), "", "game")


def storable(text: str | None) -> str | None:
    """The text with a question mark for each lone surrogate: half a character, which a model may write, is no UTF-8."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def write_environment(
    connection: sqlite3.Connection, new: NewEnvironment, lookup: Callable[[str], int]
) -> tuple[int, str]:
    """Store a program once, and what is new about it; returns its row and its Gymnasium id.

    A program that is there already keeps its row: another origin and a new hint are added, a rejected one that is now
    accepted becomes accepted, and columns that were unknown are filled.
    """
    if new.status not in STATUSES:
        raise RegistryError(f"a status is one of {', '.join(STATUSES)}, not {new.status!r}")
    program = as_program(new.program, new.status)
    known = connection.execute("SELECT id, status FROM environments WHERE sha256 = ?", (program.sha256,)).fetchone()
    row = known[0] if known else _insert_environment(connection, program, new)
    if known:
        _complete_environment(connection, row, known[1], program, new)
    if new.checks and (not known or known[1] != new.status or not _has_checks(connection, row)):
        _write_checks(connection, row, new.checks)
    if new.hint:
        origin = new.origin or Origin()
        write_hint(
            connection,
            row,
            new.hint,
            author=new.hint_author,
            prompt_version=new.hint_prompt_version,
            leak=new.hint_leak,
            run=origin.run,
            step=origin.step,
        )
    if new.origin is not None:
        _write_origin(connection, row, new.origin, lookup)
    return row, program.id


def _insert_environment(connection: sqlite3.Connection, program: Program, new: NewEnvironment) -> int:
    tree = fingerprint(program.source) if new.status == "accepted" else None
    values = {
        "env_id": program.id,
        "name": program.name,
        "class_name": program.class_name,
        "sha256": program.sha256,
        "ast_sha256": tree,
        "duplicate_of": _first_with(connection, tree),
        "source": program.source,
        "kind": program.kind,
        "skill": new.skill,
        "status": new.status,
        "status_reason": storable(new.status_reason or _first_failure(new)),
        "max_turns": new.max_turns,
        "license": new.license,
        "observation": storable(new.observation),
        "created_at": now(),
    }
    cursor = connection.execute(
        f"INSERT INTO environments ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
        tuple(values.values()),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _first_with(connection: sqlite3.Connection, tree: str | None) -> int | None:
    if tree is None:
        return None
    found = connection.execute(
        "SELECT id FROM environments WHERE ast_sha256 = ? AND duplicate_of IS NULL ORDER BY id LIMIT 1", (tree,)
    ).fetchone()
    return found[0] if found else None


def _first_failure(new: NewEnvironment) -> str | None:
    failed = next((check for check in new.checks if not check.passed), None)
    return f"{failed.stage}: {failed.message}" if failed and new.status == "rejected" else None


def _complete_environment(
    connection: sqlite3.Connection, row: int, status: str, program: Program, new: NewEnvironment
) -> None:
    filled: dict[str, Any] = {
        "skill": new.skill,
        "max_turns": new.max_turns,
        "license": new.license,
        "observation": storable(new.observation),
    }
    before = connection.execute(f"SELECT {', '.join(filled)} FROM environments WHERE id = ?", (row,)).fetchone()
    changes: dict[str, Any] = {
        name: value
        for (name, value), old in zip(filled.items(), before, strict=True)
        if old is None and value is not None
    }
    if status == "rejected" and new.status == "accepted":
        tree = fingerprint(program.source)
        changes |= {"status": "accepted", "status_reason": None}
        changes |= {"ast_sha256": tree, "duplicate_of": _first_with(connection, tree)}
        connection.execute("DELETE FROM checks WHERE environment = ?", (row,))
    if changes:
        assignments = ", ".join(f"{name} = ?" for name in changes)
        connection.execute(f"UPDATE environments SET {assignments} WHERE id = ?", (*changes.values(), row))


def _has_checks(connection: sqlite3.Connection, row: int) -> bool:
    return connection.execute("SELECT 1 FROM checks WHERE environment = ? LIMIT 1", (row,)).fetchone() is not None


def _write_checks(connection: sqlite3.Connection, row: int, checks: Iterable[Check]) -> None:
    connection.executemany(
        "INSERT INTO checks (environment, stage, passed, message, warnings, seconds) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (
                row,
                c.stage,
                int(c.passed),
                storable(c.message),
                json.dumps(list(c.warnings)) if c.warnings else None,
                c.seconds,
            )
            for c in checks
        ],
    )


def write_hint(
    connection: sqlite3.Connection,
    environment: int,
    text: str,
    *,
    author: str | None = None,
    prompt_version: str | None = None,
    leak: str | None = None,
    run: int | None = None,
    step: int | None = None,
) -> int:
    """Store a hint of an environment, the same text once, and put the newest one that does not leak to use."""
    text = storable(text) or ""
    sha256 = digest(text)
    connection.execute(
        "INSERT INTO hints (environment, text, sha256, author, prompt_version, leak, run, step, created_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (environment, sha256) DO NOTHING",
        (environment, text, sha256, author, prompt_version, leak, run, step, now()),
    )
    row = connection.execute(
        "SELECT id FROM hints WHERE environment = ? AND sha256 = ?", (environment, sha256)
    ).fetchone()[0]
    refresh_hint(connection, environment)
    return int(row)


def refresh_hint(connection: sqlite3.Connection, environment: int) -> None:
    """Set `environments.hint` to the newest hint that passed the leak check."""
    connection.execute(
        "UPDATE environments SET hint = h.text "
        "FROM (SELECT max(id), text FROM hints WHERE environment = ?1 AND leak IS NULL) AS h "
        "WHERE environments.id = ?1 AND environments.hint IS NOT h.text",
        (environment,),
    )


def _write_origin(
    connection: sqlite3.Connection, environment: int, origin: Origin, lookup: Callable[[str], int]
) -> None:
    document = write_document(connection, origin.document) if origin.document else None
    values = (
        *(environment, origin.run, origin.step, origin.attempt, origin.designer, origin.checkpoint, document),
        *(origin.prompt_version, origin.import_source, origin.import_checksum),
    )
    same = connection.execute(
        "SELECT 1 FROM origins WHERE environment = ? AND run IS ? AND step IS ? AND attempt IS ? AND designer IS ? "
        "AND checkpoint IS ? AND document IS ? AND prompt_version IS ? AND import_source IS ? AND import_checksum IS ?",
        values,
    ).fetchone()
    if same:
        return
    cursor = connection.execute(
        "INSERT INTO origins (environment, run, step, attempt, designer, checkpoint, document, prompt_version, "
        "import_source, import_checksum, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, now()),
    )
    connection.executemany(
        "INSERT OR IGNORE INTO parents (origin, environment) VALUES (?, ?)",
        [(cursor.lastrowid, lookup(parent)) for parent in origin.parents],
    )


def write_document(connection: sqlite3.Connection, document: Mapping[str, Any]) -> int:
    """Store a corpus document once; returns its row."""
    text = storable(str(document["text"])) or ""
    sha256 = digest(text)
    connection.execute(
        "INSERT INTO documents (sha256, title, text, source, license, created_at) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (sha256) DO NOTHING",
        (sha256, document.get("title"), text, document.get("source"), document.get("license"), now()),
    )
    return int(connection.execute("SELECT id FROM documents WHERE sha256 = ?", (sha256,)).fetchone()[0])


def write_plays(connection: sqlite3.Connection, plays: Sequence[Play], lookup: Callable[[str], int]) -> None:
    """Store plays; a hinted one belongs to the hint that its environment has in use.

    Raises `RegistryError`, before anything is written, for an outcome that does not exist, a return that is not a
    number in [-1, 1], or a hinted play of an environment without a hint.
    """
    for play in plays:
        check_play(play)
    hints = {name: _hint_in_use(connection, name, lookup(name)) for name in {p.environment for p in plays if p.hinted}}
    connection.executemany(
        "INSERT INTO plays (environment, hint, run, step, policy, seed, return, won, turns, outcome, tokens, seconds, "
        "fault, transcript) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(lookup(p.environment), hints[p.environment] if p.hinted else None, p.run, p.step, p.policy, p.seed),
                *(p.ret, {"won": 1, "lost": 0}.get(p.outcome), p.turns, p.outcome, p.tokens, p.seconds),
                *(storable(p.fault), storable(p.transcript)),
            )
            for p in plays
        ],
    )


def check_play(play: Play) -> None:
    """Refuse a play that contradicts itself; see `write_plays`."""
    if play.outcome not in OUTCOMES:
        raise RegistryError(f"an outcome is one of {', '.join(OUTCOMES)}, not {play.outcome!r} ({play.environment})")
    counted = play.outcome in ("won", "lost")
    if play.ret is None and not counted:
        return
    if play.ret is None or not math.isfinite(play.ret) or not -1 <= play.ret <= 1:
        raise RegistryError(f"a return is a number in [-1, 1], not {play.ret} ({play.environment}, seed {play.seed})")
    if counted and is_win(play.ret) != (play.outcome == "won"):
        raise RegistryError(f"a return of {play.ret} is not {play.outcome} ({play.environment}, seed {play.seed})")


def _hint_in_use(connection: sqlite3.Connection, env_id: str, environment: int) -> int:
    found = connection.execute(
        "SELECT h.id FROM environments AS e JOIN hints AS h ON h.environment = e.id AND h.text = e.hint WHERE e.id = ?",
        (environment,),
    ).fetchone()
    if found is None:
        raise RegistryError(f"{env_id} has no hint, so no play of it can be hinted: add the hint first")
    return int(found[0])


def id_suffix(sha256: str) -> str:
    """The part of a Gymnasium id that follows the name."""
    return f"-{sha256[:12]}-v{CONTRACT_VERSION}"


def qualified(env_id: str) -> str:
    """An id with its namespace."""
    return env_id if env_id.startswith(f"{NAMESPACE}/") else f"{NAMESPACE}/{env_id}"
