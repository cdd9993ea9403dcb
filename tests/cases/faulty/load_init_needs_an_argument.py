"""load: the class cannot be made without an argument that nobody passes."""
import random


class LevelEnv:
    def __init__(self, difficulty, max_turns=5):
        self.difficulty, self.max_turns = difficulty, max_turns

    def reset(self, seed=None):
        self.goal, self.turn = random.Random(seed).randint(1, 10 * self.difficulty), 0
        return "Guess. \\boxed{n}", {}

    def step(self, action):
        self.turn += 1
        return "No.", 0.0, False, self.turn >= self.max_turns, {}
