"""Find the best setting of a kiln with few firings: a hidden curve with one peak."""

import random
import re


class KilnDialEnv:
    LAST = 99

    def __init__(self, max_turns=9, **kwargs):
        self.max_turns = max_turns
        self._peak = 0
        self._shape = (1, 1, 100)
        self._fired = {}
        self._turn = 0

    def reset(self, seed=None):
        rng = random.Random(seed)
        self._turn, self._fired = 0, {}
        self._peak = rng.randint(8, 91)
        self._shape = (rng.randint(2, 9), rng.randint(2, 9), rng.randint(1200, 1800))
        return (
            f"A kiln has a dial from 0 to {self.LAST}. The strength of its bricks rises evenly up to one best setting\n"
            "and falls evenly after it; the two slopes may differ, and all are unknown.\n"
            f"Reply \\boxed{{fire N}} to fire a brick at setting N and measure it,\n"
            "or \\boxed{order N} to order the whole batch at setting N, which ends the game:\n"
            "1.0 for the best setting, 0.3 right beside it, otherwise nothing.\n"
            f"You have {self.max_turns} turns, the order included."
        ), {}

    def _strength(self, setting):
        rise, fall, top = self._shape
        return top - (rise * (self._peak - setting) if setting < self._peak else fall * (setting - self._peak))

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        command = re.fullmatch(r"(fire|order)\s+([0-9]{1,3})", boxed[-1].strip().lower()) if boxed else None
        if command and int(command.group(2)) <= self.LAST:
            setting = int(command.group(2))
            if command.group(1) == "order":
                miss = abs(setting - self._peak)
                reward = 1.0 if miss == 0 else 0.3 if miss == 1 else 0.0
                text = "The best batch there can be." if miss == 0 else "Not the best setting."
                return text, reward, True, False, {}
            self._fired[setting] = self._strength(setting)
            text = f"The brick fired at {setting} bears {self._fired[setting]} kg."
        else:
            text = f"The kiln takes \\boxed{{fire N}} or \\boxed{{order N}}, with N from 0 to {self.LAST}."
        fired = ", ".join(f"{n}: {v} kg" for n, v in sorted(self._fired.items())) or "nothing yet"
        left = max(0, self.max_turns - self._turn)
        return f"{text}\nFired: {fired}. Turns left: {left}.", 0.0, False, self._turn >= self.max_turns, {}

    def solution(self):
        return f"\\boxed{{order {self._peak}}}"
