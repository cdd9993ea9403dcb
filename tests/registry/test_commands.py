"""The registry's commands: tables, JSON, CSV, exit codes, and completion."""

import csv
import io
import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from registry_samples import filled, source

from spade_envs.cli import main
from spade_envs.starters import records
from spade_registry import NewEnvironment, Origin, Registry
from spade_registry.commands import complete_ids


@pytest.fixture
def full(registry, path, monkeypatch):
    """A registry with three measured environments, a child, and a rejected program; the default of the commands."""
    monkeypatch.setenv("SPADE_REGISTRY", str(path))
    ids, run = filled(registry, [("lwlw", "wwww"), ("llll", "wwww"), ("wwww", "wwww")])
    child = NewEnvironment(source("Child", 77), skill="Optimization", origin=Origin(run=run, step=3, parents=ids[:1]))
    bad = NewEnvironment(source("Bad", 5), status="rejected", status_reason="turns: it never ends")
    registry.add_all([child, bad])
    return ids, run


def run(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output + str(result.exception or "")
    return result.output


def rows(*words):
    return list(csv.DictReader(io.StringIO(run(*words, "--csv"))))


def test_list_sorts_and_filters_and_adds_the_starters(full):
    ids, number = full
    assert [row["id"] for row in rows("list", "--sort", "regret")][:3] == [ids[1], ids[0], ids[2]]
    assert [row["id"] for row in rows("list", "--run", number)] == ids
    assert {row["skill"] for row in rows("list", "--skill", "Optimization")} == {"Optimization"}
    assert [row["status"] for row in rows("list", "--status", "rejected")] == ["rejected"]
    assert {row["id"] for row in rows("list") if row["source"] == "starters"} == {one.program.id for one in records()}
    assert {row["kind"] for row in rows("list", "--kind", "tool_use")} == {"tool_use"}
    assert len(json.loads(run("list", "--json", "-n", 2))) == 2
    assert run("list", "-n", 1).split("\t")[0] == ids[0], "tab-separated in a pipe"


def test_without_a_registry_the_starters_are_there(tmp_path, monkeypatch):
    monkeypatch.setenv("SPADE_REGISTRY", str(tmp_path / "none.db"))
    assert len(rows("list")) == len(records())
    assert "class LiarsInnEnv" in run("show", "LiarsInn")
    assert run("path").strip() == str(tmp_path / "none.db")
    assert "there is no registry" in run("list", "--registry", tmp_path / "none.db", code=2)
    assert not (tmp_path / "none.db").exists()


def test_show_prints_everything_but_the_hint(full):
    ids, _ = full
    shown = run("show", ids[0])
    for part in ("Logical Deduction", "origins", "measurements", "regret 0.500", "class Number0Env", "low 0.150"):
        assert part in shown
    assert "hint 0" not in shown
    assert "hint 0" in run("show", ids[0], "--with-hint")
    assert "class Number0Env" not in run("show", ids[0], "--no-source")
    facts = json.loads(run("show", "Child", "--json"))
    assert facts["origins"][0]["parents"] == [ids[0]]
    assert json.loads(run("show", "Bad", "--json"))["reason"] == "turns: it never ends"
    assert "Near matches" in run("show", "Chld-0000000", code=2)


def test_search_stats_and_retire(full):
    ids, number = full
    assert {row["id"] for row in rows("search", "hidden")} > set(ids)
    stats = {row["skill"]: row for row in rows("stats")}
    assert (stats["all"]["accepted"], stats["all"]["rejected"], stats["all"]["plays"]) == ("4", "1", "24")
    assert float(stats["Logical Deduction"]["regret"]) == 0.5
    assert {row["skill"] for row in rows("stats", "--run", number)} == {"Logical Deduction", "Optimization", "all"}
    assert f"retired {ids[2]}" in run("retire", ids[2], "--reason", "too easy")
    assert ids[2] not in run("list")
    assert "--reason" in run("retire", ids[2], code=2)


def test_verify_runs_the_gate_again_and_compares_hashes(full, registry):
    ids, _ = full
    assert [row["ok"] for row in rows("verify", ids[0], "Child")] == ["True", "True"]
    connection = registry.connection()
    connection.execute(
        "UPDATE environments SET source = replace(source, 'Guess.', 'Guess!') WHERE env_id = ?", (ids[0],)
    )
    tampered = json.loads(run("verify", "--json", code=1))
    assert [row["ok"] for row in tampered] == [False, True, True, True]
    assert "does not have the hash" in tampered[0]["problem"]


def test_ids_are_completed(full):
    ids, _ = full
    context = click.Context(main)
    found = [item.value for item in complete_ids(context, None, "Number")]
    assert found == ids
    assert complete_ids(context, None, "spade/Child")[0].value.startswith("spade/Child-")


def test_on_a_terminal_there_is_a_table(full, path):
    import os
    import pty

    parent, child = pty.openpty()
    words = [sys.executable, "-m", "spade_envs", "list", "-n", "2"]
    process = subprocess.Popen(
        words, stdout=child, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "160", "TERM": "xterm"}
    )
    process.wait(60)
    os.close(child)
    shown = os.read(parent, 1 << 16).decode()
    os.close(parent)
    assert "win rate" in shown
    assert "━" in shown


def sqlite_utils(*words, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "sqlite_utils", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_sqlite_utils_plugin(registry, path):
    ids, run_ = filled(registry, [("lw" * 30, "wwww")])
    registry.add(
        source("Child", 77), origin=Origin(run=run_, step=3, parents=ids[:1], document={"text": "x", "title": "Bees"})
    )
    plugins = json.loads(sqlite_utils("plugins"))
    assert "spade-envs" in {plugin["name"] for plugin in plugins} or "spade" in str(plugins)
    assert json.loads(sqlite_utils("spade-frontier", path, "--json"))[0]["env_id"] == ids[0]
    shown = sqlite_utils("spade-show", path, "Number0")
    assert "class Number0Env" in shown
    assert "hint 0" not in shown
    lineage = sqlite_utils("spade-lineage", path, "Child").splitlines()
    assert "document Bees" in lineage[0]
    assert lineage[1].startswith(f"  {ids[0]}")
    played = subprocess.run(
        [sys.executable, "-m", "sqlite_utils", "spade-play", str(path), "Number0", "--seed", "3"],
        input="1\n2\n3\n4\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Outcome:" in played.stdout
    assert "Near matches" in sqlite_utils("spade-show", path, "Nubmer0", code=1)


def test_a_registry_of_a_newer_release_is_one_sentence_and_exit_code_two(path):
    import sqlite3

    Registry.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    said = run("list", "--registry", path, code=2)
    assert said.startswith("Error: ")
    assert "upgrade spade-envs" in said
