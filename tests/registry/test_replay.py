"""Sampling by regret: values by hand, the law by many draws, and what must hold for any scores."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from registry_samples import filled, plays, source

from spade_registry import NewEnvironment, Sampler, SamplingError
from spade_registry.replay import (
    Candidates,
    draw,
    learnability_score,
    plateau_score,
    probabilities,
    ranks,
    regret_score,
    score_probabilities,
    staleness_probabilities,
)

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=30).map(np.array)
DRAWS = 200_000


def candidates(regret, win_rate=None, skills=None):
    n = len(regret)
    rates = np.full(n, 0.5) if win_rate is None else np.array(win_rate)
    return Candidates([f"e{i}" for i in range(n)], skills or ["s"] * n, np.array(regret, float), rates)


def sampler(found, **settings):
    return Sampler(lambda: found, **settings)


def test_scores_by_hand():
    regret, rate = np.array([-0.2, 0.3, 0.0]), np.array([0.1, 0.5, 0.9])
    assert regret_score(regret, rate).tolist() == [0.0, 0.3, 0.0]
    assert learnability_score(regret, rate) == pytest.approx([0.09, 0.25, 0.09])
    assert plateau_score(regret, np.array([0.15, 0.275, 0.4, 0.6, 0.85])) == pytest.approx([0, 0.5, 1, 1, 0])


def test_ranks_share_the_mean_where_scores_are_equal():
    assert ranks(np.array([0.5, 0.9, 0.5, 0.1])).tolist() == [2.5, 1.0, 2.5, 4.0]


def test_probabilities_by_hand():
    scores = np.array([4.0, 1.0, 0.0])
    # rank, T = 1: weights 1, 1/2, 1/3; proportional, T = 0.5: 16, 1, 0.
    assert score_probabilities(scores, "rank", 1.0) == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert score_probabilities(scores, "proportional", 0.5) == pytest.approx([16 / 17, 1 / 17, 0])
    assert staleness_probabilities(10, np.array([10, 7, 3])) == pytest.approx([0, 0.3, 0.7])
    mixed = probabilities(scores, 10, np.array([10, 7, 3]), mode="rank", temperature=1.0, staleness=0.25)
    assert mixed == pytest.approx([0.75 * 6 / 11, 0.75 * 3 / 11 + 0.075, 0.75 * 2 / 11 + 0.175])


@pytest.mark.parametrize("mode", ["rank", "proportional"])
def test_many_draws_agree_with_the_formula(mode):
    found = candidates([0.9, 0.5, 0.5, 0.2, 0.05])
    weights = score_probabilities(found.regret, mode, 0.5)
    drawn = sampler(found, mode=mode, temperature=0.5, staleness=0.0, seed=3)
    counts = dict.fromkeys(found.ids, 0)
    for _ in range(DRAWS):
        counts[drawn.sample(1)[0]] += 1
    shares = np.array(list(counts.values())) / DRAWS
    error = 5 * np.sqrt(weights * (1 - weights) / DRAWS)
    assert np.all(np.abs(shares - weights) <= error + 1e-12)


def test_draws_without_replacement_follow_the_weights_of_what_is_left():
    weights, rng, n = np.array([0.5, 0.3, 0.2, 0.0]), np.random.default_rng(5), 40_000
    pairs = [tuple(draw(weights, 2, rng)) for _ in range(n)]
    for first, second in itertools.permutations(range(3), 2):
        share = weights[first] * weights[second] / (1 - weights[first])
        assert pairs.count((first, second)) / n == pytest.approx(share, abs=5 * np.sqrt(share / n))
    assert sorted(draw(weights, 4, rng)) == [0, 1, 2], "a weight of 0 is never drawn"


def test_with_staleness_one_scores_play_no_part():
    found = candidates([1.0, 0.0, 0.0, 0.0])
    drawn = sampler(found, staleness=1.0, seed=0)
    assert sorted(drawn.sample(4)) == found.ids
    # After a whole round the one drawn longest ago is the likeliest, the newest impossible.
    by_age = sorted(found.ids, key=drawn.drawn.__getitem__)
    chances = drawn.probabilities()
    assert [chances[one] for one in by_age] == pytest.approx([3 / 6, 2 / 6, 1 / 6, 0])


def test_a_restored_state_gives_the_exact_next_draws():
    found = candidates(np.linspace(0, 1, 50))
    one = sampler(found, seed=9)
    one.sample(7)
    state = one.state_dict()
    other = sampler(found, seed=1)
    other.load_state_dict(state)
    assert [one.sample(5) for _ in range(4)] == [other.sample(5) for _ in range(4)]


def test_what_is_excluded_is_not_drawn_and_nothing_twice():
    drawn = sampler(candidates([0.5] * 6), seed=0)
    assert sorted(drawn.sample(10, exclude=["e1", "e4", "unknown"])) == ["e0", "e2", "e3", "e5"]


def test_skills_are_balanced_on_request_and_give_way_where_one_has_too_few():
    found = candidates([0.9] * 8 + [0.1] * 2, skills=["a"] * 8 + ["b"] * 2)
    drawn = sampler(found, balance=True, seed=0).sample(6)
    assert sum(int(one[1:]) >= 8 for one in drawn) == 2
    assert len(drawn) == 6
    only = sampler(found, seed=0).sample(6, skills=["b"])
    assert sorted(only) == ["e8", "e9"]


@given(SCORES, st.sampled_from(["rank", "proportional"]), st.floats(0.05, 2), st.floats(0, 1))
def test_probabilities_are_a_distribution_and_follow_the_scores(scores, mode, temperature, staleness):
    found = probabilities(
        scores, 5, np.zeros(len(scores), np.int64), mode=mode, temperature=temperature, staleness=staleness
    )
    assert found.sum() == pytest.approx(1)
    assert np.all(found >= 0)
    order = np.argsort(scores, kind="stable")
    assert np.all(np.diff(found[order]) >= -1e-12)


@given(SCORES.filter(lambda scores: len(set(scores.tolist())) == 1), st.sampled_from(["rank", "proportional"]))
def test_equal_scores_are_equally_likely(scores, mode):
    assert score_probabilities(scores, mode, 0.1) == pytest.approx(np.full(len(scores), 1 / len(scores)))


def test_edges():
    assert sampler(candidates([])).sample(3) == []
    assert sampler(candidates([0.0])).sample(3) == ["e0"]
    assert sampler(candidates([0.0, 0.0]), mode="proportional").probabilities() == {"e0": 0.5, "e1": 0.5}


@pytest.mark.parametrize(
    ("settings", "scores", "message"),
    [
        ({}, [0.1, float("nan")], "NaN"),
        ({"mode": "proportional", "score": lambda regret, rate: regret}, [-1.0, 1.0], "at least 0"),
        ({"mode": "best"}, [0.1], "`rank` or `proportional`"),
        ({"temperature": 0.0}, [0.1], "above 0"),
        ({"staleness": 1.5}, [0.1], r"\[0, 1\]"),
        ({"score": "beauty"}, [0.1], "a score is one of"),
    ],
)
def test_scores_and_settings_without_a_distribution_are_refused(settings, scores, message):
    with pytest.raises(SamplingError, match=message):
        sampler(candidates(scores), **settings).sample(1)


def test_the_sampler_of_a_registry_sees_what_was_measured_since(registry):
    ids, run = filled(registry, [("ll", "ww"), ("wl", "wl"), ("ww", "ww")])
    drawn = registry.replay(score="regret", mode="proportional", temperature=1.0, staleness=0.0, seed=0)
    assert drawn.probabilities() == pytest.approx({ids[0]: 1.0, ids[1]: 0.0, ids[2]: 0.0})
    registry.commit_round(run, 2, plays=plays(ids[1], run, 2, "ll", "ww") + plays(ids[0], run, 2, "ww", "ww"))
    assert drawn.probabilities()[ids[1]] == pytest.approx(1.0)
    registry.retire(ids[1], "test")
    assert ids[1] not in drawn.probabilities()
    assert registry.measured() == 2


def test_near_duplicates_share_one_slot(registry):
    run = registry.start_run("test", {}, None)
    ids = registry.add_all([NewEnvironment(source(name), hint="h") for name in ("One", "Two", "Three")])
    registry.commit_round(run, 1, plays=[play for key in ids for play in plays(key, run, 1, "wl", "ww")])
    assert registry.replay().probabilities() == {ids[0]: 1.0}


def test_the_slot_of_near_duplicates_goes_to_the_first_that_can_be_drawn(registry):
    run = registry.start_run("test", {}, None)
    ids = registry.add_all([NewEnvironment(source(name), hint="h") for name in ("One", "Two", "Three")])
    drawn = registry.replay(score="regret", mode="proportional", temperature=1.0)
    registry.commit_round(run, 1, plays=plays(ids[1], run, 1, "wl", "ww"))
    assert list(drawn.probabilities()) == [ids[1]], "the first was never measured"
    registry.commit_round(run, 2, plays=plays(ids[2], run, 2, "wl", "ww"))
    assert list(drawn.probabilities()) == [ids[1]]
    registry.commit_round(run, 3, plays=plays(ids[0], run, 3, "wl", "ww"))
    assert list(drawn.probabilities()) == [ids[0]]
    registry.retire(ids[0], "test")
    assert list(drawn.probabilities()) == [ids[1]]


def test_a_sampler_forgets_what_was_rolled_back(registry):
    ids, run = filled(registry, [("ll", "ww"), ("ll", "ww")])
    drawn = registry.replay(mode="proportional", temperature=1.0, staleness=0.0)
    registry.commit_round(run, 2, plays=plays(ids[0], run, 2, "ww", "ww"))
    assert drawn.probabilities() == {ids[0]: 0.0, ids[1]: 1.0}
    registry.rollback_run(run, 1)
    registry.commit_round(run, 2, plays=plays(ids[1], run, 2, "ww", "ww"))
    assert drawn.probabilities() == {ids[0]: 1.0, ids[1]: 0.0}
