"""How hard an environment is, said so that it can be trusted: per policy, arm and time, with intervals.

A play counts when it was won or lost; cut, faulty and timed-out plays are listed apart. A mean win rate of one half may
be made of trivial and impossible seeds; `bimodality` tells that apart from a task that is won half of the time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spade_registry.statistics import wilson


@dataclass(frozen=True)
class Difficulty:
    """One policy in one arm over a span of steps of a run; rates lie in [0, 1]."""

    policy: str | None
    hinted: bool
    run: int | None
    first_step: int | None
    last_step: int | None
    n: int
    """Plays that count."""
    wins: int
    win_rate: float | None
    low: float | None
    """Ends of the 95 % Wilson interval."""
    high: float | None
    mean_return: float | None
    cut: int
    faulty: int
    timeout: int
    bimodality: float | None
    """Share of the variance of wins that lies between seeds, in [0, 1]; None below two seeds with two plays each."""


def bimodality(plays: Iterable[tuple[int | None, bool]]) -> float | None:
    """Share of the variance of wins that lies between seeds, corrected for chance, in [0, 1].

    The intraclass correlation of a one-way analysis of variance (R. A. Fisher, 1925), floored at 0: 0 where a seed says
    nothing about the outcome, 1 where each seed is always won or always lost. Seeds played once do not count.

    Args:
        plays: `(seed, won)` of each play; those without a seed are left out.
    """
    by_seed: dict[int, list[bool]] = {}
    for seed, won in plays:
        if seed is not None:
            by_seed.setdefault(seed, []).append(won)
    groups = [group for group in by_seed.values() if len(group) > 1]
    if len(groups) < 2:
        return None
    return _intraclass(groups)


def _intraclass(groups: Sequence[Sequence[bool]]) -> float:
    total = sum(map(len, groups))
    mean = sum(map(sum, groups)) / total
    if mean in (0.0, 1.0):
        return 0.0
    k = len(groups)
    between = sum(len(group) * (sum(group) / len(group) - mean) ** 2 for group in groups) / (k - 1)
    within = sum(sum((won - sum(group) / len(group)) ** 2 for won in group) for group in groups) / (total - k)
    size = (total - sum(len(group) ** 2 for group in groups) / total) / (k - 1)
    return max(0.0, min(1.0, (between - within) / (between + (size - 1) * within)))


def of_environment(
    connection: sqlite3.Connection, environment: int, *, run: int | None = None, every: int | None = None
) -> list[Difficulty]:
    """Difficulty of an environment (its row), one entry a policy, arm and run.

    Args:
        run: only plays of this run.
        every: split each run into spans of this many steps, to see a policy learn.
    """
    rows = connection.execute(
        "SELECT policy, hint IS NOT NULL, run, step, seed, won, return, outcome FROM plays "
        "WHERE environment = ?1 AND (?2 IS NULL OR run = ?2) ORDER BY run, step, id",
        (environment, run),
    )
    groups: dict[tuple[object, ...], list[Mapping[str, object]]] = {}
    for policy, hinted, of, step, seed, won, ret, outcome in rows:
        span = None if every is None or step is None else (step - 1) // every
        play = {"step": step, "seed": seed, "won": won, "return": ret, "outcome": outcome}
        groups.setdefault((policy, bool(hinted), of, span), []).append(play)
    return [_entry(key, plays) for key, plays in groups.items()]


def _entry(key: tuple[object, ...], plays: Sequence[Mapping[str, object]]) -> Difficulty:
    policy, hinted, run, _ = key
    counted = [play for play in plays if play["outcome"] in ("won", "lost")]
    wins, n = sum(bool(play["won"]) for play in counted), len(counted)
    low, high = wilson(wins, n)
    steps = [play["step"] for play in plays if play["step"] is not None]
    outcomes = [play["outcome"] for play in plays]
    returns = [float(play["return"]) for play in counted]  # type: ignore[arg-type]
    return Difficulty(
        policy=policy,  # type: ignore[arg-type]
        hinted=bool(hinted),
        run=run,  # type: ignore[arg-type]
        first_step=min(steps, default=None),  # type: ignore[type-var, arg-type]
        last_step=max(steps, default=None),  # type: ignore[type-var, arg-type]
        n=n,
        wins=wins,
        win_rate=wins / n if n else None,
        low=low,
        high=high,
        mean_return=sum(returns) / n if n else None,
        cut=outcomes.count("cut"),
        faulty=outcomes.count("faulty"),
        timeout=outcomes.count("timeout"),
        bimodality=bimodality((play["seed"], bool(play["won"])) for play in counted),  # type: ignore[misc]
    )
