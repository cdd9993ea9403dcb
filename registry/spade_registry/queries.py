"""What is asked of a registry, as SQL: each function reads on a connection and gives records back."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from spade_envs.contract import MAX_NAME, NAMESPACE, Program
from spade_envs.sources import Record, ambiguous, hash_prefix, nearest
from spade_registry.memory import Remembered
from spade_registry.rows import Document, Measurement, Play, Ranked, Run, Status, Step

RESOLVABLE: tuple[Status, ...] = ("accepted", "retired")
"""Statuses of what an exact id or hash finds; names stand for accepted environments only."""
RECORD = "env_id, class_name, sha256, source, kind, skill, status, max_turns, license, hint"
NEAR = 400
"""Names that are compared letter by letter with a mistyped one."""
PAGE = 512
"""Rows that are read at once."""


def record(row: Sequence[Any]) -> Record:
    """A `Record` from the columns `RECORD`."""
    env_id, class_name, sha256, source, kind, skill, status, max_turns, license_, hint = row
    program = Program(source, sha256, class_name, kind)
    return Record(program, max_turns, skill, hint, license_, {"status": status, "env_id": env_id})


def find(connection: sqlite3.Connection, query: str, statuses: Sequence[str] = RESOLVABLE) -> int | None:
    """The row of an environment by id, hash prefix or name; see `spade_envs.sources.Source.get`.

    Raises `AmbiguousEnvironment` where several fit.
    """
    bare = query.removeprefix(f"{NAMESPACE}/")
    exact = connection.execute(
        "SELECT id, status FROM environments WHERE env_id = ?", (f"{NAMESPACE}/{bare}",)
    ).fetchone()
    if exact is not None:
        return int(exact[0]) if exact[1] in statuses else None
    for condition, values, allowed in _conditions(bare, statuses):
        marks = ", ".join("?" * len(allowed))
        rows = connection.execute(
            f"SELECT id, env_id FROM environments WHERE {condition} AND status IN ({marks}) LIMIT 6",
            (*values, *allowed),
        ).fetchall()
        if len(rows) > 1:
            raise ambiguous(query, [row[1] for row in rows])
        if rows:
            return int(rows[0][0])
    return None


def _conditions(bare: str, statuses: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...], Sequence[str]]]:
    prefix = hash_prefix(bare)
    if prefix is not None:
        yield "sha256 >= ? AND sha256 < ?", (prefix, prefix + "g"), statuses
    yield "name = ?", (bare[: MAX_NAME + 3],), ("accepted",)
    yield "class_name = ?", (bare,), ("accepted",)
    if "rejected" in statuses:
        yield "name = ?", (bare[: MAX_NAME + 3],), statuses


def get(connection: sqlite3.Connection, row: int) -> Record:
    """The record of a row."""
    return record(connection.execute(f"SELECT {RECORD} FROM environments WHERE id = ?", (row,)).fetchone())


def near(connection: sqlite3.Connection, query: str, n: int) -> list[str]:
    """At most `n` accepted ids whose names look like the query's, the nearest first.

    Names that share a beginning with the query are compared letter by letter, as many as `NEAR`; where the beginning
    itself was mistyped, names that share a later piece of it.
    """
    name = query.removeprefix(f"{NAMESPACE}/").split("-")[0].removesuffix("Env")
    ids: dict[str, None] = {}
    for length in range(min(len(name), 6), 0, -1):
        start = name[:length]
        ids.update(
            (row[0], None)
            for row in connection.execute(
                "SELECT env_id FROM environments WHERE name >= ? AND name < ? AND status = 'accepted' LIMIT ?",
                (start, start + "\U0010ffff", NEAR),
            )
        )
        if len(ids) >= NEAR:
            break
    found = nearest(query, list(ids), n)
    if len(found) < n and len(name) >= 3:
        pieces = [name[i : i + 4] for i in range(1, len(name) - 2, 2)][:4]
        for piece in pieces:
            rows = connection.execute(
                "SELECT env_id FROM environments WHERE name LIKE ? AND status = 'accepted' LIMIT ?", (f"%{piece}%", 50)
            )
            ids.update((row[0], None) for row in rows)
        found = nearest(query, list(ids), n)
    return found


def ids(connection: sqlite3.Connection, status: str, after: int) -> list[tuple[int, str]]:
    """A page of ids beyond the row `after`, each with its row, in order of arrival."""
    return connection.execute(
        "SELECT id, env_id FROM environments WHERE status = ? AND id > ? ORDER BY id LIMIT ?", (status, after, PAGE)
    ).fetchall()


def records(
    connection: sqlite3.Connection, status: str | None, skill: str | None, after: int
) -> list[tuple[int, Record]]:
    """A page of records beyond the row `after`, each with its row, in order of arrival."""
    rows = connection.execute(
        f"SELECT id, {RECORD} FROM environments WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR skill = ?2) "
        "AND id > ?3 ORDER BY id LIMIT ?4",
        (status, skill, after, PAGE),
    ).fetchall()
    return [(row, record(columns)) for row, *columns in rows]


RANKED = (
    "e.env_id AS id, e.skill, e.source, e.hint, e.observation, e.status, s.win_rate, s.win_rate_hinted, s.regret, "
    "s.regret_se, s.n, s.run, s.step"
)


def leaderboard(connection: sqlite3.Connection, run: int | None, n: int) -> list[Ranked]:
    """Accepted environments of the highest regret, in one run or as they stand now."""
    which = "s.latest = 1" if run is None else "s.run = ?"
    return _ranked(
        connection.execute(
            # CROSS JOIN: SQLite keeps the order of the tables, and reads the index from its end.
            f"SELECT {RANKED} FROM standings AS s CROSS JOIN environments AS e ON e.id = s.environment "
            f"WHERE {which} AND e.status = 'accepted' AND s.regret IS NOT NULL ORDER BY s.regret DESC, e.id LIMIT ?",
            ((n,) if run is None else (run, n)),
        )
    )


def graveyard(connection: sqlite3.Connection, run: int | None, n: int) -> list[Ranked]:
    """Environments that teach nothing, with the reason, the newest first; `run` keeps those it designed or played."""
    if run is None:
        where, values = "", [n]
    else:
        where = "WHERE g.run = ?1 OR EXISTS (SELECT 1 FROM origins AS o WHERE o.environment = e.id AND o.run = ?1) "
        values = [run, n]
    return _ranked(
        connection.execute(
            "SELECT e.env_id AS id, e.skill, e.source, e.hint, e.observation, e.status, g.reason, g.win_rate, "
            f"g.regret, g.n, g.run FROM graveyard AS g JOIN environments AS e ON e.env_id = g.env_id {where}"
            f"ORDER BY e.id DESC LIMIT ?{len(values)}",
            values,
        )
    )


def search(connection: sqlite3.Connection, query: str, n: int, status: str | None) -> list[Ranked]:
    """Full-text search over names, sources, opening observations and hints, the best match first."""
    from sqlite_utils import Database

    if not re.search(r"\w", query):
        return []
    words = Database(connection, execute_plugins=False).quote_fts(query)
    return _ranked(
        connection.execute(
            f"SELECT {RANKED} FROM environments_fts AS f JOIN environments AS e ON e.id = f.rowid "
            "LEFT JOIN standings AS s ON s.environment = e.id AND s.latest = 1 "
            "WHERE environments_fts MATCH ?1 AND (?2 IS NULL OR e.status = ?2) ORDER BY f.rank LIMIT ?3",
            (words, status, n),
        )
    )


def _ranked(cursor: sqlite3.Cursor) -> list[Ranked]:
    names = [column[0] for column in cursor.description]
    return [Ranked(**dict(zip(names, row, strict=True))) for row in cursor]


def remembered(connection: sqlite3.Connection, skill: str, run: int | None, capacity: int) -> list[Remembered]:
    """The records of one skill among the `capacity` environments that were measured last, oldest first."""
    which = "latest = 1" if run is None else "run = ?3"
    rows = connection.execute(
        "SELECT e.env_id, e.name, e.skill, e.source, e.hint, e.observation, s.win_rate, s.regret, s.step FROM "
        f"(SELECT * FROM standings WHERE {which} ORDER BY measurement DESC LIMIT ?1) AS s "
        "JOIN environments AS e ON e.id = s.environment "
        "WHERE e.skill = ?2 AND e.status = 'accepted' AND s.win_rate IS NOT NULL ORDER BY s.measurement",
        (capacity, skill) if run is None else (capacity, skill, run),
    ).fetchall()
    return [Remembered(*row) for row in rows]


RUN = "id, uuid, preset, configuration, config_hash, versions, directory, state, started_at, ended_at"


def run(row: Sequence[Any]) -> Run:
    """A `Run` from the columns `RUN`."""
    values = list(row)
    values[3], values[5] = json.loads(values[3]), json.loads(values[5])
    return Run(*values)


def steps(connection: sqlite3.Connection, run_id: int, after: int) -> list[Step]:
    """Steps of a run beyond `after`, in order."""
    rows = connection.execute(
        "SELECT run, step, metrics, created_at FROM steps WHERE run = ? AND step > ? ORDER BY step", (run_id, after)
    )
    return [Step(one, step, json.loads(metrics), created) for one, step, metrics, created in rows]


def plays(
    connection: sqlite3.Connection, environment: int, env_id: str, run_id: int | None, after: int
) -> list[tuple[int, Play]]:
    """A page of plays of an environment beyond the row `after`, each with its row, in order of arrival."""
    rows = connection.execute(
        "SELECT id, run, step, policy, seed, hint IS NOT NULL, return, outcome, turns, tokens, seconds, transcript, "
        "fault FROM plays WHERE environment = ?1 AND (?2 IS NULL OR run = ?2) AND id > ?3 ORDER BY id LIMIT ?4",
        (environment, run_id, after, PAGE),
    ).fetchall()
    return [
        (row, Play(env_id, of, step, policy, seed, bool(hinted), *rest))
        for row, of, step, policy, seed, hinted, *rest in rows
    ]


def measurements(
    connection: sqlite3.Connection, environment: int, env_id: str, run_id: int | None
) -> list[Measurement]:
    """Measurements of an environment in order of arrival."""
    names = (
        "run, step, win_rate, win_rate_hinted, regret, learnability, n, n_hinted, win_rate_se, win_rate_hinted_se, "
        "regret_se, mean_return, mean_return_hinted, n_pairs, cut, faulty, timeout"
    )
    rows = connection.execute(
        f"SELECT {names} FROM measurements WHERE environment = ?1 AND (?2 IS NULL OR run = ?2) ORDER BY id",
        (environment, run_id),
    )
    return [Measurement(env_id, *row) for row in rows]


def documents(connection: sqlite3.Connection, after: int) -> list[tuple[int, Document]]:
    """A page of corpus documents beyond the row `after`, each with its row, in order of arrival."""
    rows = connection.execute(
        "SELECT id, sha256, title, text, source, license FROM documents WHERE id > ? ORDER BY id LIMIT ?", (after, PAGE)
    ).fetchall()
    return [(row, Document(*columns)) for row, *columns in rows]
