"""cost: fills a table far beyond the limit of a worker."""
import random


class TableEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.turn, side = 0, 40_000 + random.Random(seed).randint(0, 9)
        self.table = bytearray(side * side)
        return "Which cell is marked? \\boxed{row column}", {}

    def step(self, action):
        self.turn += 1
        return "No.", 0.0, False, self.turn >= self.max_turns, {}
