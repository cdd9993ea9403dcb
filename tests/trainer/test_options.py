"""Every option of the method does in a round what its documentation says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_trainer.config import SpadeConfig
from spade_trainer.design import Attempt, Design
from spade_trainer.method.rewards import Result
from spade_trainer.rounds import Environment, Played, Round, play_metrics

SKILLS = ["a", "b", "c", "d"]


def make(**values):
    return Round(
        SpadeConfig.from_mapping({"skills": SKILLS, "active_skills": 2, "environments_per_skill": 2, **values})
    )


def environment(number, skill="a", hint="look first"):
    return Environment(f"spade/E{number}", f"class E{number}Env: ...", skill, hint)


def play(state, step, outcomes):
    """Play the groups of a step; `outcomes` gives, per environment and arm, what each play comes to."""
    played = []
    for group in state.plays(step):
        for number, seed in enumerate(group.seeds):
            outcome = outcomes(group.environment.id, group.hinted, number)
            result = Result(seed, float(outcome == "won"), outcome)
            played.append(Played(group.environment.id, group.hinted, result, turns=1, tokens=1, seconds=0.0))
    state.take_plays(step, played)
    return played


def design(number, *stages, skill="a"):
    """A design of as many attempts as there are stages; None is an accepted one."""
    attempts = [Attempt(i, "class AEnv: ...", accepted=stage is None, stage=stage) for i, stage in enumerate(stages, 1)]
    return Design(number, skill, attempts)


@pytest.mark.parametrize(("interval", "sets"), [(1, [1, 2, 3, 4, 5, 6]), (4, [1, 5]), (8, [1])])
def test_a_set_is_made_every_k_steps_and_both_arms_are_played_then_only(interval, sets):
    state = make(interval=interval)
    state.new_set([environment(0)])
    assert [step for step in range(1, 7) if state.designs(step)] == sets
    for step in range(1, 7):
        arms = [group.hinted for group in state.plays(step)]
        assert arms == ([False, True] if step in sets else [False])


def test_skills_take_turns_and_active_skills_bounds_them():
    state = make(interval=2)
    assert [state.skills(step) for step in (1, 2, 3, 5)] == [["a", "b"], ["a", "b"], ["c", "d"], ["a", "b"]]
    assert make(active_skills=3).skills(1) == ["a", "b", "c"]
    assert make().slots(1)[0] == ["a", "a", "b", "b"]


def test_without_a_designer_every_slot_is_a_replay():
    assert make(designer={"mode": "none"}).slots(1) == ([], 4)


@pytest.mark.parametrize(("probability", "replays"), [(0.0, 0), (1.0, 4)])
def test_the_share_of_replays(probability, replays):
    assert make(replay={"probability": probability}).slots(1)[1] == replays


def test_the_share_of_replays_holds_on_average():
    state = make(replay={"probability": 0.25}, environments_per_skill=50)
    assert 10 <= sum(state.slots(step)[1] for step in range(1, 6)) / 5 <= 40, "25 of 100 on average"


def test_both_arms_play_the_same_seeds_and_hinted_plays_may_be_fewer():
    state = make(player={"plays": 6, "hinted_plays": 4})
    state.new_set([environment(0), environment(1, hint=None)])
    groups = state.plays(1)
    assert [(group.environment.id, group.hinted) for group in groups] == [
        ("spade/E0", False),
        ("spade/E0", True),
        ("spade/E1", False),
    ], "an environment without a hint has no hinted arm"
    assert groups[1].seeds == groups[0].seeds[:4]
    assert [group.hinted for group in play_groups(make(player={"plays": 2, "hinted_plays": 0}))] == [False]


def play_groups(state):
    state.new_set([environment(0)])
    return state.plays(1)


def test_regret_is_measured_at_the_generation_step_and_the_win_rate_over_the_window():
    state = make(interval=2, player={"plays": 4, "hinted_plays": 4}, reward={"kind": "solve_rate"})
    state.new_set([environment(0)])
    state.hold(1, design(0, None), state.environments[0], ["p"])
    play(state, 1, lambda _, hinted, number: "won" if hinted or number == 0 else "lost")
    assert state.environments[0].regret == 0.75
    play(state, 2, lambda _, hinted, number: "won" if number < 3 else "lost")
    assert state.environments[0].regret == 0.75, "the second step has one arm and changes nothing"
    ((released,), dropped) = state.settle(3)
    assert dropped == 0
    assert released.reward == pytest.approx(1.0), "1 of 4, then 3 of 4: one half over the window"


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        ({}, 0.6 * 1 + 0.4 * 1),
        ({"kind": "regret"}, 0.5),
        ({"kind": "solve_rate"}, 1.0),
        ({"kind": "learning_potential"}, 0.0),
        ({"plateau_weight": 0.2, "regret_weight": 0.8, "regret_scale": 1.0}, 0.2 + 0.8 * 0.5),
        ({"band_low": 0.2, "band_high": 0.4, "ramp": 0.2}, 0.6 * 0.5 + 0.4),
    ],
)
def test_the_kinds_of_reward_and_their_constants(reward, expected):
    """Win rate 0.5, regret 0.5."""
    state = make(interval=1, player={"plays": 2, "hinted_plays": 2}, reward=reward)
    state.new_set([environment(0)])
    state.hold(1, design(0, None), state.environments[0], ["p"])
    play(state, 1, lambda _, hinted, number: "won" if hinted or number == 0 else "lost")
    ((released,), _) = state.settle(2)
    assert released.reward == pytest.approx(expected)


def test_plays_that_do_not_count_are_left_out_and_counted():
    outcomes = ["won", "cut", "faulty", "lost"]
    state = make(interval=1, player={"plays": 4, "hinted_plays": 0}, reward={"kind": "solve_rate"})
    state.new_set([environment(0)])
    state.hold(1, design(0, None), state.environments[0], ["p"])
    played = play(state, 1, lambda _, hinted, number: outcomes[number])
    metrics = play_metrics(state.environments, played)
    assert metrics["spade/player/win_rate"] == 0.5
    assert (metrics["spade/player/cut"], metrics["spade/player/faulty"], metrics["spade/player/timeout"]) == (1, 1, 0)
    assert [one.trained for one in played] == [True, False, False, True]
    ((released,), _) = state.settle(2)
    assert released.reward == 1.0


@pytest.mark.parametrize(
    ("outcome", "reward", "dropped"), [("timeout", -0.5, 0), ("faulty", None, 1), ("cut", None, 1)]
)
def test_a_timeout_is_punished_and_what_was_not_measured_is_dropped(outcome, reward, dropped):
    state = make(interval=1, player={"plays": 2, "hinted_plays": 0})
    state.new_set([environment(0)])
    state.hold(1, design(0, None), state.environments[0], ["p"])
    play(state, 1, lambda *_: outcome)
    released, lost = state.settle(2)
    assert [one.reward for one in released] == ([] if reward is None else [reward])
    assert lost == dropped


@pytest.mark.parametrize(
    ("designer", "rewards"),
    [
        ({}, [-0.5, -0.5]),
        ({"rejected_reward": 0.0}, [0.0, 0.0]),
        ({"train_rejected": False}, []),
    ],
)
def test_rejected_programs_are_samples_if_the_option_says_so_and_cut_ones_never(designer, rewards):
    state = make(interval=1, designer=designer)
    state.hold(1, design(0, "extract", "cut", "policy"), None, ["p", "q", "r"])
    released, _ = state.settle(2)
    assert [one.reward for one in released] == rewards
    assert [one.sample.payload for one in released] == ["p", "r"][: len(rewards)]


@pytest.mark.parametrize(("delay", "due"), [(None, 5), (0, 1), (2, 3), (9, 6)])
def test_the_delay_and_the_flush_at_the_last_step(delay, due):
    state = make(interval=4, delay=delay)
    state.hold(1, design(0, "extract"), None, ["p"])
    seen = [step for step in range(1, 7) if state.settle(step, last=step == 6)[0]]
    assert seen == [due]


@pytest.mark.parametrize(("designer", "expected"), [({}, 16.0), ({"weight_cap": 3.0}, 3.0), ({"weight": 7.0}, 7.0)])
def test_the_weight_of_a_designers_sample(designer, expected):
    state = make(interval=4, designer=designer)
    state.hold(1, design(0, "extract"), None, ["p"])
    state.hold(1, design(1, "extract", skill="b"), None, ["q"])
    released, _ = state.settle(5)
    assert state.credit(released, agent_samples=8)[1] == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12), st.integers(1, 4), st.integers(0, 12))
def test_a_saved_state_goes_on_as_if_nothing_had_happened(arrivals, interval, stop):
    """Designs of several steps, with and without an environment; the state is saved and restored after `stop` steps."""

    def course(restore):
        state, out = make(interval=interval), []
        for step, (count, accepted) in enumerate(arrivals, start=1):
            made = [environment(10 * step + i, SKILLS[i]) for i in range(count)] if accepted else []
            if made:
                state.new_set(made)
            for i in range(count):
                home = made[i] if accepted else None
                state.hold(step, design(i, None if accepted else "extract", skill=SKILLS[i]), home, [(step, i)])
            play(state, step, lambda name, hinted, number: "won" if (number + len(name)) % 3 else "lost")
            released, dropped = state.settle(step, last=step == len(arrivals))
            out.append((dropped, [(one.sample.payload, one.reward) for one in released], state.credit(released, 10)))
            if restore and step == stop:
                saved = state.state_dict()
                state = make(interval=interval)
                state.load_state_dict(saved)
        return out

    whole = course(restore=False)
    assert course(restore=True) == whole
    assert sum(dropped + len(released) for dropped, released, _ in whole) == sum(count for count, _ in arrivals)
