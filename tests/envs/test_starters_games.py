"""The starter games can be won from what they show, are seldom won by guessing, and take whatever is thrown at them."""

import pytest
import starter_policies

from spade_envs.episode import Episode
from spade_envs.sandbox import Pool
from spade_envs.starters import records

GAMES = [record for record in records() if record.program.kind == "game"]
SEEDS = range(40)
STRANGE_ACTIONS = [
    "",
    "I would rather not.",
    "\\boxed{}",
    "\\boxed{7}",
    "\\boxed{zebra}",
    "7",
    "\\boxed{" + "9" * 5000 + "}",
    "x" * 100_000,
    "{}{0}{{\\boxed{",
    "\\boxed{٣ ½ ² 🙂}",
    '<tool_call>{"name": </tool_call>',
    "\\boxed{answer -1}",
]


def stem(record):
    return record.metadata["file"].removesuffix(".py")


@pytest.fixture(scope="module")
def pool():
    with Pool(max_workers=4) as pool:
        yield pool


def play(episode, seed, policy):
    opening = episode.reset(seed)
    assert episode.fault is None
    moves = policy(opening)
    action = next(moves)
    while True:
        observation = episode.step(action)
        if episode.done:
            return episode.outcome
        action = moves.send(observation)


def win_rate(record, pool, policy):
    with Episode(record.program, max_turns=record.max_turns, pool=pool) as episode:
        outcomes = [play(episode, seed, policy) for seed in SEEDS]
    assert set(outcomes) <= {"won", "lost"}
    return outcomes.count("won") / len(outcomes)


@pytest.mark.parametrize("record", GAMES, ids=stem)
def test_a_solver_wins_and_a_guesser_seldom_does(record, pool):
    solved = win_rate(record, pool, getattr(starter_policies, f"solve_{stem(record)}"))
    guessed = win_rate(record, pool, getattr(starter_policies, f"guess_{stem(record)}"))
    assert solved >= 0.9
    assert guessed <= 0.75
    assert solved - guessed >= 0.25


@pytest.mark.parametrize("record", GAMES, ids=stem)
def test_the_solution_wins_and_is_not_shown(record, pool):
    with Episode(record.program, max_turns=record.max_turns, pool=pool) as episode:
        for seed in range(10):
            opening = episode.reset(seed)
            solution = episode.solution()
            assert solution not in opening
            for action in solution.split("\n"):
                episode.step(action)
            assert episode.outcome == "won"


@pytest.mark.parametrize("record", GAMES, ids=stem)
def test_the_last_box_counts(record, pool):
    with Episode(record.program, max_turns=record.max_turns, pool=pool) as episode:
        episode.reset(3)
        for action in episode.solution().split("\n"):
            episode.step(f"First I thought \\boxed{{0}}, but no: {action}. That is it.")
        assert episode.outcome == "won"


@pytest.mark.parametrize("record", GAMES, ids=stem)
def test_strange_actions_get_help_and_end_in_time(record, pool):
    with Episode(record.program, max_turns=None, pool=pool) as episode:
        for action in STRANGE_ACTIONS:
            episode.reset(1)
            turns = 0
            while not episode.done:
                observation = episode.step(action)
                turns += 1
                assert episode.fault is None
                assert -1 <= episode.last.reward <= 1
                assert observation
                assert turns <= record.max_turns
            assert episode.outcome == "lost"


@pytest.mark.parametrize("record", GAMES, ids=stem)
def test_a_lost_turn_says_how_to_reply(record, pool):
    with Episode(record.program, max_turns=record.max_turns, pool=pool) as episode:
        episode.reset(1)
        assert "\\boxed{" in episode.step("no box here")


@pytest.mark.parametrize("record", GAMES, ids=stem)
def test_seeds_decide_the_instance(record, pool):
    with (
        Episode(record.program, max_turns=record.max_turns, pool=pool) as one,
        Episode(record.program, max_turns=record.max_turns, pool=pool) as two,
    ):
        solutions = set()
        for seed in range(12):
            assert one.reset(seed) == two.reset(seed)
            assert one.solution() == two.solution()
            solutions.add(one.solution())
        assert len(solutions) >= 6
