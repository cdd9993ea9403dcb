"""Follow a die of letters through a series of rolls and say which way it finally faces."""

import random
import re


class RollingDieEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns
        self._final = ""
        self._turn = 0

    def reset(self, seed=None):
        rng = random.Random(seed)
        self._turn = 0
        faces = dict(zip(("top", "bottom", "north", "south", "east", "west"), rng.sample("KLMPRSTVXZ", 6), strict=True))
        shown = ", ".join(f"{side} {letter}" for side, letter in faces.items())
        rolls = []
        while len(rolls) < 8 or len(set(rolls)) < 3:
            rolls.append(rng.choice(["north", "south", "east", "west"]))
        for roll in rolls:
            faces = self._roll(faces, roll)
        self._final = faces["top"] + faces["north"] + faces["east"]
        return (
            f"A die lies on a table with these letters on its sides: {shown}.\n"
            "A roll tips it over one bottom edge by a quarter turn: rolled north, its top comes to face north,\n"
            "and its old north side lies on the table.\n"
            f"It is rolled {', '.join(rolls)}.\n"
            "Which letters are now on top, north and east, in this order? Reply \\boxed{XYZ}. Only one answer counts."
        ), {}

    def _roll(self, faces, way):
        back = {"north": "south", "south": "north", "east": "west", "west": "east"}[way]
        turned = dict(faces)
        turned[way], turned["bottom"] = faces["top"], faces[way]
        turned[back], turned["top"] = faces["bottom"], faces[back]
        return turned

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        answer = re.sub(r"[\s,]", "", boxed[-1]).upper() if boxed else ""
        if not re.fullmatch(r"[A-Z]{3}", answer):
            text = "Three letters are expected, for top, north and east: \\boxed{XYZ}."
            return text, 0.0, False, self._turn >= self.max_turns, {}
        won = answer == self._final
        return ("Correct." if won else "The die lies differently."), 1.0 if won else 0.0, True, False, {}

    def solution(self):
        return f"\\boxed{{{self._final}}}"
