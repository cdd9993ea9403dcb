"""no free win: looks for the answer among all numbers of the reply."""
import random
import re


class DiceEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.dice, self.turn = [rng.randint(1, 6) for _ in range(6)], 0
        return f"Dice: {self.dice}. What is the sum of the odd ones? \\boxed{{n}}", {}

    def solution(self):
        return str(sum(one for one in self.dice if one % 2))

    def step(self, action):
        self.turn += 1
        if self.solution() in re.findall(r"\d+", action):
            return "Correct.", 1.0, True, False, {}
        return "Wrong.", 0.0, False, self.turn >= self.max_turns, {}
