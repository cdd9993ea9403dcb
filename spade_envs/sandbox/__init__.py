"""The isolated runtime: programs run in sealed processes, one a program, and answer in checked types.

Three layers, each described where it lives: a static policy (policy.py), a sealed process (seal.py, zygote.py,
worker.py), and a host that trusts nothing (host.py). `Pool` and `Loaded` are what the rest of the project uses.
"""

from __future__ import annotations

from typing import Any

from spade_envs.contract import Program
from spade_envs.errors import SpadeError
from spade_envs.sandbox.pool import Limits, Loaded, Pool, default_pool

__all__ = ["Limits", "Loaded", "Pool", "default_pool", "status"]

_TRIAL = """
class TrialEnv:
    def reset(self, seed=None):
        return "ready", {}

    def step(self, action):
        return action, 0.0, True, False, {}
"""


def status() -> dict[str, Any]:
    """What the sandbox finds on this machine, by sealing a worker and playing one turn in it.

    `available` says whether untrusted programs can be run; `reason` why not; `layers` what was active in the worker;
    `landlock_abi` the kernel's Landlock version, 0 where there is none.
    """
    from spade_envs.sandbox import seal

    found: dict[str, Any] = {"available": False, "reason": None, "layers": [], "landlock_abi": 0}
    try:
        found["reason"] = seal.supported()
        if found["reason"] is None:
            found["landlock_abi"] = seal.landlock_abi()
            with Pool(max_workers=1) as pool:
                loaded = pool.load(Program.from_source(_TRIAL))
                ids = loaded.make(1)
                loaded.reset(ids, [0])
                loaded.step(ids, ["hello"])
                found.update(available="seccomp" in loaded.layers, layers=loaded.layers)
    except (SpadeError, OSError) as error:
        found["reason"] = str(error)
    return found
