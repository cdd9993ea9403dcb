"""Advantages: what pushes a sample's tokens up or down.

Players are compared with the other plays of the same environment and standardised, as in GRPO. Designers are compared
with the other designs of the same skill and only centred: the standard deviation of a handful of rewards is noise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SPREAD = 1e-6  # a group whose returns differ by less has nothing to say; also keeps rounding from being standardised


def standardise(returns: Sequence[float], scored: Sequence[bool] | None = None, *, divide: bool = True) -> list[float]:
    """Return `(r - mean) / std` over one environment's plays.

    Args:
        returns: one per play.
        scored: which plays count; the others get 0 and do not move the mean. Default: all.
        divide: whether to divide by the deviation; without it, a group is only centred.

    Returns:
        One advantage per play; all 0 for fewer than two scored plays or without spread. `std` is the sample standard
        deviation (n - 1), as in verl's GRPO.
    """
    flags = [True] * len(returns) if scored is None else list(scored)
    group = [value for value, counts in zip(returns, flags, strict=True) if counts]
    if len(group) < 2 or max(group) - min(group) < SPREAD:
        return [0.0] * len(returns)
    mean, deviation = statistics.fmean(group), statistics.stdev(group) if divide else 1.0
    return [(value - mean) / deviation if counts else 0.0 for value, counts in zip(returns, flags, strict=True)]


@dataclass
class RunningMean:
    """The mean of all values seen."""

    count: int = 0
    mean: float = 0.0

    def add(self, values: Sequence[float]) -> None:
        """Take in values."""
        for value in values:
            self.count += 1
            self.mean += (value - self.mean) / self.count


def centre(rewards: Sequence[float], skills: Sequence[str], history: Mapping[str, RunningMean]) -> list[float]:
    """Return designer rewards minus the mean of their skill in this batch.

    A skill with one sample in the batch is centred on its mean over the run, from `history`; without one it gets 0.
    `history` is read, not changed.
    """
    groups: dict[str, list[float]] = {}
    for reward, skill in zip(rewards, skills, strict=True):
        groups.setdefault(skill, []).append(reward)
    means = {skill: math.fsum(group) / len(group) for skill, group in groups.items()}
    for skill, group in groups.items():
        if len(group) == 1:
            past = history.get(skill)
            means[skill] = past.mean if past is not None and past.count else group[0]
    return [reward - means[skill] for reward, skill in zip(rewards, skills, strict=True)]


def role_weight(agent_samples: int, designer_samples: int, interval: int, cap: float = 50.0) -> float:
    """Return the weight of a designer sample: designers are rarer by the ratio of samples and come every k steps."""
    if designer_samples == 0 or agent_samples == 0:
        return min(1.0, cap)
    return min(agent_samples / designer_samples * interval, cap)
