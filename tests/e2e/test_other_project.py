"""Another project, with only the wheel and no torch, uses an environment by its id.

The wheel is built, installed into a new virtual environment together with the dependencies it declares, and used from
another directory, against a registry file that some run has filled.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spade_envs.contract import Program
from spade_registry.registry import Registry

ROOT = Path(__file__).parents[2]
SOURCE = """
import random
import re


class HiddenDigitEnv:
    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.digit, self.turn = random.Random(seed).randint(0, 9), 0
        return "A digit from 0 to 9 is hidden. Answer with \\\\boxed{digit}.", {}

    def step(self, action):
        self.turn += 1
        found = re.findall(r"\\\\boxed\\{(\\d)\\}", action)
        if found and int(found[-1]) == self.digit:
            return "Right.", 1.0, True, False, {}
        return "No.", 0.0, False, self.turn >= self.max_turns, {}
"""

USE = """
import json, sys, warnings
import gymnasium
from gymnasium.utils.env_checker import check_env

import spade_envs

assert "torch" not in sys.modules
env = gymnasium.make(sys.argv[1])
observation, info = env.reset(seed=3)
outcome = [env.step("\\\\boxed{%d}" % digit)[:4] for digit in range(3)]
with warnings.catch_warnings():
    warnings.simplefilter("error")
    check_env(env.unwrapped)
print(json.dumps([observation, outcome]))
"""

USE_WITHOUT_IMPORT = """
import sys, gymnasium
env = gymnasium.make("spade_envs:" + sys.argv[1])
print(env.reset(seed=3)[0])
"""

MISTYPED = """
import gymnasium, spade_envs
try:
    gymnasium.make("spade/HidenDigit-000000000000-v0")
except gymnasium.error.Error as error:
    print(error)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of a new virtual environment that holds the wheel and what it declares."""
    folder = tmp_path_factory.mktemp("other")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", next(folder.glob("*.whl")))
    return python


def run(*words, cwd=None, **environment):
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def registry(tmp_path):
    """A registry with one accepted environment: its path and the environment's id."""
    path = tmp_path / "registry.db"
    with Registry.open(path) as store:
        return path, store.add(Program.from_source(SOURCE), skill="Logical Deduction", max_turns=4)


def test_make_reset_step_and_check(python, registry, tmp_path):
    path, environment = registry
    observation, outcomes = json.loads(run(python, "-c", USE, environment, cwd=tmp_path, SPADE_REGISTRY=str(path)))
    assert observation.startswith("A digit from 0 to 9")
    assert all(reward in (0.0, 1.0) for _, reward, _, _ in outcomes)
    again = json.loads(run(python, "-c", USE, environment, cwd=tmp_path, SPADE_REGISTRY=str(path)))
    assert again == [observation, outcomes]


def test_make_without_the_import(python, registry, tmp_path):
    path, environment = registry
    shown = run(python, "-c", USE_WITHOUT_IMPORT, environment, cwd=tmp_path, SPADE_REGISTRY=str(path))
    assert shown.startswith("A digit from 0 to 9")


def test_an_unknown_id_names_the_registry_and_near_matches(python, registry, tmp_path):
    path, environment = registry
    message = run(python, "-c", MISTYPED, cwd=tmp_path, SPADE_REGISTRY=str(path))
    assert "HidenDigit" in message
    assert str(path) in message
    assert environment in message


def test_the_wheel_installs_three_packages_and_no_torch(python, tmp_path):
    names = "import importlib.util as u; print([bool(u.find_spec(n)) for n in %r])"
    wanted = ["spade_envs", "spade_registry", "spade_trainer", "torch", "registry", "trainer_plugin"]
    assert run(python, "-c", names % wanted, cwd=tmp_path).strip() == str([True, True, True, False, False, False])


def test_the_registry_opens_in_sqlite_utils(python, registry, tmp_path):
    path, environment = registry
    tool = python.parent / "sqlite-utils"
    tables = run(tool, "tables", path, cwd=tmp_path)
    for table in ("environments", "hints", "plays", "measurements"):
        assert f'"{table}"' in tables
    assert environment.split("/")[1].split("-")[0] in run(tool, "rows", path, "environments", cwd=tmp_path)
    assert "HiddenDigit" in run(tool, "search", path, "environments", "hidden", cwd=tmp_path)


def test_the_command_line_works_without_the_trainer(python, registry, tmp_path):
    path, environment = registry
    tool = python.parent / "spade-envs"
    assert environment in run(tool, "list", cwd=tmp_path, SPADE_REGISTRY=str(path))
    refused = subprocess.run(
        [tool, "selfplay", "--preset", "nano"],
        env={**os.environ, "SPADE_REGISTRY": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "spade-envs[train]" in refused.stderr
