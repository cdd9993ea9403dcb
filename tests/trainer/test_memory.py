"""What a designer is shown of earlier environments: the choice as a pure function, by hand and by law."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spade_registry.memory import Remembered, choose

RECORDS = st.lists(st.tuples(st.floats(0, 1), st.one_of(st.none(), st.floats(-1, 1))), max_size=40).map(
    lambda pairs: [record(i, *pair) for i, pair in enumerate(pairs)]
)


def record(number, win_rate, regret):
    return Remembered(f"spade/E{number:02d}", f"E{number}", "s", "class E: ...", None, None, win_rate, regret, step=1)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_by_hand():
    records = [
        record(0, 0.5, 0.1),
        record(1, 0.5, 0.9),
        record(2, 0.1, 0.9),
        record(3, 0.95, 0.9),
        record(4, 0.05, None),
    ]
    memory = choose(records, 2, 2, rng())
    assert [one.id for one in memory.seeds] == ["spade/E01", "spade/E00"], "0.1 lies outside of [0.15, 0.85]"
    reasons = {one.id: one.reason for one in memory.negatives}
    assert reasons == {
        "spade/E03": "too easy, won 95 % of the time",
        "spade/E04": "too hard, won 5 % of the time",
    }, "a win rate of exactly 0.1 is no negative"


def test_seeds_come_from_the_shortlist_of_the_highest_regret():
    records = [record(i, 0.5, i / 100) for i in range(30)]
    drawn = {one.id for seed in range(200) for one in choose(records, 2, 0, rng(seed)).seeds}
    assert drawn == {f"spade/E{i:02d}" for i in range(20, 30)}, "max(3 x 2, 10) = 10 of them, and every one of these"
    many = {one.id for seed in range(200) for one in choose(records, 5, 0, rng(seed)).seeds}
    assert many == {f"spade/E{i:02d}" for i in range(15, 30)}


@given(RECORDS, st.integers(0, 5), st.integers(0, 3), st.integers(0, 9))
def test_laws(records, seeds, negatives, seed):
    memory = choose(records, seeds, negatives, rng(seed))
    assert memory == choose(records, seeds, negatives, rng(seed))
    fit = [one for one in records if one.regret is not None and 0.15 <= one.win_rate <= 0.85]
    assert len(memory.seeds) == min(seeds, len(fit))
    assert {one.id for one in memory.seeds} <= {one.id for one in fit}
    assert len({one.id for one in memory.seeds}) == len(memory.seeds)
    assert len(memory.negatives) <= negatives
    assert all(one.win_rate > 0.9 or one.win_rate < 0.1 for one in memory.negatives)
    regrets = [one.regret for one in memory.seeds]
    assert regrets == sorted(regrets, reverse=True)
