"""The Python shown in README.md and docs/ runs as written, against the starter programs and an empty registry."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
CASES = [
    pytest.param(body, id=f"{page.name}-{at}")
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    for at, body in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("body", CASES)
def test_shown_python_runs(body, tmp_path):
    environment = {**os.environ, "SPADE_REGISTRY": str(tmp_path / "registry.db"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", body],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
