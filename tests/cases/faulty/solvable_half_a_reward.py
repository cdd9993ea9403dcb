"""solvable: the right answer ends the episode with 0.5, which is no win."""
import random
import re


class HalfEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.a, self.b, self.turn = rng.randint(100, 999), rng.randint(11, 99), 0
        return f"What remains of {self.a} divided by {self.b}? \\boxed{{n}}", {}

    def solution(self):
        return f"\\boxed{{{self.a % self.b}}}"

    def step(self, action):
        self.turn += 1
        match = re.search(r"\\boxed\{(\d{1,3})\}", action)
        if match and int(match.group(1)) == self.a % self.b:
            return "Correct.", 0.5, True, False, {}
        return "Wrong.", 0.0, False, self.turn >= self.max_turns, {}
