"""Names the CPU rollout in verl's tables: `actor_rollout_ref.rollout.name=spade_cpu`."""

from __future__ import annotations

from typing import Any

from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry

NAME = "spade_cpu"


def _replica() -> Any:
    from spade_trainer.verl_plugin.cpu.rollout import CPUReplica

    return CPUReplica


RolloutReplicaRegistry.register(NAME, _replica)
# verl has no function for this table; every built-in backend is a literal in it.
base._ROLLOUT_REGISTRY[(NAME, "async")] = "spade_trainer.verl_plugin.cpu.rollout.CPUAdapter"
