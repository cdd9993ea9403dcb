"""The method: hand-worked values, and the laws that hold for any numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_trainer.config import RewardConfig
from spade_trainer.method import advantages, rewards, schedule, seeding
from spade_trainer.method.rewards import Result

RETURNS = st.floats(-1, 1)
OUTCOMES = st.sampled_from(["won", "lost", "cut", "faulty", "timeout"])
RESULTS = st.lists(st.builds(Result, st.integers(0, 5), RETURNS, OUTCOMES), max_size=20)
GROUP = st.lists(RETURNS, min_size=2, max_size=20)


def results(*pairs, outcome=None):
    return [Result(seed, ret, outcome or ("won" if ret > 0.5 else "lost")) for seed, ret in pairs]


# -- rewards ---------------------------------------------------------------------------------------------------------


def test_win_rate_counts_won_and_lost_plays_only():
    plays = [Result(0, 1, "won"), Result(1, 0, "lost"), Result(2, 0, "lost"), Result(3, 0, "timeout")]
    assert rewards.win_rate(plays) == pytest.approx(1 / 3)
    assert rewards.win_rate(results((0, 0), outcome="cut")) is None
    assert rewards.mean_return(plays) == pytest.approx(1 / 3)


def test_regret_is_paired_by_seed():
    unhinted = [Result(0, 0.0, "lost"), Result(1, 1.0, "won"), Result(2, 0.0, "lost")]
    hinted = [Result(0, 1.0, "won"), Result(1, 1.0, "won"), Result(2, 0.0, "cut"), Result(7, 1.0, "won")]
    assert rewards.regret(unhinted, hinted) == 0.5, "seeds 0 and 1 were scored in both arms"
    assert rewards.regret(unhinted, []) is None


@given(RESULTS, RESULTS)
def test_regret_is_bounded_and_antisymmetric(one, other):
    value = rewards.regret(one, other)
    if value is not None:
        assert -2 <= value <= 2
        assert value == pytest.approx(-rewards.regret(other, one))


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(0.5, 1), (0.4, 1), (0.6, 1), (0.275, 0.5), (0.725, 0.5), (0.15, 0), (0.85, 0), (0, 0), (1, 0)],
)
def test_plateau_and_its_ramp(rate, expected):
    assert rewards.plateau(rate) == pytest.approx(expected)


def test_plateau_without_a_ramp_is_a_step():
    assert [rewards.plateau(rate, ramp=0) for rate in (0.39, 0.4, 0.61)] == [0, 1, 0]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_plateau_never_rises_away_from_the_band(rate, step, ramp):
    below, above = min(rate, 0.4), max(rate, 0.6)
    assert 0 <= rewards.plateau(max(0.0, below - step), ramp=ramp) <= rewards.plateau(below, ramp=ramp) <= 1
    assert 0 <= rewards.plateau(min(1.0, above + step), ramp=ramp) <= rewards.plateau(above, ramp=ramp) <= 1


def test_blend_by_hand():
    config = RewardConfig()
    assert rewards.designer_reward(config, rate=0.5, gap=0.075) == pytest.approx(0.6 + 0.4 * 0.5)
    assert rewards.designer_reward(config, rate=0.275, gap=0.3) == pytest.approx(0.6 * 0.5 + 0.4)
    assert rewards.designer_reward(config, rate=0.5, gap=-1.0) == pytest.approx(0.6), "a negative regret costs nothing"
    assert rewards.designer_reward(config, rate=0.5, gap=None) == pytest.approx(0.6)
    assert rewards.designer_reward(config, rate=0.5, gap=0.3, timed_out=True) == -0.5
    assert rewards.designer_reward(config, rate=None, gap=0.3) is None


@pytest.mark.parametrize(("kind", "expected"), [("regret", 0.3), ("solve_rate", 0.8), ("learning_potential", 0.25)])
def test_the_other_kinds_of_reward(kind, expected):
    config = RewardConfig(kind=kind)
    assert rewards.designer_reward(config, rate=0.4, gap=0.3, potential=0.25) == pytest.approx(expected)


def test_learning_potential_by_hand():
    average = rewards.SkillAverage()
    assert average.update(0.2) == 0
    assert average.update(0.6) == pytest.approx(abs(0.98 * 0.6 + 0.02 * 0.2 - 0.2))
    assert average.slow == pytest.approx(0.85 * 0.6 + 0.15 * 0.2)


# -- advantages ------------------------------------------------------------------------------------------------------


def test_standardise_by_hand():
    assert advantages.standardise([1, 0, 0, 1]) == pytest.approx([0.8660254, -0.8660254, -0.8660254, 0.8660254])
    assert advantages.standardise([1, 0, 1], [True, True, False]) == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5), 0])
    assert advantages.standardise([1, 0], [True, False]) == [0, 0], "one scored play is no group"


@given(GROUP)
def test_standardised_groups_have_mean_0_and_deviation_1_or_are_0(group):
    out = advantages.standardise(group)
    if max(group) - min(group) < advantages.SPREAD:
        assert out == [0.0] * len(group)
    else:
        assert math.fsum(out) == pytest.approx(0, abs=1e-6)
        assert math.fsum(value**2 for value in out) / (len(out) - 1) == pytest.approx(1)


@given(GROUP, st.floats(0.1, 100), st.floats(-10, 10))
def test_scaling_and_shifting_a_group_leaves_its_advantages(group, factor, shift):
    if max(group) - min(group) > 1e-3:
        moved = [factor * value + shift for value in group]
        assert advantages.standardise(moved) == pytest.approx(advantages.standardise(group), abs=1e-5)


@given(st.lists(st.tuples(RETURNS, st.sampled_from("abc")), max_size=20))
def test_centring_sums_to_zero_within_a_skill(samples):
    values = advantages.centre([r for r, _ in samples], [s for _, s in samples], {})
    for skill in "abc":
        assert math.fsum(v for v, (_, s) in zip(values, samples, strict=True) if s == skill) == pytest.approx(
            0, abs=1e-9
        )


def test_a_lone_design_of_a_skill_is_centred_on_its_history():
    history = {"logic": advantages.RunningMean()}
    assert advantages.centre([0.9], ["logic"], history) == [0]
    history["logic"].add([0.2, 0.4])
    assert advantages.centre([0.9], ["logic"], history) == pytest.approx([0.6])
    assert advantages.centre([0.9, 0.5], ["logic", "logic"], history) == pytest.approx([0.2, -0.2])


def test_role_weight_by_hand():
    assert advantages.role_weight(384, 24, 4) == 50, "16 plays each, 4 steps: 64, capped"
    assert advantages.role_weight(96, 12, 2) == 16
    assert advantages.role_weight(96, 12, 2, cap=1) == 1
    assert advantages.role_weight(10, 0, 4) == 1


# -- schedule --------------------------------------------------------------------------------------------------------


def test_skills_take_turns():
    names = list("abcde")
    assert [schedule.active_skills(names, 3, n) for n in range(3)] == [list("abc"), list("dea"), list("bcd")]
    assert [step for step in range(1, 10) if schedule.designs(step, 4)] == [1, 5, 9]
    assert [schedule.generation(step, 4) for step in (1, 4, 5)] == [0, 0, 1]


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 5), st.integers(0, 12))
def test_the_delay_neither_loses_nor_doubles_a_sample(arrivals, delay, resume):
    queue: schedule.HoldBack = schedule.HoldBack()
    out = []
    for step, count in enumerate(arrivals, start=1):
        queue.hold([(step, i) for i in range(count)], step + delay)
        for made, i in queue.release(step, flush=step == len(arrivals)):
            assert step == made + delay or step == len(arrivals)
            out.append((made, i))
        if step == resume:
            copy: schedule.HoldBack = schedule.HoldBack()
            copy.load_state_dict(queue.state_dict())
            queue = copy
    assert sorted(out) == [(step, i) for step, count in enumerate(arrivals, start=1) for i in range(count)]


# -- seeds -----------------------------------------------------------------------------------------------------------


def test_play_seeds_are_a_function_of_what_they_are_for():
    seeds = seeding.play_seeds(0, 3, "spade/A", 16)
    assert seeds == seeding.play_seeds(0, 3, "spade/A", 16)
    assert len(set(seeds)) == 16
    assert seeds[:4] == seeding.play_seeds(0, 3, "spade/A", 4), (
        "the hinted arm plays the first seeds of the unhinted one"
    )
    others = [seeding.play_seeds(1, 3, "spade/A", 16), seeding.play_seeds(0, 4, "spade/A", 16)]
    assert all(not set(seeds) & set(other) for other in others)
    assert all(0 <= seed < 2**31 for seed in seeds)


# -- laws ------------------------------------------------------------------------------------------------------------

RATES = st.floats(0, 1)
GAPS = st.floats(-2, 2)


@given(RATES, GAPS)
def test_the_blend_of_the_paper_lies_between_0_and_1(rate, gap):
    assert 0 <= rewards.designer_reward(RewardConfig(), rate=rate, gap=gap) <= 1 + 1e-9


@given(RATES, GAPS, GAPS)
def test_more_regret_never_pays_less(rate, one, other):
    low, high = sorted((one, other))
    for kind in ("blend", "regret"):
        config = RewardConfig(kind=kind)
        assert rewards.designer_reward(config, rate=rate, gap=low) <= rewards.designer_reward(
            config, rate=rate, gap=high
        )


def test_the_floor_of_the_regret_by_hand():
    assert rewards.floored_regret(0.075) == pytest.approx(0.5)
    assert rewards.floored_regret(-1) == 0
    assert rewards.floored_regret(-1, floor=-0.075) == pytest.approx(-0.5)
    config = RewardConfig(regret_floor=-0.15)
    assert rewards.designer_reward(config, rate=0.5, gap=-1.0) == pytest.approx(0.6 - 0.4)


@given(RATES)
def test_solve_rate_is_symmetric_and_best_at_one_half(rate):
    assert rewards.solve_rate(rate) == pytest.approx(rewards.solve_rate(1 - rate), abs=1e-9)
    assert 0 <= rewards.solve_rate(rate) <= rewards.solve_rate(0.5) == 1


@given(st.lists(RETURNS, min_size=1, max_size=30), st.floats(0, 1), st.floats(0, 1))
def test_averages_stay_within_what_they_have_seen(values, fast, slow):
    average = rewards.SkillAverage()
    potentials = [average.update(value, fast, slow) for value in values]
    low, high = min(values) - 1e-9, max(values) + 1e-9
    assert low <= average.fast <= high
    assert low <= average.slow <= high
    assert all(0 <= potential <= 2 for potential in potentials)


@given(RESULTS)
def test_plays_that_do_not_count_change_nothing(plays):
    scored = [play for play in plays if play.outcome in ("won", "lost")]
    for statistic in (rewards.win_rate, rewards.mean_return):
        assert statistic(plays) == statistic(scored)
    assert rewards.regret(plays, plays) == rewards.regret(scored, scored)


@given(GROUP, st.data())
def test_unscored_plays_get_nothing_and_move_nobody(group, data):
    flags = data.draw(st.lists(st.booleans(), min_size=len(group), max_size=len(group)))
    out = advantages.standardise(group, flags)
    assert all(value == 0 for value, counts in zip(out, flags, strict=True) if not counts)
    alone = advantages.standardise([value for value, counts in zip(group, flags, strict=True) if counts])
    assert [value for value, counts in zip(out, flags, strict=True) if counts] == alone


@given(GROUP)
def test_without_division_a_group_is_centred(group):
    out = advantages.standardise(group, divide=False)
    assert math.fsum(out) == pytest.approx(0, abs=1e-9)
    if max(group) - min(group) >= advantages.SPREAD:
        assert out[0] - out[-1] == pytest.approx(group[0] - group[-1], abs=1e-9)


@given(st.lists(RETURNS, min_size=1, max_size=30), st.integers(1, 5))
def test_a_running_mean_is_the_mean_whatever_the_batches(values, size):
    running = advantages.RunningMean()
    for i in range(0, len(values), size):
        running.add(values[i : i + size])
    assert (running.count, running.mean) == (len(values), pytest.approx(math.fsum(values) / len(values), abs=1e-9))


@given(st.integers(0, 5000), st.integers(0, 200), st.integers(1, 16), st.floats(0, 100))
def test_the_role_weight_never_passes_its_cap(agents, designers, interval, cap):
    weight = advantages.role_weight(agents, designers, interval, cap)
    assert 0 <= weight <= cap
    if agents and designers and weight < cap:
        assert weight * designers == pytest.approx(agents * interval)


@given(st.integers(1, 8), st.data())
def test_every_skill_has_its_turn_equally_often(count, data):
    active = data.draw(st.integers(1, count))
    names = [str(i) for i in range(count)]
    turns = [name for number in range(count) for name in schedule.active_skills(names, active, number)]
    assert {name: turns.count(name) for name in names} == dict.fromkeys(names, active)
    for number in range(count):
        assert len(set(schedule.active_skills(names, active, number))) == active, "none twice in one set"


@given(st.integers(1, 200), st.integers(1, 20))
def test_every_step_belongs_to_the_set_that_was_designed_last(step, interval):
    first = max(one for one in range(1, step + 1) if schedule.designs(one, interval))
    assert step - first < interval
    assert schedule.generation(step, interval) == schedule.generation(first, interval)


@given(st.lists(st.one_of(st.integers(), st.text()), min_size=1, max_size=4))
def test_derived_seeds_follow_from_their_parts_alone(parts):
    assert seeding.derive(*parts) == seeding.derive(*parts)
    assert 0 <= seeding.derive(*parts) < 2**31
    assert seeding.generator(*parts).random() == seeding.generator(*parts).random()
