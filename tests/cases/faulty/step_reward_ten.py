"""step: rewards of 10 for the win and -5 for a mistake."""
import random
import re


class TreasureEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.chest, self.turn = random.Random(seed).randint(1, 9), 0
        return "Nine chests. \\boxed{open n}", {}

    def step(self, action):
        self.turn += 1
        match = re.search(r"\\boxed\{open (\d)\}", action)
        if match is None:
            return "Open a chest.", 0, False, self.turn >= self.max_turns, {}
        if int(match.group(1)) == self.chest:
            return "Gold!", 10, True, False, {}
        return "A trap!", -5, False, self.turn >= self.max_turns, {}
