"""no free win: a prefix test, which the empty answer passes."""
import random
import re


class PrefixEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.numbers, self.turn = [rng.randint(10, 99) for _ in range(5)], 0
        self.answer = str(sum(self.numbers))
        return f"Add {self.numbers}. Reply \\boxed{{n}}.", {}

    def solution(self):
        return self.answer

    def step(self, action):
        self.turn += 1
        match = re.search(r"\\boxed\{([^}]*)\}", action)
        reply = match.group(1).strip() if match else ""
        if self.answer.startswith(reply):
            return "Correct.", 1.0, True, False, {}
        return "Wrong.", 0.0, False, self.turn >= self.max_turns, {}
