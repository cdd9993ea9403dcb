"""Run designed environments safely, through Gymnasium.

Importing this package makes `gymnasium.make("spade/<id>")` work; everything else is loaded when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spade_envs.namespace import install

if TYPE_CHECKING:
    from spade_envs.contract import Fault, Program, StepResult, is_win
    from spade_envs.env import SpadeEnv
    from spade_envs.episode import Episode
    from spade_envs.sandbox import Limits, Pool, default_pool
    from spade_envs.sources import Record, resolve
    from spade_envs.vector import SpadeVectorEnv

_HOMES = {
    **dict.fromkeys(("Fault", "Program", "StepResult", "is_win"), "spade_envs.contract"),
    **dict.fromkeys(("Limits", "Pool", "default_pool"), "spade_envs.sandbox"),
    **dict.fromkeys(("Record", "resolve"), "spade_envs.sources"),
    "Episode": "spade_envs.episode",
    "SpadeEnv": "spade_envs.env",
    "SpadeVectorEnv": "spade_envs.vector",
}
__all__ = [
    *("Episode", "Fault", "Limits", "Pool", "Program", "Record", "SpadeEnv", "SpadeVectorEnv"),
    *("StepResult", "default_pool", "is_win", "resolve"),
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("spade-envs")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


install()
