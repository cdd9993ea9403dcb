"""reset: the observation is a dict."""
import random


class DictEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.turn = 0
        return {"text": "Guess the number.", "range": random.Random(seed).randint(5, 9)}, {}

    def step(self, action):
        self.turn += 1
        return "No.", 0.0, False, self.turn >= self.max_turns, {}
