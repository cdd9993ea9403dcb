"""Prompt sets: the templates that come with the package, and a folder that replaces some of them."""

import pytest

from spade_envs.errors import SpadeError
from spade_trainer import prompts
from spade_trainer.prompt_sets import NAMES, PromptSet

TOOLS = [{"type": "function", "function": {"name": "pay", "parameters": {"type": "object"}}}]


def test_the_default_variant_holds_every_prompt():
    assert PromptSet().names() == list(NAMES)


@pytest.mark.parametrize("name", ["designer_game", "hint_game", "player"])
def test_an_untouched_set_renders_what_the_trainer_renders(name):
    variables = {
        "designer_game": {
            "skill": "Optimization",
            "document": {"title": "Bees", "text": "Bees dance."},
            "seeds": [],
            "negatives": [],
            "max_turns": 5,
        },
        "hint_game": {"source": "class AEnv: ...", "skill": None},
        "player": {"hint": "Count."},
    }[name]
    assert PromptSet().render(name, **variables) == prompts.render(name, **variables)
    assert PromptSet().version(name) == prompts.version(name)


def test_the_four_tasks_of_tool_use_give_four_prompts():
    def designer(task):
        messages = PromptSet().render(
            "designer_tool_use",
            skill="Error Recovery",
            task=task,
            document=None,
            seeds=[],
            negatives=[{"name": "ShopEnv", "reason": "too easy"}],
            max_turns=12,
        )
        assert [message["role"] for message in messages] == ["system", "user"]
        return messages[1]["content"]

    texts = [designer(task) for task in ("execute", "read_then_write", "missing_value", "irrelevant_request")]
    assert len(set(texts)) == 4
    assert all("max_turns=12" in text and "Error Recovery" in text and "ShopEnv" in text for text in texts)


def test_schemas_stand_in_the_system_message_only_where_the_chat_template_takes_none():
    with_tools = PromptSet().render("player_tool_use", hint=None, tools=TOOLS)[0]["content"]
    without = PromptSet().render("player_tool_use", hint="Look first.", tools=None)[0]["content"]
    assert '"pay"' in with_tools
    assert '"pay"' not in without
    assert "Look first." in without


def test_a_folder_replaces_one_template_and_changes_its_version_only(tmp_path):
    (tmp_path / "player.j2").write_text("{% block system %}\nPlay. {{ hint or '' }}\n{% endblock %}\n")
    own = PromptSet(directory=tmp_path)
    assert own.render("player", hint="Now") == [{"role": "system", "content": "Play. Now"}]
    assert own.version("player") != PromptSet().version("player")
    assert own.version("hint_game") == PromptSet().version("hint_game")
    assert own.names() == list(NAMES)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no .j2 file"),
        ({"plyer.j2": "x"}, "plyer.j2"),
    ],
)
def test_a_folder_that_would_change_nothing_is_refused(tmp_path, files, words):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(SpadeError, match=words):
        PromptSet(directory=tmp_path)


def test_a_missing_folder_and_an_unknown_variant_are_refused(tmp_path):
    with pytest.raises(SpadeError, match="not a folder"):
        PromptSet(directory=tmp_path / "none")
    with pytest.raises(SpadeError, match="variants are"):
        PromptSet("baroque")


@pytest.mark.parametrize("text", ["{% block system %}{{ nobody }}{% endblock %}", "{% block system %}{{ hint"])
def test_a_template_that_cannot_be_used_is_told_with_its_file(tmp_path, text):
    (tmp_path / "player.j2").write_text(text)
    with pytest.raises(SpadeError, match=r"player\.j2"):
        PromptSet(directory=tmp_path).render("player", hint=None)


def test_a_malformed_template_is_found_before_anything_depends_on_it(tmp_path):
    (tmp_path / "player.j2").write_text("{% block system %}")
    with pytest.raises(SpadeError, match=r"player\.j2"):
        PromptSet(directory=tmp_path).check("player")


def test_an_unknown_prompt_is_refused_with_those_there_are():
    with pytest.raises(SpadeError, match="designer_game"):
        PromptSet().source("poet")
