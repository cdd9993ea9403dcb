"""solvable: solution() counts from 0, step() from 1."""
import random
import re


class QueueEnv:
    NAMES = ["Ann", "Ben", "Cas", "Dov", "Eve", "Fox", "Gus", "Hal"]

    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.queue, self.turn = random.Random(seed).sample(self.NAMES, 6), 0
        return f"In the queue: {', '.join(sorted(self.queue))}. Where does Ann or else the first stand? \\boxed{{n}}", {}

    def _place(self):
        return self.queue.index(min(self.queue))

    def solution(self):
        return f"\\boxed{{{self._place()}}}"

    def step(self, action):
        self.turn += 1
        match = re.search(r"\\boxed\{(\d)\}", action)
        won = bool(match) and int(match.group(1)) == self._place() + 1
        return ("Yes." if won else "No."), float(won), won, self.turn >= self.max_turns, {}
