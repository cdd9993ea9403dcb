"""What verl imports: registers each part of the plugin for the moment its place in verl exists. Light and safe.

The CPU parts are registered only where `VERL_PLATFORM=cpu` is set; on a GPU nothing of verl is touched.
"""

import os

from spade_trainer.presets import register_resolvers
from spade_trainer.verl_plugin.lazy import Part, after_import

_HERE = "spade_trainer.verl_plugin"
METHOD = (
    Part("advantage estimator", f"{_HERE}.advantage", "verl.trainer.ppo.core_algos"),
    Part("trainer", f"{_HERE}.trainer", "verl.trainer.ppo.v1.trainer_sync"),
    Part("agent loops", f"{_HERE}.loops", "verl.experimental.agent_loop.agent_loop"),
)
CPU = (
    Part("CPU platform", f"{_HERE}.cpu.platform", "verl.plugin.platform.platform_manager"),
    Part("CPU rollout", f"{_HERE}.cpu.registration", "verl.workers.rollout.replica"),
    Part("CPU engine", f"{_HERE}.cpu.engine", "verl.workers.engine.fsdp.transformer_impl"),
    Part("CPU process group", f"{_HERE}.cpu.process_group", "verl.utils.distributed"),
)
ON_CPU = os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"
PARTS = (*METHOD, *CPU) if ON_CPU else METHOD

register_resolvers()
for _part in PARTS:
    after_import(_part)
