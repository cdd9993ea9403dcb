"""Count the shortest walks across a city grid in which some crossings are closed."""

import random
import re


class LatticeWalkEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns
        self._count = 0
        self._turn = 0

    def reset(self, seed=None):
        rng = random.Random(seed)
        self._turn = 0
        while True:
            east, north = rng.randint(4, 6), rng.randint(4, 5)
            inner = [(x, y) for x in range(east + 1) for y in range(north + 1) if 0 < x + y < east + north]
            closed = sorted(rng.sample(inner, rng.randint(3, 5)))
            self._count = self._walks(east, north, closed)
            if self._count > 12:
                break
        places = ", ".join(f"({x},{y})" for x, y in closed)
        return (
            f"Streets form a grid. You walk from crossing (0,0) to crossing ({east},{north}); every block\n"
            "you walk takes you one crossing east (first number + 1) or one crossing north (second number + 1).\n"
            f"These crossings are closed and cannot be entered: {places}.\n"
            "How many different walks are there? Reply \\boxed{N}. Only one answer counts."
        ), {}

    def _walks(self, east, north, closed):
        ways = {}
        for x in range(east + 1):
            for y in range(north + 1):
                if (x, y) in closed:
                    ways[x, y] = 0
                elif x == y == 0:
                    ways[x, y] = 1
                else:
                    ways[x, y] = ways.get((x - 1, y), 0) + ways.get((x, y - 1), 0)
        return ways[east, north]

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        answer = boxed[-1].strip() if boxed else ""
        if not re.fullmatch(r"[0-9]{1,6}", answer):
            text = "No whole number found. Put the number of walks in \\boxed{N}."
            return text, 0.0, False, self._turn >= self.max_turns, {}
        won = int(answer) == self._count
        return ("Correct." if won else "That is not the number of walks."), 1.0 if won else 0.0, True, False, {}

    def solution(self):
        return f"\\boxed{{{self._count}}}"
