"""step: terminated is a match object, or None, instead of a bool."""
import random
import re


class BellEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.bell, self.turn = random.Random(seed).randint(1, 9), 0
        return "Nine bells. \\boxed{ring n}", {}

    def step(self, action):
        self.turn += 1
        done = re.search(rf"\\boxed\{{ring {self.bell}\}}", action)
        return ("Ding." if done else "Dong."), 1.0 if done else 0.0, done, self.turn >= self.max_turns, {}
