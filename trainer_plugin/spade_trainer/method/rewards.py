"""Rewards: what a play, a hint and a program are worth.

Facts and constants are those of the paper's section on the method; each is a parameter here and a setting in
`spade_trainer.config`, so that an ablation is a value and not a code path.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spade_trainer.config import RewardConfig

SCORED = frozenset({"won", "lost"})


@dataclass(frozen=True)
class Result:
    """One finished play, as far as the method is concerned."""

    seed: int
    ret: float
    """Return in [-1, 1]."""
    outcome: str
    """won, lost, cut, faulty or timeout; only the first two count."""

    @property
    def scored(self) -> bool:
        """Whether the play enters a win rate, a group or a regret."""
        return self.outcome in SCORED


def win_rate(results: Sequence[Result]) -> float | None:
    """Return the share of scored plays that were won, or None when none was scored."""
    scored = [result for result in results if result.scored]
    return sum(result.outcome == "won" for result in scored) / len(scored) if scored else None


def mean_return(results: Sequence[Result]) -> float | None:
    """Return the mean return of the scored plays, or None when none was scored."""
    scored = [result.ret for result in results if result.scored]
    return math.fsum(scored) / len(scored) if scored else None


def regret(unhinted: Sequence[Result], hinted: Sequence[Result]) -> float | None:
    """Return the mean return with the hint minus the one without, over the seeds that both arms finished.

    Every play of a seed counts towards that seed's mean in its arm; seeds are weighted alike. None when no seed was
    scored in both arms. The result lies in [-2, 2].
    """
    arms = [_by_seed(unhinted), _by_seed(hinted)]
    shared = sorted(arms[0].keys() & arms[1].keys())
    if not shared:
        return None
    return math.fsum(arms[1][seed] - arms[0][seed] for seed in shared) / len(shared)


def _by_seed(results: Sequence[Result]) -> Mapping[int, float]:
    returns: dict[int, list[float]] = {}
    for result in results:
        if result.scored:
            returns.setdefault(result.seed, []).append(result.ret)
    return {seed: math.fsum(values) / len(values) for seed, values in returns.items()}


def plateau(rate: float, low: float = 0.4, high: float = 0.6, ramp: float = 0.25) -> float:
    """Return 1 for a win rate inside [low, high], falling linearly to 0 at a distance of `ramp` outside it."""
    distance = max(low - rate, rate - high, 0.0)
    if distance == 0:
        return 1.0
    return max(0.0, 1.0 - distance / ramp) if ramp > 0 else 0.0


def floored_regret(value: float, scale: float = 0.15, floor: float = 0.0) -> float:
    """Return the regret, at least `floor`, in units of `scale` and at most 1; with the floor of 0 it is in [0, 1]."""
    return min(max(value, floor) / scale, 1.0)


def solve_rate(rate: float) -> float:
    """Return the closeness of a win rate to one half: 1 at one half, 0 at 0 and at 1."""
    return 1.0 - abs(2.0 * rate - 1.0)


def designer_reward(
    config: RewardConfig,
    *,
    rate: float | None,
    gap: float | None,
    potential: float = 0.0,
    timed_out: bool = False,
) -> float | None:
    """Return the reward of an accepted program.

    Args:
        config: kind of reward and its constants.
        rate: win rate over the whole window, None when no play was scored.
        gap: regret at the generation step; None (no hint, or no seed scored in both arms) counts as no regret.
        potential: learning potential, for that kind of reward.
        timed_out: whether a step of the program timed out in play.

    Returns:
        The reward, or None when nothing was measured: such a sample is left out, it is neither good nor bad.
    """
    if timed_out:
        return config.timeout
    if rate is None:
        return None
    floored = floored_regret(gap or 0.0, config.regret_scale, config.regret_floor)
    if config.kind == "regret":
        return gap or 0.0
    if config.kind == "learning_potential":
        return potential
    if config.kind == "solve_rate":
        return solve_rate(rate)
    level = plateau(rate, config.band_low, config.band_high, config.ramp)
    return config.plateau_weight * level + config.regret_weight * floored


@dataclass
class SkillAverage:
    """A fast and a slow running average of a skill's mean returns; their distance is the learning potential."""

    fast: float | None = None
    slow: float | None = None

    def update(self, value: float, gamma_fast: float = 0.98, gamma_slow: float = 0.85) -> float:
        """Take in a mean return and return |fast average with it - slow average before it| (0 for the first one)."""
        before = value if self.slow is None else self.slow
        self.fast = value if self.fast is None else gamma_fast * value + (1 - gamma_fast) * self.fast
        self.slow = gamma_slow * value + (1 - gamma_slow) * before
        return abs(self.fast - before)
