"""Find a hidden number from a few of its remainders, chosen by the player."""

import random
import re


class RemainderOracleEnv:
    LOW, HIGH = 200, 1500

    def __init__(self, max_turns=6, **kwargs):
        self.max_turns = max_turns
        self._number = 0
        self._facts = {}
        self._turn = 0

    def reset(self, seed=None):
        self._number = random.Random(seed).randint(self.LOW, self.HIGH)
        self._facts = {}
        self._turn = 0
        return (
            f"An oracle keeps a whole number from {self.LOW} to {self.HIGH}. It answers questions about\n"
            "remainders only.\n"
            "Reply \\boxed{mod M} with M from 2 to 12 to learn the remainder after division by M,\n"
            "or \\boxed{answer N} to name the number. One wrong answer ends the game.\n"
            f"You have {self.max_turns} turns, the answer included."
        ), {}

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        command = boxed[-1].strip().lower() if boxed else ""
        question = re.fullmatch(r"mod\s+([0-9]{1,4})", command)
        answer = re.fullmatch(r"answer\s+([0-9]{1,6})", command)
        if answer:
            won = int(answer.group(1)) == self._number
            text = "That is the number." if won else "That is not the number. The oracle falls silent."
            return text, 1.0 if won else 0.0, True, False, {}
        if question and 2 <= int(question.group(1)) <= 12:
            divisor = int(question.group(1))
            self._facts[divisor] = self._number % divisor
            text = f"Divided by {divisor}, the number leaves {self._facts[divisor]}."
        else:
            text = "The oracle understands \\boxed{mod M} with M from 2 to 12, and \\boxed{answer N}."
        return self._report(text), 0.0, False, self._turn >= self.max_turns, {}

    def _report(self, text):
        known = ", ".join(f"mod {m} = {r}" for m, r in sorted(self._facts.items())) or "nothing yet"
        return f"{text}\nKnown: {known}. Turns left: {max(0, self.max_turns - self._turn)}."

    def solution(self):
        return f"\\boxed{{answer {self._number}}}"
