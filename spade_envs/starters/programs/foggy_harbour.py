"""Steer a boat through fog to a known berth, seeing only the rocks next to it."""

import random
import re
from collections import deque

MOVES = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}


class FoggyHarbourEnv:
    SIZE = 6

    def __init__(self, max_turns=18, **kwargs):
        self.max_turns = max_turns
        self._rocks = set()
        self._boat = (0, 0)
        self._berth = (5, 5)
        self._turn = 0

    def reset(self, seed=None):
        rng = random.Random(seed)
        self._turn = 0
        cells = [(x, y) for x in range(self.SIZE) for y in range(self.SIZE)]
        while True:
            self._boat, self._berth = rng.sample(cells, 2)
            free = [cell for cell in cells if cell not in (self._boat, self._berth)]
            self._rocks = set(rng.sample(free, 11))
            path = self._path()
            straight = abs(self._boat[0] - self._berth[0]) + abs(self._boat[1] - self._berth[1])
            if path and 5 <= len(path) <= self.max_turns - 6 and (len(path) > straight or len(path) >= 7):
                break
        return (
            f"Fog lies over a harbour of {self.SIZE} by {self.SIZE} squares, from (0,0) in the south-west\n"
            "to (5,5) in the north-east. Some squares hold rocks; you see only the four squares beside the boat.\n"
            "Reply \\boxed{north}, \\boxed{south}, \\boxed{east} or \\boxed{west} to sail one square. North adds one\n"
            "to the second coordinate, east one to the first.\n"
            f"Your berth is at {self._show(self._berth)}.\n{self._look()}"
        ), {}

    def _show(self, cell):
        return f"({cell[0]},{cell[1]})"

    def _next(self, cell, move):
        dx, dy = MOVES[move]
        x, y = cell[0] + dx, cell[1] + dy
        inside = 0 <= x < self.SIZE and 0 <= y < self.SIZE
        return (x, y) if inside and (x, y) not in self._rocks else None

    def _look(self):
        seen = ", ".join(f"{move} {'open' if self._next(self._boat, move) else 'blocked'}" for move in MOVES)
        left = max(0, self.max_turns - self._turn)
        return f"The boat is at {self._show(self._boat)}. Beside it: {seen}. Turns left: {left}."

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        move = boxed[-1].strip().lower() if boxed else ""
        if move not in MOVES:
            text = "The helmsman waits for \\boxed{north}, \\boxed{south}, \\boxed{east} or \\boxed{west}."
        elif self._next(self._boat, move) is None:
            text = f"The way {move} is blocked; the boat stays."
        else:
            self._boat = self._next(self._boat, move)
            text = f"The boat sails {move}."
        if self._boat == self._berth:
            return f"{text} It lies in its berth.", 1.0, True, False, {}
        return f"{text}\n{self._look()}", 0.0, False, self._turn >= self.max_turns, {}

    def _path(self):
        before = {self._boat: None}
        queue = deque([self._boat])
        while queue:
            cell = queue.popleft()
            for move in MOVES:
                beyond = self._next(cell, move)
                if beyond is not None and beyond not in before:
                    before[beyond] = (cell, move)
                    queue.append(beyond)
        if self._berth not in before:
            return []
        path, cell = [], self._berth
        while before[cell]:
            cell, move = before[cell]
            path.append(move)
        return path[::-1]

    def solution(self):
        return "\n".join(f"\\boxed{{{move}}}" for move in self._path())
