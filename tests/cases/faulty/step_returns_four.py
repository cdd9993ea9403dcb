"""step: four values, as in an older interface."""
import random


class OldStyleEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.goal, self.turn = random.Random(seed).randint(1, 9), 0
        return "Guess the number. \\boxed{n}", {}

    def step(self, action):
        self.turn += 1
        done = f"\\boxed{{{self.goal}}}" in action
        return ("Yes." if done else "No."), float(done), done or self.turn >= self.max_turns, {}
