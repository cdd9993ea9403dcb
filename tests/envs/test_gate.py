"""The gate: every stage rejects its kind of fault with a message to repair from, and lets sound programs pass."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from spade_envs import gate
from spade_envs.cli import main
from spade_envs.gate.stages import EXTENT, STAGES
from spade_envs.sandbox import Pool
from spade_envs.starters import records

CASES = Path(__file__).parents[1] / "cases"
STAGE_OF = {"no free win": "no_free_win", "tool schema": "tool_schema"}


@pytest.fixture(scope="module")
def pool():
    with Pool() as pool:
        yield pool


def game(*, init="", reset="", step="", opening="Guess the digit. \\\\boxed{{n}}", tail=""):
    """A sound guessing game, with lines put into its methods."""
    return f'''
import random
import re


class DigitEnv:
    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = max_turns
        {init or "pass"}

    def reset(self, seed=None):
        self.digit, self.turn = random.Random(seed).randint(0, 99), 0
        {reset or "pass"}
        return f"{opening}", {{}}

    def step(self, action):
        self.turn += 1
        {step or "pass"}
        found = re.findall(r"\\\\boxed\\{{(\\d+)\\}}", action)
        if found and int(found[-1][:9]) == self.digit:
            return "Right.", 1.0, True, False, {{}}
        return "No.", 0.0, False, self.turn >= self.max_turns, {{}}

    def solution(self):
        return str(self.digit)
{tail}
'''


SOUND = game()
FAULTY = {
    "extract": ("x = 1\n", "whose name ends in Env"),
    "parse": (SOUND.replace("def step(self, action):", "def step(self, action)"), r"line \d+, column \d+"),
    "policy": (SOUND.replace("import random", "import os\nimport random", 1), r"line 1: .*os"),
    "load": (
        SOUND.replace("self.max_turns = max_turns", "self.max_turns = 1 / 0"),
        r"line \d+ in __init__: ZeroDivisionError",
    ),
    "reset": (game(reset="return '', {}"), "empty observation"),
    "step": (game(step="return 'x', 3.0, True, False, {}"), r"\[-1, 1\].* 3 "),
    "turns": (game(step="self.turn = 0"), "neither terminated nor truncated.*max_turns is 4"),
    "determinism": (
        game(step="return str(random.SystemRandom().random()), 0.0, False, self.turn > 3, {}"),
        "differ at",
    ),
    "no_free_win": (game(step="if 'yes' in action: return 'ok', 1.0, True, False, {}"), r"yes.*wins on 16 of 16 seeds"),
    "leak": (game(opening="The code is {self.digit}. Repeat it."), "gives the solution away"),
    "solvable": (
        SOUND.replace("return str(self.digit)", "return f'\\\\boxed{{{self.digit + 1}}}'"),
        "does not win with seed 0",
    ),
    "cost": (game(step="sum(range(9_000_000))"), r"took \d+ ms"),
}


@pytest.mark.parametrize("stage", FAULTY)
def test_a_faulty_program_fails_at_its_stage_with_a_message(stage, pool):
    source, message = FAULTY[stage]
    report = gate.check(source, pool=pool)
    assert report.failure is not None, report.render()
    assert report.failure[0] == stage, report.failure
    assert re.search(message, report.failure[1]), report.failure[1]
    ran = [one.stage for one in report.stages]
    assert ran[:-1] == [name for name in EXTENT if name != "tool_schema"][: len(ran) - 1]


def test_a_sound_program_passes_every_stage(pool):
    report = gate.check(SOUND, pool=pool, hint="Halve the range.")
    assert report.accepted, report.render()
    assert [one.stage for one in report.stages] == [*(one for one in EXTENT if one != "tool_schema"), "hint"]
    assert (report.max_turns, report.observation, report.warnings) == (4, "Guess the digit. \\boxed{n}", [])


@pytest.mark.parametrize("path", sorted((CASES / "faulty").glob("*.py")), ids=lambda path: path.stem)
def test_the_faulty_cases_fail_where_their_first_line_says(path, pool):
    source = path.read_text()
    named = source.split('"""')[1].split(":")[0]
    report = gate.check(source, pool=pool)
    if named == "accepted":
        assert report.accepted, report.render()
    elif named == "repair":
        assert report.accepted, report.render()
        assert report.changes
    else:
        assert report.failure[0] == STAGE_OF.get(named, named), report.render()


@pytest.mark.parametrize("path", sorted((CASES / "benign").glob("*.py")), ids=lambda path: path.stem)
def test_the_benign_cases_pass_unchanged(path, pool):
    report = gate.check(path.read_text(), pool=pool)
    assert report.accepted, report.render()
    assert report.changes == []


@pytest.mark.parametrize("record", records(), ids=lambda record: record.program.name)
def test_the_starters_pass_with_their_hints(record, pool):
    report = gate.check(record.program, pool=pool, hint=record.hint)
    assert report.accepted, report.render()
    assert report.warnings == []


TOOL = """
class LampEnv(ToolUseBaseEnv):
    def reset(self, seed=None):
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        self.word = random.Random(seed).choice(["amber", "cobalt", "jasper", "topaz", "violet"])
        self._state = {"on": False, "told": False}
        self._tools = {
            "switch": {"description": "Switch.", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}},
            "read": {"description": "Read the label.", "parameters": {"type": "object", "properties": {}}},
        }
        self._user_messages = ["Light the lamp.", "Tell me its colour."]
        self._message_criteria = [lambda s: s["on"], lambda s: s["told"]]
        self._expected_answer = self.word
        return self._user_messages[0], {}

    def tool_switch(self, to):
        self._state["on"] = to == "on"
        return "Switched." + self._advance_if_done()

    def tool_read(self):
        self._state["told"] = True
        return "It is " + self.word + "." + self._advance_if_done()

    def solution(self):
        return "switch(to='on'); read(); <answer>" + self.word + "</answer>"
"""
TOOL_FAULTS = {
    "a method is missing": (TOOL.replace("def tool_read", "def other"), "no method tool_read"),
    "a parameter is not taken": (
        TOOL.replace("def tool_switch(self, to)", "def tool_switch(self, state)"),
        "does not take",
    ),
    "a criterion raises": (
        TOOL.replace('lambda s: s["told"]', 'lambda s: s["tolled"]'),
        "criterion 2 .* raises on every seed",
    ),
    "nothing to do": (TOOL.replace('{"on": False, "told": False}', '{"on": True, "told": True}'), "nothing to do"),
    "never true": (TOOL.replace('lambda s: s["told"]', 'lambda s: s["told"] == "yes"'), "no success path"),
    "no tools": (
        TOOL.replace("        self._user_messages =", "        self._tools = {}\n        self._user_messages ="),
        "_tools is empty",
    ),
}


def test_a_sound_tool_use_program_passes(pool):
    report = gate.check(TOOL, pool=pool)
    assert report.accepted, report.render()
    assert "tool_schema" in [one.stage for one in report.stages]


@pytest.mark.parametrize("fault", TOOL_FAULTS)
def test_a_faulty_tool_use_program_is_rejected(fault, pool):
    source, message = TOOL_FAULTS[fault]
    report = gate.check(source, pool=pool)
    assert report.failure is not None, report.render()
    assert report.failure[0] == "tool_schema", report.failure
    assert re.search(message, report.failure[1]), report.failure[1]


HINTS = [
    ("Halve the range with each question.", None),
    ("The remainders 3, 5 and 7 help, and 42 is a good first guess.", None),
    (" ".join(map(str, range(100))), "contains the answer"),
]


@pytest.mark.parametrize(("hint", "leak"), HINTS)
def test_a_hint_leaks_where_it_holds_the_answers(hint, leak, pool):
    long = game(reset="self.digit += 1000").replace("[:9]", "[:9]")
    text = hint if leak is None else " ".join(str(1000 + n) for n in range(100))
    found = gate.hint_leaks(long, text, pool=pool)
    assert (found is None) == (leak is None), found


def test_a_constant_answer_in_a_hint_leaks(pool):
    constant = game(reset="self.digit = 7")
    assert "'7'" in gate.hint_leaks(constant, "The digit is 7.", pool=pool)
    assert gate.hint_leaks(constant, "There are 17 digits.", pool=pool) is None


def test_several_programs_are_checked_at_once(pool):
    with ThreadPoolExecutor(4) as threads:
        reports = list(
            threads.map(lambda source: gate.check(source, pool=pool), [SOUND, FAULTY["leak"][0], TOOL, SOUND])
        )
    assert [report.accepted for report in reports] == [True, False, True, True]


def test_validate_prints_a_report_and_its_exit_code_is_the_verdict(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(SOUND)
    bad.write_text(FAULTY["turns"][0])
    passed = CliRunner().invoke(main, ["validate", str(good)])
    assert (passed.exit_code, "accepted" in passed.output) == (0, True), passed.output
    failed = CliRunner().invoke(main, ["validate", str(good), str(bad), "--json"])
    assert failed.exit_code == 1
    verdicts = json.loads(failed.stdout)
    assert [one["accepted"] for one in verdicts] == [True, False]
    assert verdicts[1]["failure"]["stage"] == "turns"
    missing = CliRunner().invoke(main, ["validate", str(tmp_path / "none.py")])
    assert missing.exit_code == 2


FENCES = st.sampled_from(["", "```python\n", "```\n"])
LINES = st.lists(
    st.sampled_from(
        ["x = 1", 'y = f"{x}"', 'z = f"\\\\boxed{answer}"', "class AEnv:", "    pass", "```", 'f"{{"', "sqrt(2)", "}"]
    ),
    max_size=8,
)


@given(LINES)
def test_repair_is_idempotent(lines):
    once = gate.repair("\n".join(lines))
    twice = gate.repair(once.source)
    assert twice.source == once.source
    assert twice.changes == []


@given(st.sampled_from([record.program.source for record in records()] + [SOUND, TOOL]))
def test_repair_is_the_identity_on_sound_programs(source):
    assert gate.repair(source) == gate.Repair(source)


ANSWERS = {
    "a block": (f"Here it is:\n```python\n{SOUND}```\nDone.", SOUND),
    "no block": (SOUND, SOUND),
    "the last of two": (f"```python\n{TOOL}```\nOr rather:\n```python\n{SOUND}```", SOUND),
    "not the one in the thinking": (f"<think>\n```python\n{TOOL}```\n</think>\n```python\n{SOUND}```", SOUND),
    "not a block without a class": (f"```python\n{SOUND}```\nRun it:\n```bash\npython x.py\n```", SOUND),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_program_of_an_answer(name):
    answer, program = ANSWERS[name]
    assert gate.extract_program(answer).strip() == program.strip()


def test_every_stage_has_a_faulty_program():
    assert set(STAGES) - {"tool_schema"} <= set(FAULTY)
