"""Prompts: what each template says for what it is given, and that its version follows its text."""

from types import SimpleNamespace

import pytest
from jinja2 import UndefinedError

from spade_envs.errors import SpadeError
from spade_trainer import prompts

DOCUMENT = SimpleNamespace(title="Tides", text="Water rises twice a day.")


def designer(**changes):
    variables = {"skill": "Logical Deduction", "document": None, "seeds": [], "negatives": [], "max_turns": 5}
    return prompts.render("designer_game", **{**variables, **changes})


def test_designer_prompt_is_a_system_and_a_user_message():
    messages = designer()
    assert [message["role"] for message in messages] == ["system", "user"]
    assert "Logical Deduction" in messages[1]["content"]
    assert "<document>" not in messages[1]["content"]


def test_designer_prompt_shows_document_seeds_and_negatives():
    seed = {"source": "class OldEnv: pass", "observation": "o", "hint": "count first", "win_rate": 0.5, "regret": 0.25}
    text = designer(document=DOCUMENT, seeds=[seed], negatives=[{"name": "Dull", "reason": "too easy"}])[1]["content"]
    for shown in ("Tides", "Water rises", "class OldEnv: pass", "won 50 %", "0.25", "count first", "Dull: too easy"):
        assert shown in text


def test_single_and_multi_turn_designs_are_asked_for_differently():
    assert "answers once" in designer(max_turns=1)[1]["content"]
    assert "answers once" not in designer(max_turns=2)[1]["content"]


def test_player_gets_a_system_message_only_and_the_hint_in_it():
    plain = prompts.render("player", hint=None)
    hinted = prompts.render("player", hint="look first")
    assert [message["role"] for message in plain] == ["system"]
    assert "hint" not in plain[0]["content"]
    assert hinted[0]["content"].endswith("look first")


def test_hint_prompt_shows_the_source():
    assert "class AEnv" in prompts.render("hint_game", source="class AEnv: ...", skill=None)[1]["content"]


def test_a_missing_variable_is_an_error():
    with pytest.raises(UndefinedError):
        prompts.render("hint_game", skill=None)


def test_an_unknown_template_names_the_file():
    with pytest.raises(SpadeError, match=r"default/nothing\.j2"):
        prompts.render("nothing")


def test_version_identifies_the_text_of_a_template():
    names = ("designer_game", "hint_game", "player")
    assert len({prompts.version(name) for name in names}) == len(names)
    assert prompts.version("player") == prompts.version("player", "default")
