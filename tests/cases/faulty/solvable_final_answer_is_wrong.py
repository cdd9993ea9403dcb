"""solvable: a single question, whose solution() forgets to round as step() does."""
import random
import re


class AverageEnv:
    def __init__(self, max_turns=1, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.numbers = [rng.randint(10, 99) for _ in range(7)]
        return f"The mean of {self.numbers}, rounded down? \\boxed{{n}}", {}

    def solution(self):
        return str(sum(self.numbers) / 7)

    def step(self, action):
        match = re.search(r"\\boxed\{([^}]*)\}", action)
        won = bool(match) and match.group(1).strip() == str(sum(self.numbers) // 7)
        return ("Yes." if won else "No."), float(won), True, False, {}
