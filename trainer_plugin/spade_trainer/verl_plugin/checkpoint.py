"""The plugin's part of a checkpoint: one file in verl's folder of the step, written before verl declares it complete.

verl declares a checkpoint complete by writing its step into `latest_checkpointed_iteration.txt`, last. A process that dies
before that leaves a folder that nobody reads; one that dies while writing that file leaves an empty one, which is repaired
here from the folders.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch

TRACKER = "latest_checkpointed_iteration.txt"
FILE = "spade.pt"
LOADER_STATE = "data.pt"  # the last file that verl writes into a step's folder


class Checkpoints:
    """The folder of a run's checkpoints."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder).absolute()

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Write the state of `step` durably."""
        folder = self._of(step)
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f"{FILE}.tmp"
        with temporary.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / FILE)

    def load(self, config: Any, step: int) -> dict[str, Any] | None:
        """Return the state of `step`, or None at the start of a run. The file is the run's own, so it may hold objects."""
        if step == 0:
            return None
        given = config.trainer.resume_from_path if config.trainer.resume_mode == "resume_path" else None
        path = (Path(given) if given else self._of(step)) / FILE
        return torch.load(path, weights_only=False)

    def repair(self) -> None:
        """Make the tracker name the newest complete checkpoint if it was cut off in writing."""
        tracker = self.folder / TRACKER
        if not tracker.exists() or tracker.read_text().strip().isdigit():
            return
        complete = [step for step in self._steps() if (self._of(step) / LOADER_STATE).exists()]
        if complete:
            tracker.write_text(str(max(complete)))
        else:
            tracker.unlink()

    def prune(self, keep: int) -> None:
        """Delete all but the newest `keep` checkpoints up to the one that the tracker names."""
        latest = int((self.folder / TRACKER).read_text())
        for step in sorted(step for step in self._steps() if step <= latest)[:-keep]:
            shutil.rmtree(self._of(step), ignore_errors=True)

    def _of(self, step: int) -> Path:
        return self.folder / f"global_step_{step}"

    def _steps(self) -> list[int]:
        names = (path.name.removeprefix("global_step_") for path in self.folder.glob("global_step_*"))
        return [int(name) for name in names if name.isdigit()]
