"""The public test kit: every function passes a sound program and fails a faulty one."""

import pytest
from test_gate import FAULTY, SOUND, TOOL, TOOL_FAULTS

from spade_envs import testing

KIT = {
    "load": testing.load_test,
    "reset": testing.reset_test,
    "step": testing.step_test,
    "turns": testing.turns_test,
    "determinism": testing.determinism_test,
    "no_free_win": testing.free_win_test,
    "leak": testing.leak_test,
    "solvable": testing.solvable_test,
    "cost": testing.cost_test,
}


@pytest.mark.parametrize("stage", KIT)
def test_each_function_passes_a_sound_program_and_fails_a_faulty_one(stage):
    assert not KIT[stage](SOUND)
    with pytest.raises(AssertionError):
        KIT[stage](FAULTY[stage][0])


def test_tool_schemas():
    assert testing.tool_schema_test(TOOL) == []
    with pytest.raises(AssertionError, match="no success path"):
        testing.tool_schema_test(TOOL_FAULTS["never true"][0])
    with pytest.raises(AssertionError, match="does not subclass"):
        testing.tool_schema_test(SOUND)


def test_the_whole_of_it_on_text_file_and_id(tmp_path):
    file = tmp_path / "digit.py"
    file.write_text(SOUND)
    for given in (SOUND, file, str(file), "LiarsInn"):
        assert testing.environment_test(given).accepted
    with pytest.raises(AssertionError, match="FAIL turns"):
        testing.environment_test(FAULTY["turns"][0])
    with pytest.raises(AssertionError, match="after a repair"):
        testing.environment_test("```\n" + SOUND + "```\n")
    testing.repair_test(SOUND)
    with pytest.raises(AssertionError, match="repair"):
        testing.repair_test("```\n" + SOUND + "```\n")


def test_hints():
    testing.hint_test(SOUND, "Halve the range.")
    with pytest.raises(AssertionError, match="contains the answer"):
        testing.hint_test(SOUND.replace("randint(0, 99)", "randint(7, 7)"), "It is 7.")
