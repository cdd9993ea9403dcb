"""reset: describes a board that only step() makes."""
import random


class BoardEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.rng, self.turn = random.Random(seed), 0
        return self._describe(), {}

    def _describe(self):
        return "\n".join("".join(row) for row in self.board)

    def step(self, action):
        self.turn += 1
        self.board = [[self.rng.choice(".#") for _ in range(4)] for _ in range(4)]
        return self._describe(), 0.0, False, self.turn >= self.max_turns, {}
