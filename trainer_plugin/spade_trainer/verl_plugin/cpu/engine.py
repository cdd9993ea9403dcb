"""verl's FSDP engine on the CPU: it works there with FSDP2, but is registered for accelerators only.

Two adjustments: a frozen reference model asks for pinned host memory, which needs an accelerator to pin for; and Ray
gives an actor without a CPU request one thread, while a training rank should use its share of the cores.
"""

from __future__ import annotations

import os

import torch
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl


def share_of_cores() -> int:
    """Return the threads of one of `WORLD_SIZE` ranks on this machine."""
    return max(1, (os.cpu_count() or 1) // int(os.environ.get("WORLD_SIZE", "1")))


EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")(
    transformer_impl.FSDPEngineWithLMHead
)
_policy = transformer_impl.CPUOffloadPolicy
transformer_impl.CPUOffloadPolicy = lambda pin_memory=True: _policy(pin_memory=False)  # type: ignore[misc, assignment]
if "RANK" in os.environ:
    torch.set_num_threads(share_of_cores())
