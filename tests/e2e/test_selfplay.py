"""Self-play with the real trainer (verl, Ray, FSDP) and the shipped model: a short run, and the same run killed on its way.

Both use the command that a user types. What the registry holds afterwards must be the same.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("verl")

from spade_trainer.report import CHARTS

STEPS = 4
SETTINGS = (
    "spade.environments_per_skill=2",
    "spade.player.plays=4",
    "spade.player.hinted_plays=4",
    "spade.designer.train_rejected=true",
    "trainer.save_freq=1",
)
COMMAND = [
    *(sys.executable, "-m", "spade_envs", "selfplay", "--preset", "nano", "--steps", str(STEPS), "--seed", "3"),
    *(word for setting in SETTINGS for word in ("--set", setting)),
]
LIMIT = 420
CLOCKS = re.compile(r"seconds|perf|timing|memory|throughput|_at$|uuid|directory|versions|configuration|config_hash")


class Finished:
    """A finished run: what it printed, and its registry."""

    def __init__(self, output: str, registry: Path) -> None:
        self.output, self.registry = output, registry
        self.directory = registry.parent / "registry-runs" / "0001-nano"

    def rows(self, query: str, *values: object) -> list[tuple]:
        with closing(sqlite3.connect(f"file:{self.registry}?mode=ro", uri=True)) as connection:
            return connection.execute(query, values).fetchall()

    def metrics(self) -> dict[int, dict[str, float]]:
        return {step: json.loads(text) for step, text in self.rows("SELECT step, metrics FROM steps ORDER BY step")}


def environment(registry: Path) -> dict[str, str]:
    return {**os.environ, "SPADE_REGISTRY": str(registry), "COLUMNS": "200"}


def play_through(registry: Path) -> str:
    done = subprocess.run(
        COMMAND, env=environment(registry), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The run, uninterrupted."""
    registry = tmp_path_factory.mktemp("selfplay") / "registry.db"
    return Finished(play_through(registry), registry)


def test_it_shows_its_steps_a_table_and_where_everything_is(run):
    for step in range(1, STEPS + 1):
        assert f"step   {step}/{STEPS}" in run.output
    for word in ("written", "accepted", "win rate", "hinted", "regret", "learn", "highest regret", "gymnasium.make("):
        assert word in run.output
    assert str(run.registry) in run.output
    assert str(run.directory / "report.html") in run.output


def test_the_registry_is_filled(run):
    assert run.rows("SELECT state, preset FROM runs") == [("finished", "nano")]
    assert list(run.metrics()) == list(range(1, STEPS + 1))
    designed = run.rows(
        "SELECT e.status, e.hint IS NOT NULL, o.designer, o.document, (SELECT count(*) FROM checks c WHERE c.environment = e.id) "
        "FROM environments e JOIN origins o ON o.environment = e.id WHERE o.run = 1"
    )
    assert any(status == "accepted" for status, *_ in designed)
    assert any(hinted for _, hinted, *_ in designed)
    assert all(checks > 0 for *_, checks in designed)
    assert any(document for _, _, _, document, _ in designed)
    assert run.rows("SELECT count(*) FROM plays")[0][0] > 0
    assert run.rows("SELECT count(*) FROM plays WHERE transcript IS NOT NULL")[0][0] > 0
    assert run.rows("SELECT count(*) FROM measurements WHERE regret IS NOT NULL")[0][0] > 0


def test_both_arms_meet_the_same_seeds_at_the_generation_step_only(run):
    arms = run.rows(
        "SELECT environment, step, hint IS NOT NULL, group_concat(seed) FROM (SELECT * FROM plays ORDER BY seed) GROUP BY 1, 2, 3"
    )
    by_arm = {(environment, step, hinted): sorted(seeds.split(",")) for environment, step, hinted, seeds in arms}
    hinted = [key for key in by_arm if key[2]]
    assert hinted
    for environment, step, _ in hinted:
        assert step in (1, 3), "the interval of the preset is 2"
        assert by_arm[environment, step, 1] == by_arm[environment, step, 0]


def test_both_roles_are_trained_and_hinted_plays_are_not(run):
    metrics = run.metrics()
    released = {step: values["spade/designer/released"] for step, values in metrics.items()}
    assert released[1] == released[2] == 0, "designer samples are held back for the window"
    assert released[3] > 0
    assert released[4] > 0, "the last step flushes"
    written = sum(values.get("spade/designer/written", 0) for values in metrics.values())
    cut = sum(values.get("spade/designer/rejected/cut", 0) for values in metrics.values())
    dropped = sum(values["spade/designer/dropped"] for values in metrics.values())
    assert sum(released.values()) + dropped == written - cut, "no sample is lost and none is doubled"
    scored = dict(
        run.rows("SELECT step, count(*) FROM plays WHERE hint IS NULL AND outcome IN ('won', 'lost') GROUP BY step")
    )
    for step, values in metrics.items():
        assert values["spade/trained/plays"] == scored[step]
        assert values["spade/trained/programs"] == released[step]


def test_the_weights_moved(run):
    import torch
    from safetensors.torch import load_file
    from torch.distributed.tensor import DTensor

    from spade_trainer.nano import MODEL

    before = load_file(MODEL / "model.safetensors")
    saved = run.directory / "checkpoints" / f"global_step_{STEPS}" / "actor" / "model_world_size_1_rank_0.pt"
    after = torch.load(saved, weights_only=False)
    name = "model.layers.0.self_attn.q_proj.weight"
    moved = after[name].to_local() if isinstance(after[name], DTensor) else after[name]
    assert (moved - before[name].float()).abs().max() > 1e-6
    norms = [values["actor/grad_norm"] for values in run.metrics().values()]
    assert all(0 < norm < float("inf") for norm in norms)


def test_held_back_samples_are_the_ones_that_are_corrected(run):
    metrics = run.metrics()
    assert metrics[3]["spade/designer/importance_deviation"] > 1e-4
    assert metrics[1]["rollout_corr/rollout_is_std"] < 1e-3, "fresh plays are on-policy"


def test_the_report_opens_without_a_network(run):
    page = (run.directory / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
    for chart in CHARTS:
        assert chart.title in page


def test_a_designed_environment_is_made_with_one_line(run):
    (key,) = run.rows(
        "SELECT env_id FROM environments e JOIN origins o ON o.environment = e.id WHERE o.run = 1 AND status = 'accepted' LIMIT 1"
    )[0]
    script = (
        "import sys, gymnasium, spade_envs; env = gymnasium.make(sys.argv[1]); print(env.reset(seed=1)[0]); "
        "print(env.step('\\\\boxed{1}')[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, key], env=environment(run.registry), capture_output=True, text=True, check=True
    )
    assert len(done.stdout.splitlines()) >= 2


def content(finished: Finished) -> dict[str, list[tuple]]:
    """Everything in a registry but clocks, and figures that only say how long or how large something was."""
    found = {}
    for table in ("environments", "hints", "origins", "parents", "documents", "plays", "measurements", "standings"):
        names = [row[1] for row in finished.rows(f"PRAGMA table_info({table})") if not CLOCKS.search(row[1])]
        found[table] = finished.rows(f"SELECT {', '.join(names)} FROM {table} ORDER BY 1, 2")
    found["steps"] = [
        (step, {name: value for name, value in values.items() if name.startswith("spade/") and not CLOCKS.search(name)})
        for step, values in finished.metrics().items()
    ]
    return found


def test_a_run_that_is_killed_continues_to_the_same_registry(run, tmp_path):
    registry = tmp_path / "registry.db"
    with (tmp_path / "output.txt").open("w") as output:
        parent = subprocess.Popen(COMMAND, env=environment(registry), stdout=output, stderr=output)
        deadline = time.monotonic() + LIMIT
        while steps(registry) < 2:
            assert parent.poll() is None, (tmp_path / "output.txt").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert "continuing the unfinished run" in play_through(registry)
    again = Finished("", registry)
    assert again.rows("SELECT count(*) FROM runs") == [(1,)]
    one, other = content(run), content(again)
    for table in one.keys() - {"steps"}:
        assert one[table] == other[table], table
    for (step, metrics), (same, resumed) in zip(one["steps"], other["steps"], strict=True):
        # Sums of floating-point numbers follow the order in which rows came back from concurrent plays.
        assert (same, resumed) == (step, pytest.approx(metrics, rel=1e-3, abs=1e-6))


def steps(registry: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{registry}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM steps").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
