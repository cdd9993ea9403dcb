"""Difficulty that can be trusted: intervals, policies apart, and bimodality by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from registry_samples import filled, plays

from spade_registry.difficulty import bimodality, of_environment
from spade_registry.statistics import wilson


def test_wilson_by_hand():
    # p = 1/2, n = 10, z = 1.96: (0.5 + z^2/20) / (1 + z^2/10) -+ ...; the tabulated interval is 0.2366 to 0.7634.
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(0, 0) == (None, None)
    with pytest.raises(ValueError, match="wins"):
        wilson(3, 2)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_rate_and_stays_in_the_unit_interval(case):
    wins, n = case
    low, high = wilson(wins, n)
    assert 0 <= low <= wins / n + 1e-12
    assert wins / n - 1e-12 <= high <= 1


def test_bimodality_by_hand():
    assert bimodality([(0, True), (0, True), (1, False), (1, False)]) == 1.0
    assert bimodality([(0, True), (0, False), (1, True), (1, False)]) == 0.0
    assert bimodality([(0, True), (1, False)]) is None, "one play a seed says nothing about seeds"
    # Seeds won 3/4 and 1/4: between = 4*(1/16)*2 / 1 = 0.5; within = (0.75 + 0.75) / 6 = 0.25; (0.5-0.25)/(0.5+3*0.25).
    three_one = [(0, True)] * 3 + [(0, False)] + [(1, True)] + [(1, False)] * 3
    assert bimodality(three_one) == pytest.approx(0.2)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=60))
def test_bimodality_is_a_share(cases):
    found = bimodality(cases)
    assert found is None or 0 <= found <= 1


def test_policies_arms_and_time_are_kept_apart(registry):
    (key,), run = filled(registry, [("wl", "ww")])
    registry.record_plays(plays(key, run, 1, "llf", policy="other"))
    registry.record_plays(plays(key, run, 5, "ww"))
    row = registry.connection().execute("SELECT id FROM environments").fetchone()[0]
    found = {(one.policy, one.hinted): one for one in of_environment(registry.connection(), row)}
    assert (found["model", False].wins, found["model", False].n) == (3, 4)
    assert found["model", True].win_rate == 1.0
    assert (found["other", False].win_rate, found["other", False].faulty) == (0.0, 1)
    spans = [
        one for one in of_environment(registry.connection(), row, every=4) if one.policy == "model" and not one.hinted
    ]
    assert [(one.first_step, one.win_rate) for one in spans] == [(1, 0.5), (5, 1.0)]
