"""Continue a sequence of numbers whose rule must be recognised."""

import random
import re


class BraidedSequenceEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns
        self._next = (0, 0)
        self._turn = 0

    def reset(self, seed=None):
        rng = random.Random(seed)
        self._turn = 0
        while True:
            terms = rng.choice([self._braid, self._growing_gap, self._two_back, self._turnabout])(rng)
            shown, self._next = terms[:8], tuple(terms[8:10])
            if not set(self._next) & set(shown) and self._next[0] != self._next[1]:
                break
        return (
            f"A rule makes this sequence: {', '.join(str(term) for term in shown)}, ...\n"
            "Which two terms come next? Reply with both, in order, as \\boxed{A, B}. Only one answer counts."
        ), {}

    def _braid(self, rng):
        first, second = rng.randint(10, 40), rng.randint(50, 90)
        up, down = rng.randint(3, 9), rng.randint(2, 8)
        terms = []
        for index in range(5):
            terms += [first + up * index, second - down * index]
        return terms

    def _growing_gap(self, rng):
        terms, gap = [rng.randint(11, 30)], rng.randint(2, 6)
        growth = rng.randint(2, 5)
        while len(terms) < 10:
            terms.append(terms[-1] + gap)
            gap += growth
        return terms

    def _two_back(self, rng):
        terms, extra = [rng.randint(2, 6), rng.randint(3, 9)], rng.randint(1, 4)
        while len(terms) < 10:
            terms.append(terms[-1] + terms[-2] + extra)
        return terms

    def _turnabout(self, rng):
        terms, less = [rng.randint(5, 9)], rng.randint(2, 4)
        while len(terms) < 10:
            terms.append(terms[-1] * 2 if len(terms) % 2 else terms[-1] - less)
        return terms

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        answer = re.fullmatch(r"\s*(-?[0-9]{1,7})\s*[,;\s]\s*(-?[0-9]{1,7})\s*", boxed[-1]) if boxed else None
        if not answer:
            text = "Two whole numbers are expected, the next two terms: \\boxed{A, B}."
            return text, 0.0, False, self._turn >= self.max_turns, {}
        won = (int(answer.group(1)), int(answer.group(2))) == self._next
        return ("Correct." if won else "The sequence goes on differently."), 1.0 if won else 0.0, True, False, {}

    def solution(self):
        return f"\\boxed{{{self._next[0]}, {self._next[1]}}}"
