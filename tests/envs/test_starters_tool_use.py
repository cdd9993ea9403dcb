"""The tool-use starters: the solution wins, single mistakes do not, and no call breaks them."""

import json
import random

import pytest

from spade_envs.episode import Episode
from spade_envs.sandbox import Pool
from spade_envs.starters import records

TOOL_USE = [record for record in records() if record.program.kind == "tool_use"]
SEEDS = range(15)
VALUES = {
    "string": ["", "nothing", "A1", "🙂" * 50, "inbox/../x", "front"],
    "integer": [0, -1, 7, 10**9],
    "array": [[], ["nobody"], ["a", "a"]],
}


def stem(record):
    return record.metadata["file"].removesuffix(".py")


@pytest.fixture(scope="module")
def pool():
    with Pool(max_workers=4) as pool:
        yield pool


@pytest.fixture(params=TOOL_USE, ids=stem)
def episode(request, pool):
    record = request.param
    with Episode(record.program, max_turns=record.max_turns, pool=pool) as episode:
        yield episode


def play(episode, seed, actions):
    episode.reset(seed)
    for action in actions:
        if not episode.done:
            episode.step(action)
    return episode.outcome


def solution(episode, seed):
    episode.reset(seed)
    return episode.solution().split("\n")


def test_the_solution_wins(episode):
    for seed in SEEDS:
        assert play(episode, seed, solution(episode, seed)) == "won"
        assert episode.ret == 1.0


def test_there_is_room_for_looking_things_up(episode):
    assert len(solution(episode, 0)) <= episode.max_turns - 10


def test_the_opening_shows_neither_answer_nor_later_instructions(episode):
    for seed in SEEDS:
        opening = episode.reset(seed)
        answer = episode.solution().split("\n")[-1].removeprefix("<answer>").removesuffix("</answer>")
        assert answer not in opening
        assert opening.count("\n") <= 4
    others = {episode.solution().split("\n")[-1] for seed in SEEDS if episode.reset(seed)}
    assert len(others) == len(SEEDS), "answers must differ between seeds"


def test_every_call_of_the_solution_is_needed(episode):
    """Without any one call the answer is not accepted, and the reply names what is still open."""
    for seed in range(3):
        *calls, answer = solution(episode, seed)
        for left_out in range(len(calls)):
            kept = [call for index, call in enumerate(calls) if index != left_out]
            assert play(episode, seed, kept) is None
            assert "Still open:" in episode.step(answer)
            assert episode.outcome is None


def test_an_answer_alone_does_not_win(episode):
    for seed in SEEDS:
        answer = solution(episode, seed)[-1]
        play(episode, seed, [answer] * 30)
        assert episode.outcome == "lost"


def test_instructions_are_revealed_one_at_a_time(episode):
    """Three to five instructions: the replies on the way reveal all but the first, then ask for the answer."""
    *calls, _ = solution(episode, 1)
    episode.reset(1)
    replies = [episode.step(call) for call in calls]
    revealed = sum(len(reply.split("\n")) > 1 for reply in replies)
    assert 3 <= revealed <= 5
    assert "Give your <answer>" in replies[-1]
    assert not any("Give your <answer>" in reply for reply in replies[:-1])


def schemas(episode):
    """What the player is told about the tools."""
    return [schema["function"] for schema in episode.info["tools"]]


def test_distractors_are_offered(episode):
    used = {json.loads(line[11:-12])["name"] for line in solution(episode, 0)[:-1]}
    offered = {schema["name"] for schema in schemas(episode)}
    assert used < offered
    assert len(offered) >= 8


def test_any_call_is_answered_in_words(episode):
    """Arguments that fit the schema and make no sense, and arguments that do not fit it."""
    rng = random.Random(5)
    episode.reset(2)
    tools = schemas(episode)
    for _ in range(4):
        for tool in tools:
            properties = tool["parameters"]["properties"]
            arguments = {name: rng.choice(VALUES[schema["type"]]) for name, schema in properties.items()}
            if rng.random() < 0.3:
                arguments = {**arguments, "surplus": None}
            reply = call(episode, tool["name"], arguments)
            assert episode.fault is None
            assert reply
            assert "failed:" not in reply, reply
            if episode.done:
                episode.reset(2)


def test_reading_tools_change_nothing(episode):
    """All tools without arguments that only read, called first, leave the solution valid."""
    readers = ("list", "read", "find", "house_state", "free", "open_hours", "mast", "team", "amount", "disk", "reading")
    for seed in range(3):
        steps = solution(episode, seed)
        names = [tool["name"] for tool in schemas(episode) if not tool["parameters"]["properties"]]
        first = [text(name, {}) for name in names if name.startswith(readers)]
        assert play(episode, seed, first + steps) == "won"


def text(name, arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def call(episode, name, arguments):
    return episode.step(text(name, arguments))
