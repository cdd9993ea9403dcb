"""Unmask the liars at an inn by asking guests about each other, with just enough questions."""

import random
import re


class LiarsInnEnv:
    GUESTS = "ABCDEFG"

    def __init__(self, max_turns=7, **kwargs):
        self.max_turns = max_turns
        self._liars = set()
        self._heard = []
        self._turn = 0

    def reset(self, seed=None):
        rng = random.Random(seed)
        self._liars = set(rng.sample(self.GUESTS, rng.choice([1, 2, 2, 3, 3, 3])))
        self._heard = []
        self._turn = 0
        return (
            "Seven guests, A to G, sit at an inn. Each is either honest and always tells the truth,\n"
            "or a liar and always lies. All guests know who is who.\n"
            "At least one is a liar, and the honest ones are in the majority.\n"
            "Reply \\boxed{ask X about Y} to ask guest X whether guest Y is honest,\n"
            "or \\boxed{liars ...} with the letters of all liars, in any order, to end the game.\n"
            f"You have {self.max_turns} turns, the accusation included."
        ), {}

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        command = boxed[-1].strip().upper() if boxed else ""
        question = re.fullmatch(r"ASK\s+([A-G])\s+ABOUT\s+([A-G])", command)
        accusation = re.fullmatch(r"LIARS:?\s*([A-G][A-G\s,]{0,40})", command)
        if accusation:
            won = set(re.findall("[A-G]", accusation.group(1))) == self._liars
            text = "Every liar is unmasked, and nobody else." if won else "The accusation is wrong. The inn empties."
            return text, 1.0 if won else 0.0, True, False, {}
        if question and question.group(1) != question.group(2):
            speaker, subject = question.groups()
            honest = (speaker in self._liars) == (subject in self._liars)
            said = f"{speaker} says: {subject} is {'honest' if honest else 'a liar'}."
            self._heard.append(said)
        else:
            said = "Nobody understands. Use \\boxed{ask X about Y} with two different guests, or \\boxed{liars ...}."
        heard = "\n".join(self._heard) or "nothing yet"
        left = max(0, self.max_turns - self._turn)
        return f"{said}\nHeard so far:\n{heard}\nTurns left: {left}.", 0.0, False, self._turn >= self.max_turns, {}

    def solution(self):
        return f"\\boxed{{liars {''.join(sorted(self._liars))}}}"
