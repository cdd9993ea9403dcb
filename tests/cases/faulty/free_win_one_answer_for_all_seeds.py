"""no free win: the story varies with the seed, the right answer does not."""
import random
import re


class InheritanceEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn, self.uncle = 0, rng.choice(["Ada", "Bo", "Cy", "Dee", "Eli", "Fay"])
        return f"{self.uncle} leaves {rng.randint(2, 9)}00 crowns. Who inherits by the old law? \\boxed{{who}}", {}

    def solution(self):
        return "the youngest daughter"

    def step(self, action):
        self.turn += 1
        match = re.search(r"\\boxed\{([^}]*)\}", action)
        if match and match.group(1).strip().lower() == self.solution():
            return "Correct.", 1.0, True, False, {}
        return "Wrong.", 0.0, False, self.turn >= self.max_turns, {}
