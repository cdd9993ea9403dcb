"""Difficulty that can be trusted: intervals of win rates, and whether a mean hides easy and impossible seeds."""

from __future__ import annotations

import math

Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the standard normal distribution."""


def wilson(wins: int, n: int, z: float = Z95) -> tuple[float | None, float | None]:
    """The Wilson score interval of a win rate (E. B. Wilson, 1927); `(None, None)` without plays.

    Unlike `p +- z * se` it stays inside [0, 1] and has a width when all plays were won or all lost.
    """
    if n <= 0:
        return None, None
    if not 0 <= wins <= n:
        raise ValueError(f"wins must lie between 0 and the number of plays {n}, not be {wins}")
    rate = wins / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)
