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
import socket
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
ACTIONS = [f"I will look around first. \\boxed{{{move}}}" for move in ("go b", "go c", "look", "go a", "guess zircon")]
TURNS = 15
ROUNDS = 9


Episodes = Callable[[], tuple[float, float, int]]
"""Plays episodes; seconds of its resets, seconds of its steps, and the number of steps."""


def clocked(resetting: Callable[[int], object], stepping: Callable[[str], object], n: int, rounds: int) -> Episodes:
    """Episodes of `TURNS` turns, `n` side by side, from calls that open all and step all."""

    def run() -> tuple[float, float, int]:
        resets = steps = 0.0
        for seed in range(rounds):
            begin = time.perf_counter()
            resetting(seed)
            opened = time.perf_counter()
            for turn in range(TURNS):
                stepping(ACTIONS[turn % len(ACTIONS)])
            resets, steps = resets + opened - begin, steps + time.perf_counter() - opened
        return resets, steps, rounds * TURNS * n

    return run


def direct() -> Episodes:
    """The class called in this process, as one would without a sandbox."""
    namespace: dict[str, Any] = {}
    exec(compile(SOURCE, "word_vault.py", "exec", dont_inherit=True), namespace)
    env = namespace["WordVaultEnv"]()
    return clocked(lambda seed: env.reset(seed=seed), env.step, 1, 40)


def single(pool: Pool) -> Episodes:
    """`Loaded.step` of one instance, one step a message."""
    return batch(pool, 1, 40)


def single_env(pool: Pool) -> Episodes:
    """`SpadeEnv`: the same through the Gymnasium interface."""
    env = SpadeEnv(Record(PROGRAM, max_turns=100), pool=pool)
    return clocked(lambda seed: env.reset(seed=seed), env.step, 1, 40)


def batch(pool: Pool, n: int, rounds: int = 4) -> Episodes:
    """`Loaded.step` of `n` instances, one message each way."""
    loaded = pool.load(PROGRAM)
    ids = loaded.make(n)
    return clocked(
        lambda seed: loaded.reset(ids, range(seed, seed + n)), lambda action: loaded.step(ids, [action] * n), n, rounds
    )


def vector(env: Any, n: int) -> Episodes:
    """A vector environment."""
    return clocked(lambda seed: env.reset(seed=seed), lambda action: env.step([action] * n), n, 4)


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


def others() -> dict[str, Episodes]:
    """Text environments of other libraries: other games, so that only the order of magnitude compares."""
    found: dict[str, Episodes] = {}
    try:
        import gem

        env = gem.make("game:GuessTheNumber-v0-easy")
        found["gem (in process, no isolation)"] = clocked(lambda seed: env.reset(seed=seed), env.step, 1, 40)
    except Exception as error:
        print(f"left out gem: {type(error).__name__}: {str(error)[:80]}")
    try:
        import textarena

        arena = textarena.make(env_id="GuessTheNumber-v0")
        found["textarena (in process, no isolation)"] = clocked(
            lambda seed: arena.reset(num_players=1, seed=seed), lambda action: arena.step(action=action), 1, 40
        )
    except Exception as error:
        print(f"left out textarena: {type(error).__name__}: {str(error)[:80]}")
    print("left out OpenEnv: its environments are containers with a web server, and there is no container runtime here")
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


def empty_round_trip(repeats: int = 3000) -> float:
    """Microseconds of one byte to another process and back: what no message between processes can undercut here."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        while data := theirs.recv(1):
            theirs.send(data)
        os._exit(0)
    theirs.close()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        ours.send(b"x")
        ours.recv(1)
        seconds.append(time.perf_counter() - begin)
    ours.close()
    os.waitpid(child, 0)
    return 1e6 * statistics.median(seconds)


def medians(functions: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Medians over rounds in which each function is measured once, in turn."""
    values: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds + 1):
        for name, function in functions.items():
            values[name].append(function())
    return {name: statistics.median(measured[1:]) for name, measured in values.items()}


def played(episodes: dict[str, Episodes], rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Median microseconds of a step and of a reset, for each way to play; the first round warms up."""
    steps: dict[str, list[float]] = {name: [] for name in episodes}
    resets: dict[str, list[float]] = {name: [] for name in episodes}
    for _ in range(rounds + 1):
        for name, run in episodes.items():
            opening, stepping, count = run()
            steps[name].append(1e6 * stepping / count)
            resets[name].append(1e6 * opening / (count / TURNS))
    return tuple({name: statistics.median(row[1:]) for name, row in of.items()} for of in (steps, resets))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of each figure")
    parser.add_argument("--out", type=Path, default=None, help="JSON file for the result")
    arguments = parser.parse_args()
    round_trip = empty_round_trip()
    pool = Pool()
    sync = gymnasium.vector.SyncVectorEnv([_Plain] * 64)
    asynchronous = gymnasium.vector.AsyncVectorEnv([_Plain] * 8, shared_memory=False)
    episodes: dict[str, Episodes] = {
        "direct call": direct(),
        "sealed, one step a message": single(pool),
        "SpadeEnv": single_env(pool),
        **{f"sealed, batch of {n}": batch(pool, n) for n in (8, 64, 256)},
        "SpadeVectorEnv, 64": vector(SpadeVectorEnv(Record(PROGRAM, max_turns=100), 64, pool=pool), 64),
        "SyncVectorEnv, 64 (no isolation)": vector(sync, 64),
        "AsyncVectorEnv, 8 processes (no isolation)": vector(asynchronous, 8),
        **others(),
    }
    per_step, per_reset = played(episodes, arguments.rounds)
    begin = medians(starts(), 2 * arguments.rounds)
    base, sealed = per_step["direct call"], begin["sealed worker"]
    result = {
        "step": {name: {"us": value, "ratio": value / base} for name, value in per_step.items()},
        "reset": {name: {"us": value} for name, value in per_reset.items()},
        "start": {name: {"ms": value, "ratio": value / sealed} for name, value in begin.items()},
        "empty_round_trip_us": round_trip,
        "memory_mib": memory(),
        "cpus": os.cpu_count(),
        "python": sys.version.split()[0],
    }
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print("\n                                             step us    x direct   reset us")
    for name, row in result["step"].items():
        print(f"  {name:<44} {row['us']:7.1f} {row['ratio']:8.2f} {result['reset'][name]['us']:10.1f}")
    print(f"  {'an empty round trip between two processes':<44} {round_trip:7.1f} {round_trip / base:8.2f}")
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
