"""Programs that the tests of the runtime play."""

from spade_envs.contract import Program

GUESS = Program.from_source("""
import random
import re


class GuessEnv:
    def __init__(self, max_turns=6, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        random.seed(seed)
        self.number, self.turn = random.randint(0, 9), 0
        return f"A digit is hidden. {random.random():.6f}", {"turn": 0}

    def step(self, action):
        self.turn += 1
        found = re.findall(r"\\\\boxed\\{(\\d)\\}", action)
        noise = random.random()
        if found and int(found[-1]) == self.number:
            return f"Right. {noise:.6f}", 1.0, True, False, {"turn": self.turn}
        names = ",".join({"a", "b", "c", "d"})
        return f"No. {noise:.6f} {names}", 0.1, False, self.turn >= self.max_turns, {"turn": self.turn}

    def solution(self):
        return str(self.number)
""")


def failing(method, code):
    """A program whose `reset` or `step` runs `code` when the action (or the seed) is 13."""
    lines = {"reset": "pass", "step": "pass"} | {method: code}
    return Program.from_source(f"""
import random
import re


class FailingEnv:
    def reset(self, seed=None):
        if seed == 13:
            {lines["reset"]}
        return "ready", {{}}

    def step(self, action):
        if action == "13":
            {lines["step"]}
        return action, 0.0, False, False, {{}}
""")
