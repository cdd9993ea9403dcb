"""What cannot be carried out is one sentence with exit code 2, and leaves nothing half-written."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

import pytest

pytest.importorskip("verl")

from spade_registry import Registry


def selfplay(registry, *words, prefix=()):
    command = [*prefix, sys.executable, "-m", "spade_envs", "selfplay", "--registry", str(registry), *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=500, check=False, env={**os.environ, "COLUMNS": "200"}
    )


def assert_one_sentence(done, *parts):
    assert done.returncode == 2, done.stdout + done.stderr
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("Error: ")
    for part in parts:
        assert part in said, said
    assert "Traceback" not in done.stderr


def test_a_preset_for_gpus_where_there_is_none(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    done = selfplay(tmp_path / "r.db", "--preset", "qwen3-4b")
    assert_one_sentence(done, "qwen3-4b", "CUDA", "--preset nano")
    assert list(tmp_path.iterdir()) == []


def test_unknown_presets_and_settings(tmp_path):
    assert_one_sentence(selfplay(tmp_path / "r.db", "--preset", "nanno"), "no preset `nanno`", "nano")
    assert_one_sentence(selfplay(tmp_path / "r.db", "--set", "spade.reward.ramp=7"), "spade.reward.ramp", "[0, 1]", "7")
    assert_one_sentence(selfplay(tmp_path / "r.db", "--set", "spade.rewards=7"), "cannot take these settings")
    assert list(tmp_path.iterdir()) == []


def test_a_registry_of_a_newer_release(tmp_path):
    path = tmp_path / "r.db"
    Registry.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert_one_sentence(selfplay(path), "schema version 99", "upgrade spade-envs")
    assert not (tmp_path / "r-runs").exists()


def test_a_file_that_is_no_registry_and_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "notes.txt").write_text("Dear diary, " * 100)
    assert_one_sentence(selfplay(tmp_path / "notes.txt"), "not an intact SQLite file")
    assert_one_sentence(selfplay("/proc/registry.db"), "/proc/registry.db")


def test_a_full_disk_at_the_start(tmp_path):
    """The kernel lets no file of the process grow beyond 20 kB, as a full disk would."""
    script = textwrap.dedent("""
        import resource, signal, sys
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        import runpy
        sys.argv = ["spade-envs", *sys.argv[1:]]
        runpy.run_module("spade_envs", run_name="__main__")
    """)
    words = [sys.executable, "-c", script, "selfplay", "--registry", str(tmp_path / "r.db")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert_one_sentence(done, "full or failing", "free some space")


@pytest.mark.slow
def test_a_designer_that_writes_nothing_valid_does_not_stop_the_run(tmp_path):
    path = tmp_path / "r.db"
    settings = (
        "spade.designer.max_tokens=5",
        "spade.environments_per_skill=1",
        "spade.player.plays=2",
        "spade.player.hinted_plays=2",
    )
    done = selfplay(path, "--steps", "2", *(word for one in settings for word in ("--set", one)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 accepted (rejected: cut" in done.stdout
    with Registry.open(path, readonly=True) as store:
        first, second = store.steps(1)
        assert first.metrics["spade/designer/accepted"] == 0
        assert first.metrics["spade/replay/environments"] == 3
        assert second.metrics["spade/player/plays"] > 0
