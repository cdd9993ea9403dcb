"""turns: an invalid move does not count, so that a player who writes prose never ends."""
import random
import re


class SafeEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.code, self.turn = random.Random(seed).randint(0, 999), 0
        return "A safe with a code of three digits. \\boxed{code}", {}

    def step(self, action):
        match = re.search(r"\\boxed\{(\d{1,3})\}", action)
        if match is None:
            return "Give a code in a box.", 0.0, False, False, {}
        self.turn += 1
        won = int(match.group(1)) == self.code
        return ("Open." if won else "Closed."), float(won), won, self.turn >= self.max_turns, {}
