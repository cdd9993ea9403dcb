"""Pack a sledge for the highest worth within its load, where packing by worth per weight fails."""

import itertools
import random
import re


class MountainSledgeEnv:
    GOODS = "HJKLMNPQ"

    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns
        self._goods = {}
        self._limit = 0
        self._turn = 0

    def reset(self, seed=None):
        rng = random.Random(seed)
        self._turn = 0
        while True:
            self._goods = {letter: (rng.randint(4, 19), rng.randint(10, 60)) for letter in self.GOODS}
            self._limit = rng.randint(28, 42)
            if self._worth(self._by_ratio()) < self._best()[0]:
                break
        lines = "\n".join(f"- {letter}: weight {w}, worth {v}" for letter, (w, v) in self._goods.items())
        return (
            f"A sledge carries a weight of at most {self._limit}. Each of these goods can be loaded once or\n"
            f"left behind:\n{lines}\n"
            "Choose the load with the highest total worth. Reply with the letters of all goods you load,\n"
            "without spaces, in one \\boxed{...}. Only one answer counts."
        ), {}

    def _weight(self, load):
        return sum(self._goods[letter][0] for letter in load)

    def _worth(self, load):
        return sum(self._goods[letter][1] for letter in load)

    def _by_ratio(self):
        load = ""
        for letter in sorted(self._goods, key=lambda x: -self._goods[x][1] / self._goods[x][0]):
            if self._weight(load + letter) <= self._limit:
                load += letter
        return load

    def _best(self):
        loads = ("".join(c) for n in range(1, 9) for c in itertools.combinations(self.GOODS, n))
        return max((self._worth(load), load) for load in loads if self._weight(load) <= self._limit)

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        load = sorted(re.sub(r"[\s,]", "", boxed[-1]).upper()) if boxed else []
        if not load or len(set(load)) != len(load) or any(letter not in self._goods for letter in load):
            text = f"Name each loaded good once, by its letter out of {self.GOODS}, in one \\boxed{{...}}."
            return text, 0.0, False, self._turn >= self.max_turns, {}
        if self._weight(load) > self._limit:
            return "The sledge breaks under this load.", 0.0, True, False, {}
        won = self._worth(load) == self._best()[0]
        return ("No load is worth more." if won else "A better load exists."), 1.0 if won else 0.0, True, False, {}

    def solution(self):
        return f"\\boxed{{{self._best()[1]}}}"
