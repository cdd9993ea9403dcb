"""The schema is an interface: documented, commented, indexed, readable with plain tools."""

import json
import subprocess
import sys

import pytest
from registry_samples import filled, plays, source

from spade_registry import Check, NewEnvironment, Origin, queries, schema


def test_every_column_of_a_table_has_a_meaning(registry):
    described = schema.describe(registry.connection())
    assert set(schema.VIEWS) == set(schema.VIEW_TEXTS) < set(described)
    for table, columns in described.items():
        for column in columns:
            assert column.comment or column.name == "id" or table in schema.VIEWS, (table, column.name)


QUERIES = [
    ("SELECT id FROM environments WHERE env_id = 'x'", "env_id"),
    ("SELECT id FROM environments WHERE sha256 >= 'a' AND sha256 < 'b'", "sha256"),
    ("SELECT id FROM environments WHERE name = 'x'", "idx_environments_name"),
    ("SELECT id FROM environments WHERE class_name = 'x'", "idx_environments_class_name"),
    ("SELECT id FROM environments WHERE ast_sha256 = 'x' AND duplicate_of IS NULL", "ast_sha256"),
    ("SELECT id FROM environments WHERE status = 'accepted' AND skill = 'x'", "idx_environments_status_skill"),
    ("SELECT * FROM hints WHERE environment = 1", "idx_hints_environment_sha256"),
    ("SELECT * FROM hints WHERE run = 1 AND step > 2", "idx_hints_run_step"),
    ("SELECT * FROM origins WHERE environment = 1", "idx_origins_environment"),
    ("SELECT * FROM origins WHERE run = 1 AND step > 2", "idx_origins_run_step"),
    ("SELECT * FROM checks WHERE environment = 1", "idx_checks_environment"),
    ("SELECT * FROM plays WHERE environment = 1 AND run = 1 AND step = 1", "idx_plays_environment_run_step"),
    ("DELETE FROM plays WHERE run = 1 AND step > 2", "idx_plays_run_step"),
    ("DELETE FROM measurements WHERE run = 1 AND step > 2", "idx_measurements_run_step"),
    ("SELECT * FROM runs WHERE preset = 'x' AND config_hash = 'y'", "idx_runs_preset_config_hash"),
    ("SELECT * FROM standings WHERE run = 1 ORDER BY measurement DESC LIMIT 5", "idx_standings_run_measurement"),
    ("SELECT * FROM standings WHERE latest = 1 ORDER BY measurement DESC LIMIT 5", "idx_standings_latest_measurement"),
    (
        "SELECT * FROM standings WHERE latest = 1 AND regret IS NOT NULL ORDER BY regret DESC LIMIT 5",
        "idx_standings_latest_regret",
    ),
    ("SELECT max(measurement), count(*) FROM standings WHERE latest = 1", "idx_standings_latest_measurement"),
]


@pytest.mark.parametrize(("query", "index"), QUERIES)
def test_every_query_has_its_index(registry, query, index):
    plan = " ".join(row[3] for row in registry.connection().execute("EXPLAIN QUERY PLAN " + query))
    assert "SCAN environments" not in plan
    assert index in plan, plan


def test_the_facades_own_queries_do_not_scan_a_table(registry):
    """Every statement that the look-ups send is traced and explained."""
    ids, run = filled(registry, [("wl", "ww")] * 3)
    connection, sent = registry.connection(), []
    connection.set_trace_callback(sent.append)
    registry.get(ids[0])
    registry.get(ids[0].split("-")[1])
    registry.get("Number1")
    registry.leaderboard(run=run)
    registry.leaderboard()
    registry.latest_run("test", "x")
    registry.steps(run)
    queries.remembered(connection, "Logical Deduction", run, 200)
    queries.remembered(connection, "Logical Deduction", None, 200)
    registry.commit_round(run, 2, environments=designed(ids), plays=plays(ids[0], run, 2, "wl", "ww"), metrics={"a": 1})
    registry.record_plays(plays(ids[1], run, 3, "wl"))
    registry.measure(ids[1], run, 3)
    registry.measurements(ids[0], run=run)
    list(registry.plays(ids[0], run=run))
    registry.retire(ids[2], "test")
    registry.rollback_run(run, 1)
    registry.finish_run(run)
    connection.set_trace_callback(None)
    assert len(sent) > 100
    for statement in sent:
        if statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
            plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + statement)]
            scanned = [line for line in plan if line.startswith("SCAN") and "INDEX" not in line and "(" not in line]
            assert [line for line in scanned if line.split()[1] in schema_tables(connection)] == [], statement


def designed(parents):
    origin = Origin(step=2, parents=parents, document={"text": "Bees."})
    return [
        NewEnvironment(source("New", 50), hint="h", origin=origin, checks=[Check("load", True)]),
        NewEnvironment("no program", status="rejected", status_reason="extract: no class", origin=origin),
    ]


def schema_tables(connection):
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_plain_sqlite_utils_shows_tables_rows_and_search(registry, path):
    filled(registry, [("lwlw", "wwww")])

    def tool(*words):
        done = subprocess.run(
            [sys.executable, "-m", "sqlite_utils", *map(str, words)], capture_output=True, text=True, check=True
        )
        return done.stdout

    tables = {row["table"] for row in json.loads(tool("tables", path))}
    assert {
        "environments",
        "hints",
        "plays",
        "measurements",
        "runs",
        "steps",
        "checks",
        "origins",
        "documents",
    } <= tables
    assert {row["view"] for row in json.loads(tool("views", path))} == set(schema.VIEWS)
    assert json.loads(tool("rows", path, "leaderboard"))[0]["regret"] == 0.5
    assert json.loads(tool("search", path, "environments", "hidden"))[0]["name"] == "Number0"
    assert "-- Gymnasium id" in tool("schema", path)
