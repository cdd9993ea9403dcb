"""The environment memory of a designer's prompt, as a query over what a run has measured.

There is no second store: a record of memory is an environment with its standing, the newest `capacity` of a run count,
and what is older is forgotten because it is no longer asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SEED_BAND = (0.15, 0.85)
"""Win rates that make an environment an example worth showing."""
TOO_HARD, TOO_EASY = 0.1, 0.9
"""Win rates beyond which an environment is named as one to avoid."""
SHORTLIST_FACTOR, SHORTLIST_LEAST = 3, 10
CAPACITY = 200


@dataclass(frozen=True)
class Remembered:
    """One environment as a prompt may show it."""

    id: str
    name: str
    skill: str | None
    source: str
    hint: str | None
    observation: str | None
    win_rate: float
    regret: float | None
    step: int

    @property
    def reason(self) -> str:
        """Why it is a negative; empty where it is none."""
        if self.win_rate > TOO_EASY:
            return f"too easy, won {100 * self.win_rate:.0f} % of the time"
        if self.win_rate < TOO_HARD:
            return f"too hard, won {100 * self.win_rate:.0f} % of the time"
        return ""


@dataclass(frozen=True)
class Memory:
    """What a prompt is given: examples to follow, and ones to avoid."""

    seeds: list[Remembered]
    negatives: list[Remembered]


def choose(records: Sequence[Remembered], seeds: int, negatives: int, rng: np.random.Generator) -> Memory:
    """Choose from the records of one skill.

    Seeds are drawn without replacement from the `max(3 * seeds, 10)` records of the highest regret among those with a
    win rate in `SEED_BAND`, and come back with the highest regret first; negatives are drawn from those that are too
    easy or too hard. Fewer come back where there are fewer.
    """
    low, high = SEED_BAND
    fit = [one for one in records if one.regret is not None and low <= one.win_rate <= high]
    fit.sort(key=lambda one: (-(one.regret or 0.0), one.id))
    shortlist = fit[: max(SHORTLIST_FACTOR * seeds, SHORTLIST_LEAST)]
    avoid = sorted((one for one in records if one.reason), key=lambda one: one.id)
    return Memory(
        sorted(_draw(shortlist, seeds, rng), key=lambda one: (-(one.regret or 0.0), one.id)),
        _draw(avoid, negatives, rng),
    )


def _draw(records: Sequence[Remembered], n: int, rng: np.random.Generator) -> list[Remembered]:
    count = min(n, len(records))
    return [records[i] for i in rng.choice(len(records), size=count, replace=False)] if count > 0 else []
