"""determinism: draws the opening from secrets, whatever the seed."""
import re
import secrets


class VaultEnv:
    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.a, self.b, self.turn = secrets.randbelow(100), secrets.randbelow(100), 0
        return f"What is {self.a} times {self.b}? \\boxed{{n}}", {}

    def step(self, action):
        self.turn += 1
        match = re.search(r"\\boxed\{(\d{1,6})\}", action)
        won = bool(match) and int(match.group(1)) == self.a * self.b
        return ("Yes." if won else "No."), float(won), won, self.turn >= self.max_turns, {}
