"""The configuration: defaults of the paper, and a refusal that names the setting and what it accepts."""

import pytest

from spade_trainer.config import ConfigError, SpadeConfig, settings


def test_defaults_are_the_papers_values():
    config = SpadeConfig.from_mapping({})
    assert (config.environments, config.interval, config.delay_steps) == (24, 4, 4)
    assert (config.player.plays, config.player.hinted_plays, config.player.temperature) == (16, 16, 0.6)
    assert (config.designer.max_tokens, config.designer.attempts, config.designer.hint_temperature) == (16384, 5, 0.3)
    reward = config.reward
    assert (reward.plateau_weight, reward.regret_weight, reward.regret_scale, reward.ramp) == (0.6, 0.4, 0.15, 0.25)
    assert (reward.band_low, reward.band_high, reward.timeout) == (0.4, 0.6, -0.5)
    assert (config.memory.capacity, config.memory.seeds, config.memory.negatives) == (200, 2, 1)
    assert config.rejected_reward == -0.5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"reward": {"ramp": 3}}, r"spade\.reward\.ramp must be a number in \[0, 1\]; got 3"),
        ({"interval": 0}, r"spade\.interval must be an integer of at least 1; got 0"),
        ({"interval": 2.5}, r"spade\.interval must be an integer"),
        ({"interval": True}, r"spade\.interval must be an integer"),
        ({"reward": {"kind": "novelty"}}, r"spade\.reward\.kind must be a string out of blend, regret"),
        ({"reward": {"ramp": float("nan")}}, r"spade\.reward\.ramp"),
        ({"player": {"play": 3}}, r"no setting spade\.player\.play; spade\.player has plays"),
        ({"skills": "Logic"}, r"spade\.skills must be list of strings"),
        ({"active_skills": 9}, r"at most the number of skills, 6; got 9"),
        ({"reward": {"band_low": 0.7}}, "band_low must not be above"),
        ({"player": {"hinted_plays": 20}}, "both arms play the same seeds"),
        ({"designer": {"temperature": 1.0}}, "one temperature"),
        ({"designer": {"mode": "external"}}, "needs spade.designer.endpoint"),
        ({"seed": None}, r"spade\.seed must be an integer"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_accepted(values, message):
    with pytest.raises(ConfigError, match=message):
        SpadeConfig.from_mapping(values)


def test_nested_values_and_nulls_are_read():
    config = SpadeConfig.from_mapping(
        {"delay": 0, "designer": {"rejected_reward": 0, "mode": "frozen", "temperature": 1}, "reward": {"ramp": 0}}
    )
    assert (config.delay_steps, config.rejected_reward, config.designer.temperature) == (0, 0.0, 1.0)


def test_every_setting_is_documented_with_a_source():
    listed = list(settings())
    assert len({setting.name for setting in listed}) == len(listed) > 50
    for setting in listed:
        assert setting.doc, setting.name
        assert setting.source, setting.name
