"""Work out how six people sit on a bench from clues that leave one order only."""

import itertools
import random
import re

NAMES = {"A": "Ada", "B": "Ben", "C": "Cleo", "D": "Dev", "E": "Eli", "F": "Fay"}


class BenchOrderEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns
        self._order = ""
        self._turn = 0

    def reset(self, seed=None):
        rng = random.Random(seed)
        self._turn = 0
        self._order = "".join(rng.sample(sorted(NAMES), 6))
        orders = ["".join(p) for p in itertools.permutations(sorted(NAMES))]
        clues = []
        while len(orders) > 1:
            clue = self._clue(rng)
            kept = [order for order in orders if self._holds(clue, order)]
            if len(kept) < len(orders):
                orders = kept
                clues.append(clue)
        lines = "\n".join("- " + self._say(clue) for clue in clues)
        return (
            "Six people sit side by side on a bench: Ada, Ben, Cleo, Dev, Eli and Fay.\n"
            "You face them and read from left to right.\n"
            f"{lines}\n"
            "Reply with the six initials from left to right, as in \\boxed{XXXXXX}. Only one answer counts."
        ), {}

    def _clue(self, rng):
        one, two, three = rng.sample(sorted(NAMES), 3)
        at = self._order.index
        kind = rng.choice(["left", "gap", "gap", "apart", "between", "end"])
        if kind == "left":
            return ("left", one, two) if at(one) < at(two) else ("left", two, one)
        if kind == "gap":
            return ("gap", one, two, abs(at(one) - at(two)) - 1)
        if kind == "apart" and abs(at(one) - at(two)) > 1:
            return ("apart", one, two)
        if kind == "end" and at(one) not in (0, 5):
            return ("inner", one)
        first, middle, last = sorted([one, two, three], key=at)
        return ("between", middle, first, last)

    def _holds(self, clue, order):
        kind, *who = clue
        at = order.index
        if kind == "left":
            return at(who[0]) < at(who[1])
        if kind == "gap":
            return abs(at(who[0]) - at(who[1])) - 1 == who[2]
        if kind == "apart":
            return abs(at(who[0]) - at(who[1])) > 1
        if kind == "inner":
            return at(who[0]) not in (0, 5)
        middle, first, last = at(who[0]), at(who[1]), at(who[2])
        return min(first, last) < middle < max(first, last)

    def _say(self, clue):
        kind, *who = clue
        name = [NAMES.get(w, w) for w in who]
        if kind == "left":
            return f"{name[0]} sits somewhere to the left of {name[1]}."
        if kind == "gap":
            number = ["Nobody sits", "One person sits", "Two people sit", "Three people sit", "Four people sit"][who[2]]
            return f"{number} between {name[0]} and {name[1]}."
        if kind == "apart":
            return f"{name[0]} and {name[1]} do not sit next to each other."
        if kind == "inner":
            return f"{name[0]} sits at neither end."
        return f"{name[0]} sits somewhere between {name[1]} and {name[2]}."

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        answer = re.sub(r"[\s,>-]", "", boxed[-1]).upper() if boxed else ""
        if sorted(answer) != sorted(NAMES):
            text = "That is not an order of the six. Put the initials A B C D E F, in their order, in \\boxed{XXXXXX}."
            return text, 0.0, False, self._turn >= self.max_turns, {}
        won = answer == self._order
        return ("Correct." if won else "Someone sits in the wrong place."), 1.0 if won else 0.0, True, False, {}

    def solution(self):
        return f"\\boxed{{{self._order}}}"
