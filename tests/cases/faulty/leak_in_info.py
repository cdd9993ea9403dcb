"""leak: info carries the answer, for debugging."""
import random
import re


class PlanetEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.day, self.speed, self.turn = rng.randint(5, 50), rng.randint(2, 30), 0
        self.answer = str(self.day * self.speed)
        return f"A day takes {self.day} hours at {self.speed} km/h. How long is the equator? \\boxed{{km}}", {
            "turn": self.turn, "target": self.answer}

    def solution(self):
        return self.answer

    def step(self, action):
        self.turn += 1
        match = re.search(r"\\boxed\{([^}]*)\}", action)
        if match and match.group(1).strip() == self.answer:
            return "Correct.", 1.0, True, False, {}
        return "Wrong.", 0.0, False, self.turn >= self.max_turns, {}
