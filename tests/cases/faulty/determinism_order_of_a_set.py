"""determinism: lists the elements of a set of strings, whose order is another one in every process."""
import random
import re


class HerbEnv:
    HERBS = {"sage", "thyme", "mint", "dill", "basil", "parsley", "chives", "rosemary"}

    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.turn = 0
        self.chosen = set(random.Random(seed).sample(sorted(self.HERBS), 4))
        self.rare = min(self.chosen, key=len)
        return f"On the table: {', '.join(self.chosen)}. Which one is the rarest? \\boxed{{name}}", {}

    def step(self, action):
        self.turn += 1
        match = re.search(r"\\boxed\{([^}]*)\}", action)
        won = bool(match) and match.group(1).strip() == self.rare
        return ("Yes." if won else "No."), float(won), won, self.turn >= self.max_turns, {}
