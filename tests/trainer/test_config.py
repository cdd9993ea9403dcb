"""The configuration: defaults of the paper, and a refusal that names the setting and what it accepts."""

import dataclasses

import pytest

from spade_trainer.config import ConfigError, SpadeConfig, settings
from spade_trainer.presets import FOLDER


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
        ({"skills": "Logic"}, r"spade\.skills must be a list of strings"),
        ({"active_skills": 9}, r"at most the number of skills, 6; got 9"),
        ({"reward": {"band_low": 0.7}}, "band_low must not be above"),
        ({"player": {"hinted_plays": 20}}, "both arms play the same seeds"),
        ({"designer": {"temperature": 1.0}}, "one temperature"),
        ({"designer": {"mode": "external"}}, "needs spade.designer.endpoint"),
        ({"player": 3}, r"spade\.player must be a mapping of settings; got 3"),
        ([], r"spade must be a mapping of settings"),
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


def at(name, value):
    """The nested mapping that sets `name` to `value`."""
    *path, last = name.split(".")[1:]
    nested = {last: value}
    for part in reversed(path):
        nested = {part: nested}
    return nested


def limits():
    """Every setting with a range or choices, and a value just outside of it."""

    def walk(cls, prefix):
        for item in dataclasses.fields(cls):
            name = f"{prefix}.{item.name}"
            if item.default_factory is not dataclasses.MISSING and dataclasses.is_dataclass(item.default_factory):
                yield from walk(item.default_factory, name)
                continue
            low, high, choices = (item.metadata[key] for key in ("low", "high", "choices"))
            if low is not None:
                yield name, low - 1, f"{low:g}"
            if high is not None:
                yield name, high + 1, f"{high:g}"
            if choices:
                yield name, "unheard-of", choices[-1]

    return list(walk(SpadeConfig, "spade"))


@pytest.mark.parametrize(("name", "value", "bound"), limits())
def test_every_bound_is_enforced_and_named(name, value, bound):
    with pytest.raises(ConfigError) as refusal:
        SpadeConfig.from_mapping(at(name, value))
    said = str(refusal.value)
    assert said.startswith(f"{name} must be ")
    assert bound in said.split("; got")[0]


@pytest.mark.parametrize("setting", list(settings()), ids=lambda setting: setting.name)
def test_a_setting_refuses_another_type(setting):
    with pytest.raises(ConfigError, match=rf"{setting.name} must be .*; got"):
        SpadeConfig.from_mapping(at(setting.name, {"a": 1}))


def test_the_presets_begin_from_the_same_defaults():
    yaml = pytest.importorskip("yaml")
    values = yaml.safe_load((FOLDER / "method" / "default.yaml").read_text())
    assert SpadeConfig.from_mapping(values) == SpadeConfig()
    listed = {setting.name for setting in settings()}
    assert {name for name in listed if _holds(values, name)} == listed


def _holds(values, name):
    for part in name.split(".")[1:]:
        if part not in values:
            return False
        values = values[part]
    return True
