"""`merge`: another registry's content into this one. The same content is one row; plays and measurements add up once.

Programs that this registry does not have as accepted pass its gate first. Everything recorded about them is then copied
in one transaction, with the identity that does not depend on the file: environments by hash, runs by uuid, documents
and hints by hash, plays by all that they say (equal ones are counted, so that a second merge adds none).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from spade_registry.importing import Imported, import_programs
from spade_registry.measuring import update_standings
from spade_registry.pools import Found
from spade_registry.registry import Registry
from spade_registry.rows import digest
from spade_registry.store import RegistryError, explained, transaction
from spade_registry.writing import refresh_hint

PLAY = "policy, seed, return, won, turns, outcome, tokens, seconds, fault, transcript"
MEASURED = (
    "step, win_rate, win_rate_se, win_rate_hinted, win_rate_hinted_se, mean_return, mean_return_hinted, regret, "
    "regret_se, learnability, n, n_hinted, n_pairs, cut, faulty, timeout, created_at"
)


def merge(registry: Registry, other: str | Path, *, on_program: Callable[[], None] | None = None) -> Imported:
    """Merge the registry file `other` into `registry`; `other` is not changed. Merging twice changes nothing.

    Raises `RegistryError` where `other` is not a registry of this version, or is the same file.
    """
    path = Path(other).absolute()
    if path.exists() and path.samefile(registry.path):
        raise RegistryError(f"{path} cannot be merged into itself")
    with Registry.open(path, readonly=True) as source:
        programs = (
            Found(record.program.id, record.program.source, digest(record.program.source), None, record.skill,
                  None, record.max_turns, record.license)
            for record in source.records()
        )  # fmt: skip
        result = import_programs(registry, programs, origin=path.name, on_program=on_program)
    connection = registry.connection()
    with explained(registry.path):
        connection.execute("ATTACH DATABASE ? AS other", (f"file:{quote(str(path))}?mode=ro",))
        try:
            with transaction(connection):
                _copy(connection)
        finally:
            connection.execute("DETACH DATABASE other")
    return result


def _copy(connection: sqlite3.Connection) -> None:
    run = connection.execute
    # What this file lacks and the other one rejected or retired is kept as it was judged there.
    columns = (
        "env_id, name, class_name, sha256, ast_sha256, source, kind, skill, status, status_reason, max_turns, license, "
        "observation, created_at"
    )
    run(
        f"INSERT INTO environments ({columns}) SELECT {columns} FROM other.environments AS o "
        "WHERE o.status <> 'accepted' AND o.sha256 NOT IN (SELECT sha256 FROM main.environments) ORDER BY o.id"
    )
    run(
        "CREATE TEMP TABLE map_environment AS SELECT o.id AS theirs, e.id AS ours FROM other.environments AS o "
        "JOIN main.environments AS e ON e.sha256 = o.sha256"
    )
    run("CREATE UNIQUE INDEX temp.map_environment_theirs ON map_environment(theirs)")
    run(
        "INSERT INTO runs (uuid, preset, configuration, config_hash, versions, directory, state, started_at, ended_at) "
        "SELECT uuid, preset, configuration, config_hash, versions, directory, state, started_at, ended_at "
        "FROM other.runs WHERE uuid NOT IN (SELECT uuid FROM main.runs) ORDER BY id"
    )
    run(
        "CREATE TEMP TABLE map_run AS SELECT o.id AS theirs, r.id AS ours FROM other.runs AS o "
        "JOIN main.runs AS r USING (uuid)"
    )
    run(
        "INSERT OR IGNORE INTO documents (sha256, title, text, source, license, created_at) "
        "SELECT sha256, title, text, source, license, created_at FROM other.documents ORDER BY id"
    )
    _hints(connection)
    _origins(connection)
    run(
        "INSERT INTO checks (environment, stage, passed, message, warnings, seconds) SELECT m.ours, c.stage, c.passed, "
        "c.message, c.warnings, c.seconds FROM other.checks AS c JOIN map_environment AS m ON m.theirs = c.environment "
        "WHERE NOT EXISTS (SELECT 1 FROM main.checks AS k WHERE k.environment = m.ours) ORDER BY c.id"
    )
    _plays(connection)
    run(
        f"INSERT OR IGNORE INTO measurements (environment, run, {MEASURED}) SELECT m.ours, r.ours, {MEASURED} "
        "FROM other.measurements AS s JOIN map_environment AS m ON m.theirs = s.environment "
        "JOIN map_run AS r ON r.theirs = s.run ORDER BY s.id"
    )
    run(
        "INSERT OR IGNORE INTO steps (run, step, metrics, created_at) SELECT r.ours, s.step, s.metrics, s.created_at "
        "FROM other.steps AS s JOIN map_run AS r ON r.theirs = s.run ORDER BY s.run, s.step"
    )
    touched = run(
        "SELECT DISTINCT m.ours, r.ours FROM other.measurements AS s "
        "JOIN map_environment AS m ON m.theirs = s.environment JOIN map_run AS r ON r.theirs = s.run"
    ).fetchall()
    update_standings(connection, touched)
    for table in ("map_environment", "map_run", "map_hint"):
        run(f"DROP TABLE temp.{table}")


def _hints(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO hints (environment, text, sha256, author, prompt_version, leak, run, step, created_at) "
        "SELECT m.ours, h.text, h.sha256, h.author, h.prompt_version, h.leak, r.ours, h.step, h.created_at "
        "FROM other.hints AS h JOIN map_environment AS m ON m.theirs = h.environment "
        "LEFT JOIN map_run AS r ON r.theirs = h.run WHERE true ORDER BY h.id "
        "ON CONFLICT (environment, sha256) DO NOTHING"
    )
    connection.execute(
        "CREATE TEMP TABLE map_hint AS SELECT o.id AS theirs, h.id AS ours FROM other.hints AS o "
        "JOIN map_environment AS m ON m.theirs = o.environment "
        "JOIN main.hints AS h ON h.environment = m.ours AND h.sha256 = o.sha256"
    )
    connection.execute("CREATE UNIQUE INDEX temp.map_hint_theirs ON map_hint(theirs)")
    for (environment,) in connection.execute("SELECT ours FROM map_environment").fetchall():
        refresh_hint(connection, environment)


def _origins(connection: sqlite3.Connection) -> None:
    same = " AND ".join(
        f"k.{name} IS x.{name}"
        for name in (
            *("environment", "run", "step", "attempt", "designer", "checkpoint", "document", "prompt_version"),
            *("import_source", "import_checksum"),
        )
    )
    found = connection.execute(
        "SELECT x.theirs, x.environment, x.run, x.step, x.attempt, x.designer, x.checkpoint, x.document, "
        "x.prompt_version, x.import_source, x.import_checksum, x.created_at FROM (SELECT o.id AS theirs, "
        "m.ours AS environment, r.ours AS run, o.step, o.attempt, o.designer, o.checkpoint, d.id AS document, "
        "o.prompt_version, o.import_source, o.import_checksum, o.created_at FROM other.origins AS o "
        "JOIN map_environment AS m ON m.theirs = o.environment LEFT JOIN map_run AS r ON r.theirs = o.run "
        "LEFT JOIN other.documents AS od ON od.id = o.document "
        "LEFT JOIN main.documents AS d ON d.sha256 = od.sha256) AS x "
        f"WHERE NOT EXISTS (SELECT 1 FROM main.origins AS k WHERE {same}) ORDER BY x.theirs"
    ).fetchall()
    for theirs, *values in found:
        cursor = connection.execute(
            "INSERT INTO origins (environment, run, step, attempt, designer, checkpoint, document, prompt_version, "
            "import_source, import_checksum, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
        connection.execute(
            "INSERT OR IGNORE INTO parents (origin, environment) SELECT ?, m.ours FROM other.parents AS p "
            "JOIN map_environment AS m ON m.theirs = p.environment WHERE p.origin = ?",
            (cursor.lastrowid, theirs),
        )


def _plays(connection: sqlite3.Connection) -> None:
    """Equal plays are numbered on both sides; a play is missing where its number is."""
    key = f"environment, hint, run, step, {PLAY}"
    numbered = f"{key}, row_number() OVER (PARTITION BY {key}) AS copy"
    theirs = (
        f"SELECT {numbered} FROM (SELECT m.ours AS environment, h.ours AS hint, r.ours AS run, p.step, "
        f"{', '.join('p.' + name.strip() for name in PLAY.split(','))} FROM other.plays AS p "
        "JOIN map_environment AS m ON m.theirs = p.environment LEFT JOIN map_hint AS h ON h.theirs = p.hint "
        "LEFT JOIN map_run AS r ON r.theirs = p.run)"
    )
    ours = f"SELECT {numbered} FROM main.plays WHERE environment IN (SELECT ours FROM map_environment)"
    connection.execute(
        f"INSERT INTO plays ({key}) SELECT {key} FROM (SELECT {key}, copy FROM ({theirs}) EXCEPT SELECT {key}, copy "
        f"FROM ({ours})) ORDER BY run, step, environment, hint, seed, copy"
    )
