"""What a large registry costs: look-ups, suggestions, search, draws, and recording a step.

    python benchmarks/registry.py --environments 100000 --plays 10000000 --out registry.json

A seeded script makes the file (it is kept with --file and used again). Figures are medians; ratios compare, in the
same run, with a registry that holds a single environment, and with `gymnasium.register` called for each environment.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spade_registry import NewEnvironment, Play, Registry, Sampler
from spade_registry.replay import Candidates

SKILLS = (
    *("Mathematical Reasoning", "Logical Deduction", "Spatial Reasoning"),
    *("Pattern Recognition", "Optimization", "Causal Inference"),
)
WORDS = [
    "amber",
    "basin",
    "cobalt",
    "delta",
    "ember",
    "fjord",
    "garnet",
    "harbour",
    "island",
    "jasper",
    "kiln",
    "lantern",
    "meadow",
    "north",
    "orchard",
    "pebble",
]
SOURCE = '''"""{text}"""
import random
import re


class {name}Env:
    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.hidden, self.turn = random.Random(seed).randint({low}, {high}), 0
        return "A {word} hides a number from {low} to {high}. Reply \\\\boxed{{n}}.", {{}}

    def step(self, action):
        self.turn += 1
        found = re.findall(r"\\\\boxed\\{{(\\d+)\\}}", action)
        if found and int(found[-1]) == self.hidden:
            return "Right.", 1.0, True, False, {{}}
        return "No.", 0.0, False, self.turn >= self.max_turns, {{}}
'''
EAGER = 20_000
"""Environments that are registered one by one for comparison: each call scans all, so 100,000 take many minutes."""


def program(rng: random.Random, number: int) -> tuple[str, str]:
    """A program of its own for each number, and a word of it."""
    word = rng.choice(WORDS)
    name = f"{word.title()}{rng.choice(WORDS).title()}{rng.choice(WORDS).title()}"
    text = " ".join(rng.choice(WORDS) for _ in range(12))
    return SOURCE.format(name=name, text=text, low=number, high=number + rng.randint(9, 99), word=word), word


def build(path: Path, environments: int, plays: int, seed: int = 0) -> None:
    """Make the registry: programs, hints, plays of both arms, measurements."""
    rng = random.Random(seed)
    with Registry.open(path) as registry:
        connection = registry.connection()
        connection.execute("PRAGMA synchronous = OFF")  # a benchmark's file may be made again
        run = registry.start_run("benchmark", {"environments": environments, "plays": plays}, None)
        for start in range(0, environments, 1000):
            batch = []
            for number in range(start, min(start + 1000, environments)):
                source, word = program(rng, 1000 * number)
                batch.append(
                    NewEnvironment(
                        source,
                        skill=SKILLS[number % 6],
                        max_turns=4,
                        hint=f"Halve the range of the {word}.",
                        observation=f"A {word} hides a number.",
                    )
                )
            registry.add_all(batch)
            if start % 20_000 == 0:
                print(f"  {start} environments", flush=True)
        _plays(connection, run, plays // environments, rng)
        _measure(connection, run)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("ANALYZE")


def _plays(connection: Any, run: int, each: int, rng: random.Random) -> None:
    rows = connection.execute(
        "SELECT e.id, h.id FROM environments AS e JOIN hints AS h ON h.environment = e.id"
    ).fetchall()

    def generate() -> Iterator[tuple[Any, ...]]:
        for environment, hint in rows:
            rate, gap = rng.random(), 0.4 * rng.random()
            for play in range(each):
                hinted = play % 2
                won = rng.random() < rate + hinted * gap
                yield (
                    environment,
                    hint if hinted else None,
                    run,
                    1,
                    "model",
                    play // 2,
                    float(won),
                    int(won),
                    3,
                    "won" if won else "lost",
                    90,
                    0.5,
                )

    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO plays (environment, hint, run, step, policy, seed, return, won, turns, outcome, tokens, seconds) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        generate(),
    )
    connection.execute("COMMIT")


def _measure(connection: Any, run: int) -> None:
    from spade_registry.measuring import update_standings, write_measurement

    connection.execute("BEGIN")
    for number, (row, env_id) in enumerate(connection.execute("SELECT id, env_id FROM environments").fetchall()):
        write_measurement(connection, row, env_id, run, 1)
        update_standings(connection, [(row, run)])
        if number % 20_000 == 0:
            print(f"  {number} measured", flush=True)
    connection.execute("COMMIT")


def median_ms(function: Callable[[], Any], repeats: int, before: Callable[[], Any] | None = None) -> float:
    """Median milliseconds of a call; `before` runs before each one, and is not counted."""
    seconds = []
    for _ in range(repeats):
        if before is not None:
            before()
        begin = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(seconds)


def in_a_new_process(registry: Path, code: str, repeats: int = 5) -> float:
    """Median milliseconds that a new Python needs for some code, as it measures itself from its first line."""
    script = f"import time; _b = time.perf_counter()\n{code}\nprint(1e3 * (time.perf_counter() - _b))"
    environment = {**os.environ, "SPADE_REGISTRY": str(registry)}
    found = [
        float(
            subprocess.run(
                [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(repeats)
    ]
    return statistics.median(found)


def make_ms(registry: Path, key: str) -> float:
    """Median milliseconds of `gymnasium.make` in a process that has made one before."""
    code = (
        "import gymnasium, spade_envs, statistics\n"
        f"gymnasium.make({key!r}).close()\n"
        "times = []\n"
        "for _ in range(30):\n"
        f"    b = time.perf_counter(); gymnasium.make({key!r}).close(); times.append(time.perf_counter() - b)\n"
        "import sys; print(1e3 * statistics.median(times)); sys.exit()"
    )
    environment = {**os.environ, "SPADE_REGISTRY": str(registry)}
    done = subprocess.run(
        [sys.executable, "-c", "import time\n" + code], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def eager() -> float:
    """Seconds of `gymnasium.register` for `EAGER` environments, in a process of its own."""
    code = (
        "import gymnasium, time\n"
        "b = time.perf_counter()\n"
        f"for i in range({EAGER}): gymnasium.register(f'eager/E{{i}}-v0', entry_point='x:y')\n"
        "print(time.perf_counter() - b)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def draws(n: int) -> float:
    """Milliseconds of 24 draws over `n` candidates."""
    rng = np.random.default_rng(0)
    found = Candidates([f"spade/E{i}" for i in range(n)], ["s"] * n, rng.random(n), rng.random(n))
    sampler = Sampler(lambda: found, score="regret", seed=0)
    sampler.sample(24)
    return median_ms(lambda: sampler.sample(24), 15)


def measure(path: Path, folder: Path) -> dict[str, Any]:
    """Every figure."""
    rng = random.Random(1)
    with Registry.open(path) as registry:
        count = registry.connection().execute("SELECT count(*) FROM environments").fetchone()[0]
        ids = [
            row[0]
            for row in registry.connection().execute("SELECT env_id FROM environments ORDER BY random() LIMIT 2000")
        ]
        run = registry.start_run("benchmark", {"part": "recording"}, None)
        step = iter(range(1, 10**6))
        chosen = ids[:24]

        def record() -> None:
            number = next(step)
            plays = [
                Play(
                    one, run, number, "model", seed, hinted, float(won := rng.random() < 0.5), "won" if won else "lost"
                )
                for one in chosen
                for seed in range(16)
                for hinted in (False, True)
            ]
            registry.commit_round(run, number, plays=plays)

        sampler = registry.replay(seed=0)
        sampler.sample(24)
        figures: dict[str, Any] = {
            "look-up by id, us": 1e3 * median_ms(lambda: registry.get(rng.choice(ids)), 2000),
            "suggestions for a mistyped id, ms": median_ms(
                lambda: registry.suggest(rng.choice(ids).split("-")[0][:-2] + "x"), 30
            ),
            "full-text search, ms": median_ms(lambda: registry.search(" ".join(rng.sample(WORDS, 2))), 30),
            "24 draws by regret, ms": median_ms(lambda: sampler.sample(24), 30),
            "24 draws right after a step, ms": median_ms(lambda: sampler.sample(24), 10, before=record),
            "24 draws of 1,000,000, ms": draws(1_000_000),
            "recording 24 x 32 plays, ms": median_ms(record, 20),
            "bytes per environment": os.path.getsize(path) / count,
        }
        plays = registry.connection().execute("SELECT count(*) FROM plays").fetchone()[0]
        single = folder / "single.db"
        with Registry.open(single) as other:
            record_of = registry.get(ids[0])
            assert record_of is not None
            other.add(record_of.program, max_turns=record_of.max_turns)
    first = f"import spade_envs, gymnasium\ngymnasium.make({ids[0]!r})"
    figures["import and first make, ms"] = in_a_new_process(path, first)
    figures["the same, one environment, ms"] = in_a_new_process(single, first)
    figures["make, ms"], figures["make, one environment, ms"] = make_ms(path, ids[0]), make_ms(single, ids[0])
    figures["make, ratio"] = figures["make, ms"] / figures["make, one environment, ms"]
    seconds = eager()
    figures[f"gymnasium.register x {EAGER}, s"] = seconds
    figures[f"gymnasium.register x {EAGER} / import and first make"] = (
        1e3 * seconds / figures["import and first make, ms"]
    )
    figures["environments"], figures["plays"] = count, plays
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=int, default=100_000, help="environments of the registry")
    parser.add_argument("--plays", type=int, default=10_000_000, help="plays of the registry")
    parser.add_argument("--file", type=Path, default=None, help="keep the registry here, and use it again")
    parser.add_argument("--out", type=Path, default=None, help="JSON file for the result")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = arguments.file or Path(temporary) / "large.db"
        if not path.exists():
            begin = time.monotonic()
            build(path, arguments.environments, arguments.plays)
            print(f"built in {time.monotonic() - begin:.0f} s, {path.stat().st_size / 2**20:.0f} MiB", flush=True)
        figures = measure(path, Path(temporary))
    for name, value in figures.items():
        print(f"  {name:<56} {value:12,.2f}")
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
