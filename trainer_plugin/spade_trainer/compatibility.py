"""Settings of verl that the method depends on, checked before anything starts.

verl has defaults of its own for everything, and a value that contradicts the method would not fail: it would train on
something else. `presets.compose` checks a preset with its overrides, and the trainer checks the configuration it is
given, so that a verl user's own file is held to the same rules.
"""

from __future__ import annotations

from typing import Any

from spade_trainer.config import ConfigError, SpadeConfig


def require_compatible(config: Any, spade: SpadeConfig) -> None:
    """Raise `ConfigError` for the first setting of verl that contradicts the method's.

    Args:
        config: verl's complete configuration (an omegaconf DictConfig).
        spade: its part `spade`, read.
    """
    for name, wanted, reason in _equalities(config, spade):
        found = _select(config, name)
        if found != wanted:
            raise ConfigError(f"{name} must be {wanted}, because {reason}; got {found}")
    _require_room(config, spade)
    if not config.trainer.total_training_steps:
        raise ConfigError("trainer.total_training_steps must be given, because a self-play run has no epochs")


def _equalities(config: Any, spade: SpadeConfig) -> list[tuple[str, Any, str]]:
    rules: list[tuple[str, Any, str]] = [
        ("trainer.v1.trainer_mode", "spade", "another trainer would never design an environment"),
        ("trainer.use_v1", True, "the plugin extends verl's v1 trainer"),
        ("actor_rollout_ref.rollout.n", 1, "spade.player.plays is the group size"),
        (
            "actor_rollout_ref.rollout.temperature",
            spade.player.temperature,
            "verl computes log-probabilities at it, and spade.player.temperature is what plays are sampled at",
        ),
        ("algorithm.adv_estimator", "spade", "plays are compared within their environment, designs within their skill"),
        ("algorithm.filter_groups.enable", False, "a round already leaves out what does not count"),
        (
            "algorithm.rollout_correction.bypass_mode",
            False,
            "held-back samples need the current policy's probabilities",
        ),
    ]
    if spade.designer.mode == "trained":
        reason = "a trained designer's delayed samples are corrected by importance weights"
        rules.append(("actor_rollout_ref.rollout.calculate_log_probs", True, reason))
    return rules


def _require_room(config: Any, spade: SpadeConfig) -> None:
    """Answers must fit into verl's response length, or its limit would silently take the place of ours."""
    room = config.data.max_response_length
    limits = {"spade.player.max_tokens": spade.player.max_tokens}
    if spade.designer.mode in ("trained", "frozen"):
        limits |= {
            "spade.designer.max_tokens": spade.designer.max_tokens,
            "spade.designer.hint_max_tokens": spade.designer.hint_max_tokens,
        }
    for name, limit in limits.items():
        if limit > room:
            raise ConfigError(f"{name} must be at most data.max_response_length, {room}; got {limit}")


def _select(config: Any, name: str) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.select(config, name)
