"""One play by a chat model: what it sees, what the environment gets, and what counts as what."""

import asyncio
import json

import pytest

from spade_envs.contract import Program
from spade_envs.sandbox import Pool
from spade_trainer.generation.generator import Answer, ContextOverflow, Sampling
from spade_trainer.plays import Player, complete
from spade_trainer.prompt_sets import PromptSet
from spade_trainer.toolcalls import ToolCall

DOORS = Program.from_source('''
import random
import re


class DoorsEnv:
    """Behind one of five doors is the prize; a wrong door says whether to go left or right."""

    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.door = random.Random(seed).randint(1, 5)
        self.turn = 0
        return "Five doors. Reply with \\\\boxed{number}.", {}

    def step(self, action):
        self.turn += 1
        found = re.findall(r"boxed\\{(\\d+)\\}", action)
        if found and int(found[-1]) == 0:
            raise RuntimeError("door zero")
        if found and int(found[-1]) == self.door:
            return "The prize.", 1.0, True, False, {}
        way = "left" if found and int(found[-1]) > self.door else "right"
        return f"Not here, go {way}.", 0.0, False, self.turn >= self.max_turns, {}
''')

SHOP = Program.from_source("""
class ShopEnv(ToolUseBaseEnv):
    def reset(self, seed=None):
        self.turn_count = 0
        self._state = {"ordered": []}
        self._tools = {
            "order": {
                "description": "Order an item",
                "parameters": {
                    "type": "object",
                    "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
                    "required": ["item", "count"],
                },
            }
        }
        self._user_messages = ["Order two lamps, then answer done."]
        self._message_criteria = [lambda state: ["lamp", 2] in state["ordered"]]
        self._current_msg = 0
        self._expected_answer = "done"
        return self._user_messages[0], {}

    def tool_order(self, item, count):
        self._state["ordered"].append([item, count])
        return f"Ordered {count} {item}." + self._advance_if_done()
""")


class Script:
    """A generator that says what it is told to, and keeps what it was asked."""

    name = "script"

    def __init__(self, *answers, native_tools=True):
        self.answers = list(answers)
        self.native_tools = native_tools
        self.asked = []

    async def prepare(self): ...

    async def close(self): ...

    async def generate(self, messages, sampling, *, tools=()):
        self.asked.append((list(messages), sampling, tools))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return Answer(answer, "stop", prompt_tokens=7, tokens=3) if isinstance(answer, str) else answer


@pytest.fixture(scope="module")
def pool():
    with Pool(max_workers=4) as made:
        yield made


def play(pool, program, *answers, seed=0, hint=None, max_turns=25, **options):
    script = Script(*answers, **options)
    player = Player(script, Sampling(0.6, 100), PromptSet(), max_turns)
    return asyncio.run(player.play(program, pool, seed=seed, hint=hint)), script


def door(seed):
    import random

    return random.Random(seed).randint(1, 5)


def test_a_won_play_with_its_conversation_and_counts(pool):
    wrong = next(number for number in range(1, 6) if number != door(3))
    played, script = play(pool, DOORS, rf"I try \boxed{{{wrong}}}", rf"Then \boxed{{{door(3)}}}", seed=3)
    assert (played.outcome, played.ret, played.turns) == ("won", 1.0, 2)
    assert (played.prompt_tokens, played.tokens) == (14, 6)
    roles = [message["role"] for message in json.loads(played.transcript)]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "Not here" in script.asked[1][0][-1]["content"]


def test_the_hint_stands_in_the_system_message_of_the_hinted_arm_only(pool):
    hinted, script = play(pool, DOORS, r"\boxed{6}", hint="Halve the rest.", max_turns=1)
    assert hinted.outcome == "lost"
    assert "Halve the rest." in script.asked[0][0][0]["content"]
    _, script = play(pool, DOORS, r"\boxed{6}", max_turns=1)
    assert "Halve the rest." not in json.dumps(script.asked[0][0])


def test_a_thought_is_no_action(pool):
    played, _ = play(pool, DOORS, rf"<think>perhaps \boxed{{{door(1)}}}</think>I pass.", seed=1)
    assert (played.outcome, played.turns) == ("lost", 4)


def test_an_answer_cut_before_its_action_is_a_cut_play(pool):
    played, _ = play(pool, DOORS, Answer(r"I reason at length and \boxed{", "length"))
    assert (played.outcome, played.ret, played.turns) == ("cut", 0.0, 0)


def test_an_answer_cut_after_its_action_is_played(pool):
    played, _ = play(pool, DOORS, Answer(rf"\boxed{{{door(2)}}} because", "length"), seed=2)
    assert played.outcome == "won"


def test_a_conversation_that_outgrows_the_context_is_a_cut_play(pool):
    played, _ = play(pool, DOORS, r"\boxed{6}", ContextOverflow("full"))
    assert (played.outcome, played.turns) == ("cut", 1)


def test_a_program_that_raises_is_faulty_and_says_why(pool):
    played, _ = play(pool, DOORS, r"\boxed{0}")
    assert played.outcome == "faulty"
    assert "door zero" in played.fault


def test_a_program_that_cannot_be_loaded_is_faulty(pool):
    broken = Program.from_source(
        "import os\nclass BadEnv:\n    def reset(self): ...\n    def step(self, action): ...\n"
    )
    played, script = play(pool, broken, "x")
    assert played.outcome == "faulty"
    assert not script.asked


def test_the_same_play_is_asked_with_the_same_seeds_and_another_arm_with_others(pool):
    def seeds(**options):
        return [sampling.seed for _, sampling, _ in play(pool, DOORS, r"\boxed{6}", **options)[1].asked]

    assert seeds(seed=1) == seeds(seed=1)
    assert len(set(seeds(seed=1))) == 4
    assert not set(seeds(seed=1)) & set(seeds(seed=1, hint="h"))


@pytest.mark.parametrize(
    "call",
    [
        '<tool_call>{"name": "order", "arguments": {"item": "lamp", "count": 2}}</tool_call>',
        "<tool_call><function=order><parameter=item>lamp</parameter><parameter=count>2</parameter></function></tool_call>",
        Answer("", "stop", (ToolCall("order", {"item": "lamp", "count": 2}, "c7"),)),
    ],
    ids=["json", "xml", "structured"],
)
def test_a_tool_is_called_in_every_notation(pool, call):
    played, script = play(pool, SHOP, call, "<answer>done</answer>")
    assert (played.outcome, played.turns) == ("won", 2)
    assert script.asked[0][2][0]["function"]["name"] == "order"
    reply = script.asked[1][0][-1]
    assert "Ordered 2 lamp." in reply["content"]
    if isinstance(call, Answer):
        assert (reply["role"], reply["tool_call_id"]) == ("tool", "c7")
        assert script.asked[1][0][-2]["tool_calls"][0]["id"] == "c7"
    else:
        assert reply["role"] == "user"


def test_a_model_without_tools_in_its_template_reads_them_in_the_system_message(pool):
    _, script = play(pool, SHOP, "<answer>done</answer>", native_tools=False, max_turns=1)
    messages, _, tools = script.asked[0]
    assert tools == ()
    assert '"order"' in messages[0]["content"]
    _, script = play(pool, SHOP, "<answer>done</answer>", max_turns=1)
    assert '"order"' not in script.asked[0][0][0]["content"]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (r"\boxed{1}", True),
        (r"\boxed{f(\{1,{2}\})} and", True),
        (r"\boxed{1", False),
        (r"<think>\boxed{1}", False),
        ("<answer>x</answer>", True),
        ('<tool_call>{"name"', False),
        ("plain words", False),
    ],
)
def test_what_counts_as_a_whole_action(text, whole):
    assert complete(Answer(text, "length")) is whole
