"""The page about writing an environment is true: its programs pass, its tests pass, its commands do as they are shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "write-an-environment.md").read_text(encoding="utf-8")
NAMED = re.compile(r"as `(\w+\.py)`:\n\n```(?:py|python)\n(.*?)^```", re.M | re.S)
COMMANDS = [line for body in re.findall(r"^```bash\n(.*?)^```", PAGE, re.M | re.S) for line in body.splitlines()]
FILES = dict(NAMED.findall(PAGE))
SCRIPTS = [body for body in re.findall(r"^```py\n(.*?)^```", PAGE, re.M | re.S) if body not in FILES.values()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    for name, body in FILES.items():
        (folder / name).write_text(body, encoding="utf-8")
    return folder


def run(command, folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SPADE_REGISTRY": str(folder / "registry.db")}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        shell=isinstance(command, str),
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_page_has_what_it_promises():
    assert set(FILES) == {"beacon_hunt.py", "test_beacon_hunt.py", "greenhouse.py"}
    assert len(COMMANDS) == 4
    assert len(SCRIPTS) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_succeeds(command, folder):
    done = run(command, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning:" not in done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_a_script_runs(script, folder):
    done = run([sys.executable, "-c", script], folder)
    assert done.returncode == 0, done.stderr


def test_a_rejected_program_gives_exit_code_1(folder):
    (folder / "endless.py").write_text(FILES["beacon_hunt.py"].replace("self.turn += 1", "pass"), encoding="utf-8")
    done = run("spade-envs validate endless.py beacon_hunt.py", folder)
    assert done.returncode == 1
    assert "FAIL turns" in done.stdout
    assert done.stdout.count("accepted") == 1


def test_the_stages_of_the_table_are_those_of_the_gate():
    from spade_envs.gate.stages import EXTENT

    shown = re.findall(r"^\| `(\w+)` \|", PAGE, re.M)
    assert shown == [*EXTENT, "hint"]
