"""From plays to figures: measurements per environment, run and step, and the standing of an environment in a run.

A play counts when it was won or lost. Cut, faulty and timed-out plays are counted apart and never enter a rate or a
regret. Regret is the mean over the seeds that both arms have played of hinted minus unhinted return.
"""

from __future__ import annotations

import math
import sqlite3
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from spade_registry.rows import Measurement, now
from spade_registry.statistics import wilson

COUNTED = ("won", "lost")


class Arm(NamedTuple):
    """One counted play: its seed (None where unknown), return in [-1, 1] and whether it was won."""

    seed: int | None
    ret: float
    won: bool


def figures(unhinted: Sequence[Arm], hinted: Sequence[Arm]) -> dict[str, Any]:
    """The figures of `Measurement` from the counted plays of both arms."""
    rate, rate_se = win_rate(unhinted)
    rate_hinted, rate_hinted_se = win_rate(hinted)
    differences = paired_differences(unhinted, hinted)
    regret, regret_se = mean_and_error(differences)
    return {
        "win_rate": rate,
        "win_rate_se": rate_se,
        "win_rate_hinted": rate_hinted,
        "win_rate_hinted_se": rate_hinted_se,
        "mean_return": mean_and_error([play.ret for play in unhinted])[0],
        "mean_return_hinted": mean_and_error([play.ret for play in hinted])[0],
        "regret": regret,
        "regret_se": regret_se,
        "learnability": None if rate is None else rate * (1 - rate),
        "n": len(unhinted),
        "n_hinted": len(hinted),
        "n_pairs": len(differences),
    }


def win_rate(plays: Sequence[Arm]) -> tuple[float | None, float | None]:
    """Share of plays won, with its standard error `sqrt(p (1 - p) / n)`; None without plays."""
    if not plays:
        return None, None
    rate = sum(play.won for play in plays) / len(plays)
    return rate, math.sqrt(rate * (1 - rate) / len(plays))


def paired_differences(unhinted: Iterable[Arm], hinted: Iterable[Arm]) -> list[float]:
    """Hinted minus unhinted return for each seed in both arms, in order of seeds.

    A seed that an arm has played several times enters with its mean return there.
    """
    base, helped = _by_seed(unhinted), _by_seed(hinted)
    return [helped[seed] - base[seed] for seed in sorted(base.keys() & helped.keys())]


def _by_seed(plays: Iterable[Arm]) -> dict[int, float]:
    returns: dict[int, list[float]] = {}
    for play in plays:
        if play.seed is not None:
            returns.setdefault(play.seed, []).append(play.ret)
    return {seed: statistics.fmean(values) for seed, values in returns.items()}


def mean_and_error(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean and its standard error; None for what too few values cannot give."""
    if not values:
        return None, None
    mean, n = statistics.fmean(values), len(values)
    if n < 2:
        return mean, None
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return mean, math.sqrt(variance / n)


def write_measurement(
    connection: sqlite3.Connection, environment: int, env_id: str, run: int, step: int
) -> Measurement:
    """Measure one environment at one step from its plays, and store the row; the caller owns the transaction."""
    plays = connection.execute(
        "SELECT hint, seed, return, won, outcome FROM plays WHERE environment = ? AND run = ? AND step = ?",
        (environment, run, step),
    ).fetchall()
    arms: tuple[list[Arm], list[Arm]] = ([], [])
    lost = {"cut": 0, "faulty": 0, "timeout": 0}
    for hint, seed, ret, won, outcome in plays:
        if outcome in COUNTED:
            arms[hint is not None].append(Arm(seed, ret, bool(won)))
        else:
            lost[outcome] += 1
    row = {**figures(*arms), **lost}
    columns = ", ".join(row)
    # A new row, not an update: its id says how recent it is.
    connection.execute(
        "DELETE FROM measurements WHERE environment = ? AND run = ? AND step = ?", (environment, run, step)
    )
    connection.execute(
        f"INSERT INTO measurements (environment, run, step, created_at, {columns}) VALUES (?, ?, ?, ?"
        + ", ?" * len(row)
        + ")",
        (environment, run, step, now(), *row.values()),
    )
    return Measurement(env_id, run, step, **row)


def update_standings(connection: sqlite3.Connection, pairs: Iterable[tuple[int, int]]) -> None:
    """Compute the standings of `(environment, run)` pairs anew; the caller owns the transaction."""
    environments = set()
    for environment, run in pairs:
        environments.add(environment)
        connection.execute("DELETE FROM standings WHERE environment = ? AND run = ?", (environment, run))
        row = _standing(connection, environment, run)
        if row is not None:
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO standings ({names}) VALUES ({marks})", tuple(row.values()))
    connection.executemany(
        "UPDATE standings SET latest = (run = (SELECT max(run) FROM standings WHERE environment = ?1)) "
        "WHERE environment = ?1",
        [(environment,) for environment in sorted(environments)],
    )


def _standing(connection: sqlite3.Connection, environment: int, run: int) -> dict[str, Any] | None:
    cursor = connection.execute(
        "SELECT id, step, win_rate, win_rate_hinted, regret, regret_se, n, n_hinted, cut, faulty, timeout "
        "FROM measurements WHERE environment = ? AND run = ? ORDER BY step",
        (environment, run),
    )
    names = [column[0] for column in cursor.description]
    measured = [dict(zip(names, row, strict=True)) for row in cursor]
    if not measured:
        return None
    # A window opens at a step where both arms were played and lasts until the next such step.
    opened = max((at for at, row in enumerate(measured) if row["regret"] is not None), default=len(measured) - 1)
    window, first = measured[opened:], measured[opened]
    n = sum(row["n"] for row in window)
    wins = round(sum((row["win_rate"] or 0.0) * row["n"] for row in window))
    low, high = wilson(wins, n)
    return {
        "environment": environment,
        "run": run,
        "latest": 0,
        "measurement": max(row["id"] for row in window),
        "step": first["step"],
        "last_step": window[-1]["step"],
        "win_rate": wins / n if n else None,
        "win_low": low,
        "win_high": high,
        "n": n,
        "win_rate_hinted": first["win_rate_hinted"],
        "n_hinted": first["n_hinted"],
        "regret": first["regret"],
        "regret_se": first["regret_se"],
        "learnability": (wins / n) * (1 - wins / n) if n else None,
        **{name: sum(row[name] for row in window) for name in ("cut", "faulty", "timeout")},
    }
