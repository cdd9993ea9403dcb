"""One slot: attempts, repair turns, hints, and what each request to the model carries."""

import asyncio

import pytest
from test_masks import DOORS

from spade_trainer.config import DesignerConfig
from spade_trainer.design import Design, Job, Reply, design, fit, hint_refusal

GOOD = f"```python\n{DOORS}```"
HINT = "Halve the doors that are left at every turn."


def job(**changes):
    return Job(0, "Logical Deduction", [{"role": "user", "content": "Write an environment."}], seed=1, **changes)


def fill(*replies, kind="game", **settings):
    """Fill a slot with a scripted model; return the design and the requests."""
    asked, left = [], list(replies)

    async def ask(messages, *, purpose, temperature, max_tokens, seed):
        asked.append((purpose, temperature, max_tokens, seed, [dict(message) for message in messages]))
        reply = left.pop(0)
        return reply if isinstance(reply, Reply) else Reply(reply, cut=False)

    config = DesignerConfig(**settings)
    return asyncio.run(design(job(kind=kind), ask, config)), asked


def test_a_program_is_retried_from_the_start_until_one_is_accepted():
    result, asked = fill("nothing", "```python\nclass BadEnv:\n    pass\n```", GOOD, HINT)
    assert [attempt.accepted for attempt in result.attempts] == [False, False, True]
    assert [attempt.stage for attempt in result.attempts] == ["extract", result.attempts[1].stage, None]
    assert result.accepted.source.strip().startswith("import random")
    assert [len(messages) for *_, messages in asked[:3]] == [1, 1, 1], "no repair turn by default"
    assert len({seed for *_, seed, _ in asked}) == 4
    assert result.hint == HINT
    assert Design.from_dict(result.to_dict()) == result


def test_attempts_are_limited():
    result, asked = fill(*["nothing"] * 3, attempts=3)
    assert result.accepted is None
    assert result.hint is None
    assert [purpose for purpose, *_ in asked] == ["program"] * 3


def test_a_repair_turn_sends_the_gates_message_back():
    result, asked = fill("nothing", "still nothing", GOOD, HINT, repair_turns=1)
    assert [len(messages) for *_, messages in asked[:3]] == [1, 3, 1], "one repair turn, then a fresh try"
    sent_back = asked[1][-1][-1]["content"]
    assert result.attempts[0].message in sent_back
    assert "Stage: extract" in sent_back


def test_temperatures_and_limits_go_with_the_purpose():
    settings = {"temperature": 0.7, "max_tokens": 900, "hint_temperature": 0.2, "hint_max_tokens": 80}
    _, asked = fill(GOOD, HINT, **settings)
    assert [request[:3] for request in asked] == [("program", 0.7, 900), ("hint", 0.2, 80)]


def test_an_answer_that_was_cut_is_neither_accepted_nor_rejected():
    result, _ = fill(Reply("```python\nclass HalfEnv:", cut=True), GOOD, HINT, repair_turns=1)
    assert result.attempts[0].cut
    assert result.accepted.number == 2


@pytest.mark.parametrize(
    ("hint", "why"), [("", "the hint is empty"), ("x" * 2001, "2001 characters, more than 2000"), (None, "cut")]
)
def test_an_unusable_hint_is_asked_for_again(hint, why):
    first = Reply("", cut=True) if hint is None else hint
    result, asked = fill(GOOD, first, HINT)
    assert result.hint == HINT
    assert [purpose for purpose, *_ in asked] == ["program", "hint", "hint"]
    result, _ = fill(GOOD, first, hint_attempts=1)
    assert result.hint is None
    assert why in result.hint_leak or "token limit" in result.hint_leak


def test_a_hint_without_thinking_is_kept():
    result, _ = fill(GOOD, f"<think>door 3?</think>\n{HINT}\n")
    assert result.hint == HINT


def test_a_program_of_the_other_kind_is_rejected():
    result, asked = fill(GOOD, attempts=1, kind="tool_use")
    assert (result.attempts[0].accepted, result.attempts[0].stage) == (False, "kind")
    assert "ToolUseBaseEnv" in result.attempts[0].message
    assert result.attempts[0].checks[-1]["stage"] == "kind"
    assert len(asked) == 1


def test_a_hint_that_tells_the_answer_is_refused():
    constant = DOORS.replace("random.Random(seed).randint(1, 5)", "3 + 0 * random.Random(seed).randint(1, 5)")
    assert hint_refusal(DOORS, HINT) is None
    assert hint_refusal(constant, "Say \\boxed{3} at once.") is not None


def test_the_richest_prompt_that_fits_is_shown():
    candidates = [lambda n=n: [{"role": "user", "content": "x" * n}] for n in (30, 20, 10)]
    for room, shown in ((30, 30), (25, 20), (1, 10)):
        assert (
            len(fit(candidates, lambda messages, room=room: len(messages[0]["content"]) <= room)[0]["content"]) == shown
        )
