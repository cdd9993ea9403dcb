"""Held-out games: combinations and nouns that no demonstration has, drawn from a fixed seed.

They measure whether what was learned carries over. `benchmarks/learning.py` and the evaluation of the nano model use them;
no run and no warm start ever sees them.
"""

from __future__ import annotations

import random

from spade_trainer.nano import words
from spade_trainer.nano.families import FAMILIES
from spade_trainer.nano.programs import Design, draw

SEED = 20261
COUNT = 32


def held_out_games(count: int = COUNT) -> list[Design]:
    """Return the held-out games, the families in turn; the same list on every call."""
    rng = random.Random(SEED)
    families = list(FAMILIES)
    return [
        draw(rng, rng.choice(words.HELD_OUT_NOUNS), family=families[i % len(families)], kept=True) for i in range(count)
    ]
