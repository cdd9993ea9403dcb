"""load: the method is called act, not step."""
import random


class LanternEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.goal, self.turn = random.Random(seed).randint(1, 9), 0
        return "Which lantern burns? \\boxed{n}", {}

    def act(self, action):
        self.turn += 1
        return "Dark.", 0.0, False, self.turn >= self.max_turns, {}
