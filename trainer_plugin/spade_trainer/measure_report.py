"""What `spade-envs measure` prints: one table for all models, and where each model's frontier is.

The frontier are the environments that a model wins sometimes: with a win rate in [0.2, 0.8] its plays differ, so
there is something to learn from. Among those, regret says how much of the rest a good hint would give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from spade_registry import Measurement
from spade_trainer.measure import FRONTIER, Measured, Target


def place(win_rate: float | None) -> str:
    """Say where an environment lies for a model: easier than the frontier, on it, or beyond it."""
    if win_rate is None:
        return "unknown"
    low, high = FRONTIER
    return "too hard" if win_rate < low else "too easy" if win_rate > high else "frontier"


def show(console: Console, targets: Sequence[Target], results: Sequence[Measured]) -> None:
    """Print the table, one line a model, and the comparison where there are two or more."""
    table = Table(title="Win rates and regret, ± one standard error", title_justify="left")
    for column in ("environment", "model", "win rate", "hinted", "regret", "plays", "not counted", "where"):
        justify: Any = "left" if column in ("environment", "model", "where") else "right"
        table.add_column(column, justify=justify, no_wrap=column != "model")
    for target in ordered(targets, results):
        for i, result in enumerate(results):
            table.add_row("" if i else target.id, result.policy, *_cells(result.measurements[target.id]))
        table.add_section()
    console.print(table)
    for result in results:
        console.print(_summary(result), markup=False)
    for other in results[1:]:
        console.print(_comparison(results[0], other), markup=False)


def as_json(targets: Sequence[Target], results: Sequence[Measured]) -> dict[str, Any]:
    """Return the same as one JSON-able document; unknown figures are null."""
    return {
        "models": [
            {
                "policy": result.policy,
                "run": result.run,
                "plays": {"played": result.progress.done, "already_recorded": result.progress.reused},
                "tokens": {"prompt": result.progress.prompt_tokens, "written": result.progress.tokens},
                **summary(result),
            }
            for result in results
        ],
        "environments": [
            {
                "id": target.id,
                "skill": target.skill,
                "measurements": {result.policy: _figures(result.measurements[target.id]) for result in results},
            }
            for target in ordered(targets, results)
        ],
    }


def ordered(targets: Sequence[Target], results: Sequence[Measured]) -> list[Target]:
    """Return the targets by the first model's regret, highest first; those without one come last, easiest first."""

    def key(target: Target) -> tuple[float, float]:
        measured = results[0].measurements[target.id]
        return (-_or(measured.regret, -math.inf), -_or(measured.win_rate, -math.inf))

    return sorted(targets, key=key)


def summary(result: Measured) -> dict[str, Any]:
    """Return a model's means over environments, with standard errors, and the size of its frontier."""
    measured = list(result.measurements.values())
    win, win_se = mean([m.win_rate for m in measured])
    hinted, hinted_se = mean([m.win_rate_hinted for m in measured])
    regret, regret_se = mean([m.regret for m in measured])
    places = [place(m.win_rate) for m in measured]
    return {
        "win_rate": win,
        "win_rate_se": win_se,
        "win_rate_hinted": hinted,
        "win_rate_hinted_se": hinted_se,
        "regret": regret,
        "regret_se": regret_se,
        "frontier": places.count("frontier"),
        "too_easy": places.count("too easy"),
        "too_hard": places.count("too hard"),
        "unknown": places.count("unknown"),
    }


def mean(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Return the mean of the known values and its standard error; None for what too few values cannot give."""
    known = np.array([value for value in values if value is not None], dtype=float)
    if not known.size:
        return None, None
    error = float(known.std(ddof=1) / math.sqrt(known.size)) if known.size > 1 else None
    return float(known.mean()), error


def _summary(result: Measured) -> str:
    found = summary(result)
    parts = [
        f"{result.policy}: win rate {_pm(found['win_rate'], found['win_rate_se'])}",
        f"hinted {_pm(found['win_rate_hinted'], found['win_rate_hinted_se'])}",
        f"regret {_pm(found['regret'], found['regret_se'])} over {len(result.measurements)} environments",
        f"frontier {found['frontier']}, too easy {found['too_easy']}, too hard {found['too_hard']}",
        f"{result.progress.prompt_tokens} prompt tokens, {result.progress.tokens} written tokens",
    ]
    return "; ".join(parts)


def _comparison(first: Measured, other: Measured) -> str:
    """Compare two models on the environments that both have a win rate for, pairwise."""
    pairs = [(measured.win_rate, other.measurements[one].win_rate) for one, measured in first.measurements.items()]
    gaps = [after - before for before, after in pairs if before is not None and after is not None]
    return f"{other.policy} minus {first.policy}: win rate {_pm(*mean(gaps), sign=True)} over {len(gaps)} environments"


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _pm(value: float | None, error: float | None, *, sign: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:{'+' if sign else ''}.2f}" + ("" if error is None else f" ± {error:.2f}")


def _cells(m: Measurement) -> list[str]:
    apart = {"cut": m.cut, "faulty": m.faulty, "timeout": m.timeout}
    lost = ", ".join(f"{n} {outcome}" for outcome, n in apart.items() if n)
    return [
        _pm(m.win_rate, m.win_rate_se),
        _pm(m.win_rate_hinted, m.win_rate_hinted_se),
        _pm(m.regret, m.regret_se, sign=True),
        f"{m.n}+{m.n_hinted}",
        lost or "-",
        place(m.win_rate),
    ]


def _figures(m: Measurement) -> dict[str, Any]:
    figures = asdict(m)
    for name in ("environment", "run", "step"):
        del figures[name]
    return figures | {"where": place(m.win_rate)}
