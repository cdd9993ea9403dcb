"""What isolation costs: the same program called directly, sealed, in batches, and in other people's runtimes.

    python benchmarks/runtime.py --out runtime.json

All figures are medians of repeated measurements in one run, interleaved, so that a busy machine disturbs all alike;
what counts are the ratios. Libraries that are not installed are left out and said so.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium

from spade_envs.contract import Program
from spade_envs.env import SpadeEnv
from spade_envs.sandbox import Pool
from spade_envs.sources import Record
from spade_envs.vector import SpadeVectorEnv

SOURCE = (Path(__file__).parents[1] / "tests" / "cases" / "benign" / "word_vault.py").read_text(encoding="utf-8")
PROGRAM = Program.from_source(SOURCE)
ACTIONS = [f"I will look around first. \\boxed{{{move}}}" for move in ("go b", "go c", "look", "go a", "guess amber")]
TURNS = 15
ROUNDS = 9


def timed(function: Callable[[], int]) -> float:
    """Microseconds for each of the steps that a function makes and counts."""
    begin = time.perf_counter()
    steps = function()
    return 1e6 * (time.perf_counter() - begin) / steps


def direct() -> Callable[[], int]:
    """The class called in this process, as the sandbox's user would without one."""
    namespace: dict[str, Any] = {}
    exec(compile(SOURCE, "word_vault.py", "exec", dont_inherit=True), namespace)

    def run() -> int:
        for seed in range(20):
            env = namespace["WordVaultEnv"]()
            env.reset(seed=seed)
            for turn in range(TURNS):
                env.step(ACTIONS[turn % len(ACTIONS)])
        return 20 * TURNS

    return run


def single(pool: Pool) -> Callable[[], int]:
    """`SpadeEnv`, one instance, one step a message."""
    env = SpadeEnv(Record(PROGRAM, max_turns=100), pool=pool)

    def run() -> int:
        for seed in range(20):
            env.reset(seed=seed)
            for turn in range(TURNS):
                env.step(ACTIONS[turn % len(ACTIONS)])
        return 20 * TURNS

    return run


def batch(pool: Pool, n: int) -> Callable[[], int]:
    """`Loaded.step` of `n` instances, one message each way."""
    loaded = pool.load(PROGRAM)
    ids = loaded.make(n)

    def run() -> int:
        loaded.reset(ids, range(n))
        for turn in range(TURNS):
            loaded.step(ids, [ACTIONS[turn % len(ACTIONS)]] * n)
        return n * TURNS

    return run


def vector(env: Any, n: int) -> Callable[[], int]:
    """A vector environment."""

    def run() -> int:
        env.reset(seed=1)
        for turn in range(TURNS):
            env.step([ACTIONS[turn % len(ACTIONS)]] * n)
        return n * TURNS

    return run


class _Plain(gymnasium.Env[str, str]):
    """The class as a plain Gymnasium environment, without isolation, for Gymnasium's own vector environments."""

    def __init__(self) -> None:
        namespace: dict[str, Any] = {}
        exec(compile(SOURCE, "word_vault.py", "exec", dont_inherit=True), namespace)
        from spade_envs.spaces import UnicodeText

        self.env = namespace["WordVaultEnv"]()
        self.observation_space = self.action_space = UnicodeText(70_000)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.env.reset(seed=seed)

    def step(self, action: str) -> Any:
        return self.env.step(action)


def others() -> dict[str, Callable[[], int]]:
    """Environments of other libraries that step text: only their own overhead is comparable."""
    found: dict[str, Callable[[], int]] = {}
    try:
        import gem

        env = gem.make("game:GuessTheNumber-v0")

        def run_gem() -> int:
            for seed in range(20):
                env.reset(seed=seed)
                for turn in range(TURNS):
                    env.step(f"\\boxed{{{turn}}}")
            return 20 * TURNS

        found["gem (in process, no isolation)"] = run_gem
    except Exception as error:
        print(f"left out gem: {type(error).__name__}: {str(error)[:80]}")
    try:
        import textarena

        arena = textarena.make(env_id="GuessTheNumber-v0")

        def run_arena() -> int:
            for seed in range(20):
                arena.reset(num_players=1, seed=seed)
                for turn in range(5):
                    arena.step(action=f"[{turn}]")
            return 20 * 5

        found["textarena (in process, no isolation)"] = run_arena
    except Exception as error:
        print(f"left out textarena: {type(error).__name__}: {str(error)[:80]}")
    return found


def starts() -> dict[str, Callable[[], float]]:
    """Ways to a first answer of a new program, in milliseconds."""
    number = iter(range(10**9))
    pool = Pool(max_workers=4)
    pool.load(PROGRAM)

    def sealed() -> float:
        program = Program.from_source(SOURCE + f"\n# {next(number)}\n")
        begin = time.perf_counter()
        loaded = pool.load(program)
        ids = loaded.make(1)
        loaded.reset(ids, [1])
        seconds = time.perf_counter() - begin
        loaded.close(ids)
        return 1e3 * seconds

    script = f"exec(compile({SOURCE!r}, 'p', 'exec', dont_inherit=True)); print(WordVaultEnv().reset(seed=1)[0])"

    def command(*words: str) -> Callable[[], float]:
        def run() -> float:
            begin = time.perf_counter()
            subprocess.run([*words, sys.executable, "-c", script], check=True, capture_output=True)
            return 1e3 * (time.perf_counter() - begin)

        return run

    found = {"sealed worker": sealed, "a fresh Python": command()}
    if shutil.which("bwrap"):
        found["bubblewrap and Python"] = command("bwrap", "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent")
    else:
        print("left out bubblewrap: bwrap is not installed")
    return found


def pss_mib(pid: int) -> float:
    """Proportional memory of a process, in MiB: pages that are shared count in part."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024


def memory() -> dict[str, float]:
    """MiB for each worker, idle and with 256 instances."""
    with Pool(max_workers=40) as pool:
        idle = [pool.load(Program.from_source(SOURCE + f"\n# idle {i}\n")) for i in range(32)]
        per_idle = statistics.median(pss_mib(one.pid) for one in idle if one.pid)
        loaded = pool.load(PROGRAM)
        ids = loaded.make(256)
        loaded.reset(ids, range(256))
        return {"idle worker": per_idle, "worker with 256 instances": pss_mib(loaded.pid or os.getpid())}


def medians(functions: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Medians over rounds in which each function is measured once, in turn."""
    values: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds + 1):
        for name, function in functions.items():
            values[name].append(function())
    return {name: statistics.median(measured[1:]) for name, measured in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of each figure")
    parser.add_argument("--out", type=Path, default=None, help="JSON file for the result")
    arguments = parser.parse_args()
    pool = Pool()
    sync = gymnasium.vector.SyncVectorEnv([_Plain] * 64)
    asynchronous = gymnasium.vector.AsyncVectorEnv([_Plain] * 8, shared_memory=False)
    steps: dict[str, Callable[[], int]] = {
        "direct call": direct(),
        "sealed, one step a message": single(pool),
        **{f"sealed, batch of {n}": batch(pool, n) for n in (8, 64, 256)},
        "SpadeVectorEnv, 64": vector(SpadeVectorEnv(Record(PROGRAM, max_turns=100), 64, pool=pool), 64),
        "SyncVectorEnv, 64 (no isolation)": vector(sync, 64),
        "AsyncVectorEnv, 8 processes (no isolation)": vector(asynchronous, 8),
        **others(),
    }
    per_step = medians({name: (lambda run=run: timed(run)) for name, run in steps.items()}, arguments.rounds)
    begin = medians(starts(), 2 * arguments.rounds)
    base, sealed = per_step["direct call"], begin["sealed worker"]
    result = {
        "step": {name: {"us": value, "ratio": value / base} for name, value in per_step.items()},
        "start": {name: {"ms": value, "ratio": value / sealed} for name, value in begin.items()},
        "memory_mib": memory(),
        "cpus": os.cpu_count(),
        "python": sys.version.split()[0],
    }
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print("\nper step                                          us    x direct")
    for name, row in result["step"].items():
        print(f"  {name:<44} {row['us']:7.1f} {row['ratio']:8.2f}")
    print("\nspawn, load, reset                                ms    x sealed")
    for name, row in result["start"].items():
        print(f"  {name:<44} {row['ms']:7.1f} {row['ratio']:8.2f}")
    print("\nmemory                                           MiB")
    for name, mib in result["memory_mib"].items():
        print(f"  {name:<44} {mib:7.1f}")
    asynchronous.close()
    pool.close()


if __name__ == "__main__":
    main()
