"""Recover which station wakes which by forcing stations on: interventions, not mere watching."""

import random
import re


class SignalTreeEnv:
    STATIONS = "ABCDE"

    def __init__(self, max_turns=6, **kwargs):
        self.max_turns = max_turns
        self._parent = {}
        self._rng = random.Random(0)
        self._notes = []
        self._turn = 0

    def reset(self, seed=None):
        self._rng = random.Random(seed)
        self._turn, self._notes = 0, []
        while True:
            order = self._rng.sample(self.STATIONS, 5)
            self._parent = {order[i]: order[self._rng.randrange(i)] for i in range(1, 5)}
            if max(len(self._woken(station)) for station in self.STATIONS if station in self._parent) >= 2:
                break
        return (
            "Five relay stations, A to E, are joined by hidden one-way wires. One station has no wire into it;\n"
            "each of the others has exactly one. A station that is on switches on every station its wires lead to,\n"
            "and so on down the line.\n"
            "Reply \\boxed{force X} to switch on station X alone and see which stations come on because of it;\n"
            "\\boxed{watch} to see a day's traffic begun by some station that you do not learn; or\n"
            "\\boxed{wires P>Q ...} with all four wires, as pairs such as P>Q, in any order, to end the game.\n"
            f"You have {self.max_turns} turns, the wires included."
        ), {}

    def _woken(self, station):
        on, grown = {station}, True
        while grown:
            more = {child for child, parent in self._parent.items() if parent in on} - on
            on, grown = on | more, bool(more)
        return sorted(on)

    def step(self, action):
        self._turn += 1
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", action)
        command = boxed[-1].strip().upper() if boxed else ""
        force = re.fullmatch(r"FORCE\s+([A-E])", command)
        if re.fullmatch(r"WIRES:?(\s*,?\s*[A-E]\s?>\s?[A-E]){1,12}", command):
            named = re.findall(r"([A-E])\s?>\s?([A-E])", command)
            won = set(named) == {(parent, child) for child, parent in self._parent.items()}
            text = "The plan of the wires is right." if won else "The plan of the wires is wrong."
            return text, 1.0 if won else 0.0, True, False, {}
        if force:
            station = force.group(1)
            others = [x for x in self._woken(station) if x != station]
            text = f"Forced {station}: {'then on: ' + ', '.join(others) if others else 'nothing else comes on'}."
            self._notes.append(text)
        elif command == "WATCH":
            text = f"Watched: on together: {', '.join(self._woken(self._rng.choice(self.STATIONS)))}."
            self._notes.append(text)
        else:
            text = "The switchboard takes \\boxed{force X}, \\boxed{watch} or \\boxed{wires P>Q ...}, stations A to E."
        notes = "\n".join(self._notes) or "nothing yet"
        left = max(0, self.max_turns - self._turn)
        return f"{text}\nNotes:\n{notes}\nTurns left: {left}.", 0.0, False, self._turn >= self.max_turns, {}

    def solution(self):
        return f"\\boxed{{wires {' '.join(f'{parent}>{child}' for child, parent in sorted(self._parent.items()))}}}"
