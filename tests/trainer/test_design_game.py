"""The design game: PettingZoo's own tests, the course of a game, and the trainer's rewards in it."""

import asyncio
import importlib.util
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from pettingzoo.test import api_test, parallel_api_test, seed_test
from pettingzoo.test.seed_test import parallel_seed_test
from pettingzoo.utils.conversions import turn_based_aec_to_parallel
from scripted_endpoint import Endpoint, answer

from spade_envs.errors import SpadeError
from spade_envs.sandbox import Pool
from spade_envs.sandbox.pool import Limits
from spade_envs.spaces import UnicodeText
from spade_trainer.config import SpadeConfig
from spade_trainer.corpus import Corpus, Document
from spade_trainer.design_game import AGENT, AGENTS, DESIGNER, HINTED, DesignGame
from spade_trainer.method import rewards, seeding

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


design_game = example("design_game")
PROGRAM = f"```python{design_game.PROGRAM}```"


def settings(**values):
    return SpadeConfig.from_mapping({"player": {"plays": 3, "hinted_plays": 3}, **values})


class Designs(UnicodeText):
    """Samples what a designer might write, so that random policies get as far as playing."""

    def sample(self, mask=None, probability=None):
        return str(self.np_random.choice(["no program", PROGRAM, design_game.HINT]))


class Playable(DesignGame):
    def __init__(self, **values):
        super().__init__(settings(designer={"attempts": 12, "hint_attempts": 6}, **values))
        self._action_spaces[DESIGNER] = Designs(200_000)


@pytest.fixture(autouse=True)
def _text_is_not_an_array():
    """PettingZoo warns of observations that are not numpy arrays; ours are texts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Observation is not a NumPy array")
        yield


@pytest.mark.parametrize("make", [lambda: DesignGame(settings()), Playable])
def test_pettingzoos_api_test(make):
    api_test(make(), num_cycles=200)


def test_pettingzoos_seed_test():
    seed_test(lambda: DesignGame(settings()), num_cycles=20)
    seed_test(Playable, num_cycles=60)


def test_the_turn_based_conversion_to_parallel():
    parallel_api_test(turn_based_aec_to_parallel(Playable()), num_cycles=40)
    parallel_seed_test(lambda: turn_based_aec_to_parallel(Playable()), num_cycles=40)


def run(game, seed, **policies):
    """Play one game; return each agent's rewards in order, the players' seeds in order, and the last designer info."""
    game.reset(seed=seed)
    got, seeds, last = {name: [] for name in AGENTS}, {AGENT: [], HINTED: []}, {}
    for name in game.agent_iter():
        observation, reward, over, truncated, info = game.last()
        assert truncated is False
        got[name].append(reward)
        if name == DESIGNER:
            last = info
        elif not over and seeds[name][-1:] != [info["seed"]]:
            seeds[name].append(info["seed"])
        game.step(None if over else policies[name](observation))
    return got, seeds, last


def say(*texts):
    left = list(texts)
    return lambda observation: left.pop(0) if len(left) > 1 else left[0]


def test_rewards_are_the_methods():
    policies = design_game.scripted(0)
    got, seeds, last = run(DesignGame(settings(player={"plays": 8, "hinted_plays": 8})), 0, **policies)
    assert seeds[AGENT] == seeds[HINTED], "both arms play the same seeds"
    assert len(set(seeds[AGENT])) == 8
    arms = {}
    for name in (AGENT, HINTED):
        returns = [reward for reward in got[name] if reward] + [0.0] * 8
        arms[name] = sum(returns[:8]) / 8
    assert (last["win_rate"], last["win_rate_hinted"]) == (arms[AGENT], arms[HINTED])
    assert last["regret"] == pytest.approx(arms[HINTED] - arms[AGENT])
    config = SpadeConfig().reward
    expected = rewards.designer_reward(config, rate=arms[AGENT], gap=arms[HINTED] - arms[AGENT])
    assert got[DESIGNER][-1] == expected
    assert last["won"] + last["lost"] == 16
    assert arms[HINTED] == 1, "five halvings find one door of thirty"


def test_the_seeds_of_the_plays_are_the_trainers_function():
    game = DesignGame(settings())
    _, seeds, last = run(game, 4, **design_game.scripted(4))
    assert seeds[AGENT] == seeding.play_seeds(game._run, 0, last["environment"], 3)


def test_a_rejected_program_is_sent_back_and_pays_the_lowest_reward_in_the_end():
    game = DesignGame(settings(designer={"attempts": 2}))
    game.reset(seed=0)
    game.step("no program at all")
    assert "extract" in game.observe(DESIGNER)
    assert game.infos[DESIGNER]["stage"] == "extract"
    assert [message["role"] for message in game.messages(DESIGNER)][-2:] == ["assistant", "user"]
    game.step("nor here")
    assert game.rewards == {DESIGNER: -0.5, AGENT: 0.0, HINTED: 0.0}
    assert all(game.terminations.values())
    got, _, _ = run(DesignGame(settings(designer={"attempts": 1, "rejected_reward": 0.0})), 0, designer=say("no"))
    assert got[DESIGNER] == [0.0, 0.0]


def test_a_game_without_a_usable_hint_has_no_hinted_arm_and_no_regret():
    game = DesignGame(settings(designer={"hint_attempts": 1}))
    got, seeds, last = run(game, 0, designer=say(PROGRAM, ""), agent=say("\\boxed{1}"))
    assert (len(seeds[AGENT]), len(seeds[HINTED])) == (3, 0)
    assert last["hint_refused"] == "the hint is empty"
    assert last["regret"] is None
    assert got[HINTED] == [0.0]


def test_faults_and_timeouts_are_no_losses():
    raises = design_game.PROGRAM.replace(
        "self.turn += 1\n", "self.turn += 1\n        1 / (0 if 'break it' in action else 1)\n", 1
    )
    wrong = {"agent": say("break it"), "hinted_agent": say("\\boxed{1}")}
    game = DesignGame(settings())
    got, _, last = run(game, 0, designer=say(f"```python{raises}```", design_game.HINT), **wrong)
    assert last["faulty"] == 3
    assert (last["win_rate"], last["regret"]) == (None, None)
    assert got[DESIGNER][-1] == 0.0, "nothing was measured, so nothing is paid"
    hangs = design_game.PROGRAM.replace(
        "self.turn += 1\n", "self.turn += 1\n        while 'break it' in action:\n            pass\n"
    )
    with Pool(1, Limits(step_seconds=1.0)) as pool:
        game = DesignGame(settings(player={"plays": 2, "hinted_plays": 0}), pool=pool)
        got, _, last = run(game, 0, designer=say(f"```python{hangs}```", design_game.HINT), agent=say("break it"))
    assert last["timeout"] == 2
    assert got[DESIGNER][-1] == -0.5


def test_the_hint_is_shown_to_the_hinted_agent_only():
    game = DesignGame(settings())
    game.reset(seed=0)
    game.step(PROGRAM)
    assert "DoorHallEnv" in game.observe(DESIGNER)
    game.step(design_game.HINT)
    assert game.agent_selection == AGENT
    assert design_game.HINT not in game.observe(AGENT) + json.dumps(game.messages(AGENT))
    while game.agent_selection == AGENT:
        game.step("\\boxed{1}")
    assert game.observe(HINTED).startswith(f"Hint: {design_game.HINT}")
    assert design_game.HINT in game.messages(HINTED)[0]["content"]
    assert "random.Random" not in json.dumps([game.messages(AGENT), game.messages(HINTED)]), "no player sees the source"


def test_the_learning_potential_of_a_skill_grows_over_games():
    game = DesignGame(settings(reward={"kind": "learning_potential"}, skills=["Optimization"], active_skills=1))
    paid = []
    for seed, door in ((0, "\\boxed{99}"), (1, None)):
        policies = design_game.scripted(seed)
        if door:
            policies[AGENT] = say(door)
        else:
            policies[AGENT] = policies[HINTED].__class__()
        got, _, _ = run(game, seed, **policies)
        paid.append(got[DESIGNER][-1])
    assert paid == pytest.approx([0.0, 0.98]), "|0.98 x 1 + 0.02 x 0 - 0|"


def test_documents_and_skills_come_from_the_seed():
    corpus = Corpus([Document(f"text {i}", f"title {i}") for i in range(5)], "test")
    game = DesignGame(settings(), corpus=corpus)
    seen = set()
    for seed in range(6):
        game.reset(seed=seed)
        first = game.observe(DESIGNER)
        game.reset(seed=seed)
        assert game.observe(DESIGNER) == first
        seen.add((game.infos[DESIGNER]["skill"], first[first.index("<document>") :][:20]))
    assert len(seen) > 3
    game.reset(seed=0, options={"skill": "Optimization"})
    assert "Optimization" in game.observe(DESIGNER)


def test_what_is_no_text_is_refused():
    game = DesignGame(settings())
    game.reset(seed=0)
    with pytest.raises(SpadeError, match="an action is a text of at most"):
        game.step(3)


def test_a_tool_use_game_refuses_programs_of_the_other_kind():
    game = DesignGame(settings(kind="tool_use", designer={"attempts": 2}))
    game.reset(seed=0)
    game.step(PROGRAM)
    assert game.infos[DESIGNER]["stage"] == "kind"


# -- the examples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "phase"), [("scripted", "regret"), ("random", "stage")])
def test_the_example_with_small_policies(policy, phase):
    command = [sys.executable, str(EXAMPLES / "design_game.py"), "--policy", policy, "--games", "2", "--plays", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 2
    assert all(phase in line and line["phase"] == "over" for line in lines)


def test_the_example_with_a_model_behind_an_endpoint(capsys):
    def reply(body, number):
        text = json.dumps(body["messages"])
        if "Write the hint" in text:
            return answer(design_game.HINT)
        if "Write an environment" in text:
            return answer(PROGRAM)
        return answer("\\boxed{16}")

    with Endpoint(reply, models=("m",)) as endpoint:
        asyncio.run(example("design_game_openai").run("m", endpoint.url, 1, 2, 0, 500))
        temperatures = {request["temperature"] for request in endpoint.requests}
    told = json.loads(capsys.readouterr().out)
    assert told["phase"] == "over"
    assert told["won"] + told["lost"] == 4
    assert temperatures == {0.6, 0.3}, "the hint has a temperature of its own"
