"""Play the design game with policies that are a few lines each: `python examples/design_game.py --policy scripted`.

The scripted designer writes a small searching game and a hint. The agent opens doors at random; the hinted agent does
what the hint says. What the hint is worth is the regret, and the designer is paid for it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Mapping

from spade_trainer.config import SpadeConfig
from spade_trainer.design_game import AGENT, AGENTS, DESIGNER, HINTED, DesignGame

Policy = Callable[[str], str]
"""From what an agent observes to what it writes."""

PROGRAM = '''
import random
import re


class DoorHallEnv:
    """Behind one of thirty doors is the prize; a wrong door says where it is not."""

    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.door = random.Random(seed).randint(1, 30)
        self.turn = 0
        return f"Thirty doors, {self.max_turns} turns. Open one with \\\\boxed{{number}}.", {}

    def step(self, action):
        self.turn += 1
        found = re.findall(r"\\\\boxed\\{\\s*(\\d+)\\s*\\}", action)
        if not found:
            text = "Write one number in a box."
        elif int(found[-1]) == self.door:
            return "The prize is here.", 1.0, True, False, {}
        else:
            way = "lower" if int(found[-1]) > self.door else "higher"
            text = f"Door {found[-1]} is empty; the prize has a {way} number."
        return text, 0.0, False, self.turn >= self.max_turns, {}

    def solution(self):
        return f"\\\\boxed{{{self.door}}}"
'''
HINT = "Every answer rules out one side: always open the door in the middle of those that are left."


class Halving:
    """Opens the middle of the doors that can still hold the prize."""

    def __call__(self, observation: str) -> str:
        """Return the next door."""
        if "Thirty doors" in observation:
            self.low, self.high = 1, 30
        answer = re.search(r"Door (\d+) is empty; the prize has a (lower|higher)", observation)
        if answer and answer[2] == "lower":
            self.high = int(answer[1]) - 1
        elif answer:
            self.low = int(answer[1]) + 1
        return rf"\boxed{{{(self.low + self.high) // 2}}}"


def scripted(seed: int) -> dict[str, Policy]:
    """Return a designer with something to say, a careless player and one that heeds the hint."""
    rng = random.Random(seed)
    lines = iter([f"```python{PROGRAM}```", HINT])
    return {
        DESIGNER: lambda observation: next(lines),
        AGENT: lambda observation: rf"\boxed{{{rng.randint(1, 30)}}}",
        HINTED: Halving(),
    }


def at_random(game: DesignGame, seed: int) -> dict[str, Policy]:
    """Return policies that write random texts: no program of theirs will be accepted."""
    for i, name in enumerate(AGENTS):
        game.action_space(name).seed(seed + i)
    return {name: lambda observation, name=name: game.action_space(name).sample() for name in AGENTS}


def play(game: DesignGame, policies: Mapping[str, Policy], seed: int) -> dict[str, object]:
    """Play one game and return the designer's reward and everything that is known at the end."""
    game.reset(seed=seed)
    total = dict.fromkeys(AGENTS, 0.0)
    known: dict[str, object] = {}
    for name in game.agent_iter():
        observation, reward, over, _, info = game.last()
        total[name] += reward
        if name == DESIGNER:
            known = info
        game.step(None if over else policies[name](observation))
    return {"rewards": total, **known}


def main() -> None:
    """Play games and print one JSON line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", choices=("random", "scripted"), default="scripted")
    parser.add_argument("--games", type=int, default=1)
    parser.add_argument("--plays", type=int, default=8, help="plays of each arm")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    plays = {"plays": arguments.plays, "hinted_plays": arguments.plays}
    game = DesignGame(SpadeConfig.from_mapping({"player": plays}))
    for seed in range(arguments.seed, arguments.seed + arguments.games):
        policies = scripted(seed) if arguments.policy == "scripted" else at_random(game, seed)
        print(json.dumps(play(game, policies, seed)))


if __name__ == "__main__":
    main()
