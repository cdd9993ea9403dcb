"""The starters are announced, complete, and found like any other environment."""

from collections import Counter

import pytest

from spade_envs.errors import UnknownEnvironment
from spade_envs.sources import resolve, sources
from spade_envs.starters import records, source

GAME_SKILLS = {
    "Mathematical Reasoning",
    "Logical Deduction",
    "Spatial Reasoning",
    "Pattern Recognition",
    "Optimization",
    "Causal Inference",
}
TOOL_SKILLS = {
    "API Orchestration",
    "State Modification",
    "Data Retrieval",
    "Error Recovery",
    "Tool Selection",
    "Multi-Step Workflows",
}


def test_two_programs_for_every_skill():
    games = Counter(record.skill for record in records() if record.program.kind == "game")
    tools = Counter(record.skill for record in records() if record.program.kind == "tool_use")
    assert games == dict.fromkeys(GAME_SKILLS, 2)
    assert tools == dict.fromkeys(TOOL_SKILLS, 2)


def test_every_record_is_complete():
    for record in records():
        assert record.hint
        assert 2 <= len(record.hint.split(". ")) <= 6
        assert record.max_turns >= 3
        assert f"max_turns={record.max_turns}" in record.program.source
        assert record.license == "Apache-2.0"
        assert record.metadata["title"].replace(" ", "") == record.program.name


def test_starters_are_an_announced_source():
    assert "starters" in [one.name for one in sources()]
    assert len(list(source().ids())) == len(records())


@pytest.mark.parametrize("record", records(), ids=lambda record: record.program.name)
def test_resolve_by_id_prefix_and_name(record):
    assert resolve(record.program.id) == record
    assert resolve(record.program.sha256[:8]).program == record.program
    assert resolve(record.program.name).program == record.program


def test_a_typing_error_is_answered_with_near_matches():
    with pytest.raises(UnknownEnvironment, match="spade/KilnDial-"):
        resolve("KilnDail")


def test_programs_import_nothing_of_ours():
    for record in records():
        assert "spade" not in record.program.source.lower()
