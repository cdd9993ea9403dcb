"""parse: a colon is missing after the head of a method."""
import random


class CounterEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None)
        self.goal, self.turn = random.Random(seed).randint(3, 9), 0
        return f"Count to {self.goal}.", {}

    def step(self, action):
        self.turn += 1
        return "Go on.", 0.0, False, self.turn >= self.max_turns, {}
