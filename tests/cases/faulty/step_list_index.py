"""step: splits a command and takes a word that may be missing."""
import random
import re


class CellarEnv:
    def __init__(self, max_turns=6, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.shelf, self.turn = random.Random(seed).randint(1, 20), 0
        return "Twenty shelves. Commands: \\boxed{look N}, \\boxed{take N}", {}

    def step(self, action):
        self.turn += 1
        match = re.search(r"\\boxed\{([^}]*)\}", action)
        words = match.group(1).split() if match else ["look", "1"]
        verb, number = words[0], words[1]
        won = verb == "take" and number == str(self.shelf)
        return ("It is there." if won else "Dust."), float(won), won, self.turn >= self.max_turns, {}
