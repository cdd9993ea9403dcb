"""Seeds as a function of what they are for: nothing is drawn from a shared generator, so nothing depends on order.

The seed of a play follows from the run's seed, the step, the environment and the play's number. A resumed run therefore
meets the same seeds as an uninterrupted one, and both arms of an environment meet the same ones by construction.
"""

from __future__ import annotations

import hashlib

import numpy as np

SEED_BITS = 31  # programs pass seeds on to generators that accept 32-bit signed integers


def derive(*parts: object) -> int:
    """Return a seed in [0, 2**31) that follows from `parts` (their `str` forms) alone."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> (64 - SEED_BITS)


def generator(*parts: object) -> np.random.Generator:
    """Return a numpy generator seeded by `parts`."""
    return np.random.default_rng(derive(*parts))


def play_seeds(run_seed: int, step: int, environment: str, n: int) -> list[int]:
    """Return the `n` reset seeds of an environment's plays at a step, the same for both arms, all different."""
    seeds = (derive(run_seed, "play", step, environment, i) for i in range(4 * n + 16))
    return list(dict.fromkeys(seeds))[:n]
