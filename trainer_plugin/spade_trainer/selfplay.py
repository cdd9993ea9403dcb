"""Start, continue and watch a self-play run.

The training itself is verl's own program, started as a child process with a composed configuration. This module decides
which run that is (the unfinished one of the same command, or a new one), keeps its folder, and follows it through the
registry: the trainer writes a row of `steps` in the same transaction as the step's plays, so what is shown is what is
stored. If this process dies, the child dies with it; the same command then continues from the last checkpoint.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any

from spade_envs.errors import SpadeError
from spade_registry.registry import Registry

POLL_SECONDS = 0.25
GRACE_SECONDS = 20.0
LOCK_SECONDS = 30.0
LOG_TAIL_LINES = 25
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class RunFailed(SpadeError):
    """The training process ended before its last step."""


@dataclass(frozen=True)
class Run:
    """A run that is about to be started or continued."""

    id: int
    preset: str
    directory: Path
    registry: Path
    continued: bool
    config: Any
    """The complete verl configuration (an omegaconf DictConfig)."""

    @property
    def total_steps(self) -> int:
        """Number of the run's last step."""
        return int(self.config.trainer.total_training_steps)

    @property
    def log(self) -> Path:
        """Everything that verl and Ray print."""
        return self.directory / "log.txt"


def require_training_stack() -> None:
    """Raise `SpadeError` with the remedy when the extra `train` is not installed."""
    missing = [name for name in ("torch", "transformers", "verl", "ray", "transfer_queue") if not util.find_spec(name)]
    if missing:
        raise SpadeError(
            f"training needs the extra `train` ({', '.join(missing)} missing): install torch for your machine, "
            "then pip install 'spade-envs[train]'"
        )


def require_device(preset: str, config: Any) -> None:
    """Raise `SpadeError` when the preset trains on an accelerator that this machine does not have."""
    if config.trainer.device != "cuda":
        return
    import torch

    if not torch.cuda.is_available():
        raise SpadeError(
            f"the preset `{preset}` trains on CUDA GPUs and torch sees none here: "
            "use --preset nano on a CPU, or start the command on a GPU node"
        )


def config_hash(preset: str, overrides: Sequence[str]) -> str:
    """Return the identity of a command: the same preset and settings continue the same unfinished run."""
    return hashlib.sha256(json.dumps([preset, sorted(overrides)]).encode()).hexdigest()[:16]


def prepare(preset: str, overrides: Sequence[str], registry: Path | None, *, fresh: bool = False) -> Run:
    """Choose the unfinished run of the same command, or begin a new one, and write its configuration.

    Raises `SpadeError` for an unknown preset or override, a missing extra or device, or a registry that cannot be used.
    Nothing is written before all of that has been checked.
    """
    require_training_stack()
    from spade_trainer.presets import compose, require_model

    composed = compose(preset, overrides)
    require_device(preset, composed)
    require_model(composed)
    with Registry.open(registry) as store:
        identity = config_hash(preset, overrides)
        found = None if fresh else store.latest_run(preset, identity, "running")
        run_id = found.id if found else store.start_run(preset, {"hash": identity, "overrides": list(overrides)}, None)
        directory = store.path.parent / f"{store.path.stem}-runs" / f"{run_id:04d}-{preset}"
        config = compose(
            preset,
            [*overrides, f"spade.registry={store.path}", f"spade.run={run_id}", f"spade.directory={directory}"],
        )
        if found is None:
            known = {"hash": identity, "overrides": list(overrides), "verl": _plain(config)}
            store.update_run(run_id, configuration=known, directory=directory)
        run = Run(run_id, preset, directory, store.path, found is not None, config)
    _write_config(run)
    return run


def _plain(config: Any) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(config, resolve=False)


def _write_config(run: Run) -> None:
    from omegaconf import OmegaConf

    run.directory.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(run.config, run.directory / "config.yaml")


def command(run: Run) -> list[str]:
    """Return the child's command line: verl's own entry point on the written configuration."""
    return [
        *(sys.executable, "-W", "ignore", "-m", "verl.trainer.main_ppo"),
        *("--config-path", str(run.directory), "--config-name", "config"),
        *(f"hydra.run.dir={run.directory / 'hydra'}", "hydra.output_subdir=null"),
    ]


@contextmanager
def locked(run: Run) -> Iterator[int]:
    """Hold the run's lock and yield its file descriptor, which the child inherits.

    The lock is free when the last holder is gone, so a child that is still ending after its parent was killed is waited
    for. Raises `SpadeError` when another process keeps training this run.
    """
    with (run.directory / "lock").open("w") as handle:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SpadeError(
                        f"run {run.id} is being trained by another process: wait for it, or start a new run with --new"
                    ) from None
                time.sleep(POLL_SECONDS)
        yield handle.fileno()


def train(run: Run, on_step: Callable[[Any], None], on_wait: Callable[[float], None] = lambda _: None) -> None:
    """Train to the last step, calling `on_step` with each newly stored step and `on_wait` with the seconds since.

    Raises `RunFailed` with the end of the log when the training process ends early. On an interrupt the child is
    stopped first.
    """
    with locked(run) as lock, run.log.open("ab") as log, Registry.open(run.registry, readonly=True) as store:
        child = subprocess.Popen(
            command(run),
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=run.directory,
            env={**os.environ, **environment(run)},
            start_new_session=True,
            pass_fds=(lock,),
            preexec_fn=_die_with_parent,
        )
        try:
            _follow(run, store, child, on_step, on_wait)
        finally:
            _stop(child)
    _require_finished(run, child.returncode)


def environment(run: Run) -> dict[str, str]:
    """Return the environment variables that the training process needs beyond the user's own."""
    from spade_trainer.presets import environment as of_config

    return {"PYTHONUNBUFFERED": "1", "HYDRA_FULL_ERROR": "1", **of_config(run.config)}


def _follow(
    run: Run, store: Registry, child: subprocess.Popen, on_step: Callable[[Any], None], on_wait: Callable[[float], None]
) -> None:
    shown = max((step.step for step in store.steps(run.id)), default=0) if run.continued else 0
    since = time.monotonic()
    while True:
        over = child.poll() is not None
        for step in store.steps(run.id, after=shown):
            shown, since = step.step, time.monotonic()
            on_step(step)
        if over:
            return
        on_wait(time.monotonic() - since)
        time.sleep(POLL_SECONDS)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop(child: subprocess.Popen) -> None:
    """End the child and everything it started; its process group outlives a crash of its leader otherwise."""
    for number, patience in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
        if child.poll() is None:
            os.killpg(child.pid, number)
            try:
                child.wait(patience)
            except subprocess.TimeoutExpired:
                continue
        break
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _require_finished(run: Run, code: int | None) -> None:
    with Registry.open(run.registry) as store:
        done = max((step.step for step in store.steps(run.id)), default=0)
        if code == 0 and done >= run.total_steps:
            store.finish_run(run.id, "finished")
            return
    tail = "\n".join(run.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
    raise RunFailed(
        f"training ended at step {done} of {run.total_steps} with exit code {code}; the log is {run.log}, the same "
        f"command continues the run. Its last lines:\n{tail}"
    )


def diagnostics() -> dict[str, str]:
    """Facts for `spade-envs doctor`: the registry's path, and the verl plugin loaded or why not."""
    try:
        metadata.version("verl")
    except metadata.PackageNotFoundError:
        return {"verl plugin": "not loaded: verl is not installed (the extra `train`)"}
    from spade_trainer.verl_plugin import status

    return status()
