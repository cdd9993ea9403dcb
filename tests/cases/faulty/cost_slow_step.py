"""cost: searches all orders of nine towns again in every step."""
import itertools
import random
import re


class TownsEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.towns, self.turn = [(rng.randint(0, 99), rng.randint(0, 99)) for _ in range(9)], 0
        return f"Shortest tour through {self.towns}? \\boxed{{length}}", {}

    def _length(self, order):
        return sum(abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in zip(order, order[1:] + order[:1]))

    def step(self, action):
        self.turn += 1
        lengths = [self._length((self.towns[0], *rest)) for rest in itertools.permutations(self.towns[1:])]
        best = min(self._length((self.towns[-1], *rest)) for rest in itertools.permutations(self.towns[:-1]))
        assert best == min(lengths)
        match = re.search(r"\\boxed\{(\d{1,6})\}", action)
        won = bool(match) and int(match.group(1)) == best
        return ("Yes." if won else "No."), float(won), won, self.turn >= self.max_turns, {}
