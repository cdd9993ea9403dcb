"""Prioritised level replay over environments (M. Jiang et al., "Prioritized Level Replay", 2021, equations 1 to 4).

    P = (1 - rho) * P_score + rho * P_staleness

`P_score` comes from ranks, `(1 / rank)^(1 / T)`, or is proportional, `score^(1 / T)`; `P_staleness` is proportional to
the number of draws since an environment was last drawn. All of it is pure: arrays in, arrays out. `Sampler` keeps what
has to be remembered between draws, and can be saved and restored to the exact next draw.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spade_envs.errors import SpadeError

Floats = NDArray[np.float64]
ScoreName = Literal["regret", "learnability", "plateau", "uniform"]
Mode = Literal["rank", "proportional"]


class SamplingError(SpadeError):
    """Scores or settings that no distribution follows from."""


# -- scores: what makes an environment worth coming back to ----------------------------------------------------------


def regret_score(regret: Floats, win_rate: Floats) -> Floats:
    """The hint gap, floored at 0: where a hint does not help, there is no regret."""
    return np.maximum(regret, 0.0)


def learnability_score(regret: Floats, win_rate: Floats) -> Floats:
    """`p * (1 - p)` of the win rate p (sampling for learnability, A. Rutherford et al., 2024)."""
    return win_rate * (1.0 - win_rate)


def plateau_score(regret: Floats, win_rate: Floats, low: float = 0.4, high: float = 0.6, ramp: float = 0.25) -> Floats:
    """1 for a win rate in `[low, high]`, falling linearly to 0 at a distance of `ramp` (the paper's band)."""
    distance = np.maximum(np.maximum(low - win_rate, win_rate - high), 0.0)
    return np.maximum(0.0, 1.0 - distance / ramp)


def uniform_score(regret: Floats, win_rate: Floats) -> Floats:
    """1 for every environment."""
    return np.ones_like(win_rate)


SCORES: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "regret": regret_score,
    "learnability": learnability_score,
    "plateau": plateau_score,
    "uniform": uniform_score,
}


# -- the distribution ------------------------------------------------------------------------------------------------


def ranks(scores: Floats) -> Floats:
    """Ranks from 1 for the highest score; equal scores share the mean of their ranks."""
    _, inverse, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[inverse]


def score_probabilities(scores: Floats, mode: str = "rank", temperature: float = 0.1) -> Floats:
    """`P_score`: shape `[n]`, sums to 1.

    Scores must be finite and, for `proportional`, not negative; when all are 0 there, every environment is as likely as
    any other. Raises `SamplingError` otherwise.
    """
    if mode not in ("rank", "proportional"):
        raise SamplingError(f"a sampling mode is `rank` or `proportional`, not {mode!r}")
    if not temperature > 0:
        raise SamplingError(f"the temperature must be above 0, not {temperature}")
    if not np.all(np.isfinite(scores)):
        raise SamplingError("scores must be finite numbers; some are NaN or infinite: measure those environments again")
    if len(scores) == 0:
        return np.zeros(0)
    if mode == "rank":
        logs = -np.log(ranks(scores)) / temperature
    else:
        if np.any(scores < 0):
            raise SamplingError(f"proportional sampling needs scores of at least 0; the lowest is {scores.min()}")
        if not np.any(scores > 0):
            return np.full(len(scores), 1.0 / len(scores))
        with np.errstate(divide="ignore"):
            logs = np.log(scores) / temperature
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def staleness_probabilities(clock: int, last_drawn: NDArray[np.int64]) -> Floats:
    """`P_staleness`: proportional to the draws since the last one of each environment; uniform where all are fresh."""
    if len(last_drawn) == 0:
        return np.zeros(0)
    age = (clock - last_drawn).astype(np.float64)
    total = age.sum()
    return age / total if total > 0 else np.full(len(age), 1.0 / len(age))


def probabilities(
    scores: Floats,
    clock: int,
    last_drawn: NDArray[np.int64],
    *,
    mode: str = "rank",
    temperature: float = 0.1,
    staleness: float = 0.1,
) -> Floats:
    """`P = (1 - rho) * P_score + rho * P_staleness`, shape `[n]`; with `staleness` 1.0 the scores play no part."""
    if not 0.0 <= staleness <= 1.0:
        raise SamplingError(f"the staleness coefficient lies in [0, 1], not {staleness}")
    stale = staleness_probabilities(clock, last_drawn)
    if staleness == 1.0:
        return stale
    return (1.0 - staleness) * score_probabilities(scores, mode, temperature) + staleness * stale


def draw(weights: Floats, n: int, rng: np.random.Generator) -> list[int]:
    """Draw up to `n` different places one after another, each in proportion to `weights` among those that are left.

    The places with the smallest `E / weight`, E exponential, in that order: the same law in one pass over the weights
    (P. Efraimidis and P. Spirakis, "Weighted random sampling with a reservoir", 2006).
    """
    count = min(n, int(np.count_nonzero(weights)))
    if count <= 0:
        return []
    with np.errstate(divide="ignore"):
        keys = rng.standard_exponential(len(weights)) / weights
    first = np.argpartition(keys, count - 1)[:count]
    return [int(i) for i in first[np.argsort(keys[first])]]


def quotas(n: int, groups: Sequence[str]) -> dict[str, int]:
    """Shares of `n` for each group, as equal as can be; the first groups get what is left over."""
    each, more = divmod(n, max(1, len(groups)))
    return {group: each + (i < more) for i, group in enumerate(groups)}


# -- the sampler -----------------------------------------------------------------------------------------------------


@dataclass
class Candidates:
    """Environments that can be drawn, near-duplicates left out; arrays of one length, in a fixed order."""

    ids: list[str] = field(default_factory=list)
    skills: list[str] = field(default_factory=list)
    regret: Floats = field(default_factory=lambda: np.zeros(0))
    win_rate: Floats = field(default_factory=lambda: np.zeros(0))


class Sampler:
    """Draws environments of a registry by what is known about them.

    Args:
        load: returns the candidates as they are now; the same object as before where nothing has changed.
        score: `regret`, `learnability`, `plateau`, `uniform`, or a function of the arrays `(regret, win_rate)`.
        mode: `rank` or `proportional`.
        temperature: T; the lower, the more the best are preferred.
        staleness: rho in [0, 1].
        balance: whether skills get equal shares of a sample.
        seed: of the sampler's own generator.
    """

    def __init__(
        self,
        load: Callable[[], Candidates],
        *,
        score: str | Callable[[Floats, Floats], Floats] = "regret",
        mode: Mode = "rank",
        temperature: float = 0.1,
        staleness: float = 0.1,
        balance: bool = False,
        seed: int = 0,
    ) -> None:
        if isinstance(score, str) and score not in SCORES:
            raise SamplingError(f"a score is one of {', '.join(SCORES)} or a function, not {score!r}")
        self._load = load
        self._score = SCORES[score] if isinstance(score, str) else score
        self._mode, self._temperature, self._staleness, self._balance = mode, temperature, staleness, balance
        probabilities(np.ones(1), 0, np.zeros(1, np.int64), mode=mode, temperature=temperature, staleness=staleness)
        self._rng = np.random.default_rng(seed)
        self.clock = 0
        self.drawn: dict[str, int] = {}
        self._seen: Candidates | None = None
        self._last = np.zeros(0, np.int64)
        self._place: dict[str, int] = {}
        self._by_score = np.zeros(0)

    def sample(self, n: int, *, exclude: Collection[str] = (), skills: Sequence[str] | None = None) -> list[str]:
        """Up to `n` different environment ids, none of `exclude`, of `skills` only where given."""
        found = self._refresh()
        weights = self._weights()
        weights[[self._place[one] for one in exclude if one in self._place]] = 0.0
        if skills is not None or self._balance:
            chosen = self._by_skill(found, weights, n, skills)
        else:
            chosen = draw(weights, n, self._rng)
        for place in chosen:
            self.clock += 1
            self.drawn[found.ids[place]] = self.clock
            self._last[place] = self.clock
        return [found.ids[place] for place in chosen]

    def probabilities(self) -> dict[str, float]:
        """The probability of each environment at the next draw."""
        found = self._refresh()
        return dict(zip(found.ids, map(float, self._weights()), strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next draw depends on beside the registry, as plain JSON-able data."""
        return {"clock": self.clock, "drawn": dict(self.drawn), "rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken."""
        self.clock, self.drawn = int(state["clock"]), dict(state["drawn"])
        self._rng.bit_generator.state = state["rng"]
        self._seen = None

    def _refresh(self) -> Candidates:
        found = self._load()
        if found is not self._seen:
            scores = np.asarray(self._score(found.regret, found.win_rate), dtype=np.float64)
            self._by_score = score_probabilities(scores, self._mode, self._temperature)
            self._take_places(found.ids)
            self._seen = found
        return found

    def _take_places(self, ids: list[str]) -> None:
        """Note where each environment stands and when it was last drawn; those that stand where they stood are kept."""
        old = self._seen.ids if self._seen is not None else []
        kept = len(old) if ids[: len(old)] == old else 0
        new = ids[kept:]
        drawn = np.fromiter((self.drawn.get(one, 0) for one in new), np.int64, len(new))
        self._last = np.concatenate([self._last[:kept], drawn])
        self._place = self._place if kept else {}
        self._place |= {one: kept + i for i, one in enumerate(new)}

    def _weights(self) -> Floats:
        stale = staleness_probabilities(self.clock, self._last)
        return (1.0 - self._staleness) * self._by_score + self._staleness * stale

    def _by_skill(self, found: Candidates, weights: Floats, n: int, skills: Sequence[str] | None) -> list[int]:
        """Draw each skill's share on its own; what a skill cannot give goes to the others."""
        of = np.array(found.skills, dtype=object)
        wanted = list(skills) if skills is not None else sorted(set(found.skills))
        allowed = np.isin(of, wanted)
        chosen: list[int] = []
        if self._balance:
            for skill, share in quotas(n, wanted).items():
                chosen += draw(np.where(of == skill, weights, 0.0), share, self._rng)
        rest = np.where(allowed, weights, 0.0)
        rest[chosen] = 0.0
        return chosen + draw(rest, n - len(chosen), self._rng)
