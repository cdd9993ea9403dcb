"""Infer the rule of a machine from a few inputs of one's own choice and predict a distant output."""

import random
import re


class WrappingMachineEnv:
    LARGEST_PROBE = 12

    def __init__(self, max_turns=7, **kwargs):
        self.max_turns = max_turns
        self._rule = (0, 0, 1)
        self._target = 0
        self._seen = {}
        self._turn = 0

    def reset(self, seed=None):
        rng = random.Random(seed)
        self._turn, self._seen = 0, {}
        while True:
            wheel = rng.randint(23, 59)
            pace = rng.randint(wheel // 4 + 1, wheel // 2)
            self._rule = (pace, rng.randrange(wheel), wheel)
            self._target = rng.randint(100, 400)
            if self._output(self._target) > self.max_turns + self.LARGEST_PROBE:
                break
        return (
            "A machine turns a whole number into another. Its output moves on by the same pace for each step of\n"
            "the input, and wraps around to small numbers when it would pass the end of a hidden wheel.\n"
            f"Reply \\boxed{{try N}} with N from 0 to {self.LARGEST_PROBE} to see an output,\n"
            f"or \\boxed{{predict V}} to say what it makes of {self._target}. One wrong prediction ends the game.\n"
            f"You have {self.max_turns} turns, the prediction included."
        ), {}

    def _output(self, number):
        pace, start, wheel = self._rule
        return (start + pace * number) % wheel

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        command = boxed[-1].strip().lower() if boxed else ""
        trial = re.fullmatch(r"try\s+([0-9]{1,4})", command)
        prediction = re.fullmatch(r"predict\s+([0-9]{1,6})", command)
        if prediction:
            won = int(prediction.group(1)) == self._output(self._target)
            text = "The machine agrees." if won else "The machine shows another number."
            return text, 1.0 if won else 0.0, True, False, {}
        if trial and int(trial.group(1)) <= self.LARGEST_PROBE:
            number = int(trial.group(1))
            self._seen[number] = self._output(number)
            text = f"The machine turns {number} into {self._seen[number]}."
        else:
            text = f"The machine takes \\boxed{{try N}} with N from 0 to {self.LARGEST_PROBE}, or \\boxed{{predict V}}."
        seen = ", ".join(f"{n} -> {v}" for n, v in sorted(self._seen.items())) or "nothing yet"
        left = max(0, self.max_turns - self._turn)
        return f"{text}\nSeen: {seen}. Turns left: {left}.", 0.0, False, self._turn >= self.max_turns, {}

    def solution(self):
        return f"\\boxed{{predict {self._output(self._target)}}}"
