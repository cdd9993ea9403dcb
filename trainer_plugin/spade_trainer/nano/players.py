"""Scripted players that the warm start imitates: the right syntax always, the right strategy with a given probability.

A player knows what it has seen, never what is hidden. With probability `care` it makes the sensible next move of its
family; else it makes one of the mistakes that experience cures: it answers too early, looks again where it has looked, or
ignores what the environment said.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any

from spade_trainer.nano.families import LETTERS
from spade_trainer.nano.programs import Design

REVEAL = {"largest", "smallest", "odd", "where_most", "where_least", "value"}
PULL = {"lever", "blocker"}
DIRECTIONS = {"east": (1, 0), "west": (-1, 0), "north": (0, 1), "south": (0, -1)}


@dataclass
class Play:
    """One finished demonstration: the texts in turn, and how it ended."""

    observations: list[str]
    actions: list[str]
    won: bool


def instantiate(design: Design) -> Any:
    """Run a demonstration program (one of ours, never a model's) and return an instance."""
    namespace: dict[str, Any] = {"random": random, "re": re}
    exec(compile(design.source, design.noun, "exec"), namespace)
    return namespace[f"{design.noun}Env"]()


def play(design: Design, rng: random.Random, care: float, env: Any = None) -> Play:
    """Play one episode with a scripted player."""
    env = env or instantiate(design)
    observation, _ = env.reset(rng.randrange(2**31))
    observations, actions, seen = [observation], [], Seen(design, env, observation)
    while True:
        good = rng.random() < care
        move = seen.sensible(rng) if good else seen.careless(rng)
        actions.append(f"\\boxed{{{move}}}")
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        seen.note(move, observation)
        observations.append(observation)
        if terminated or truncated:
            return Play(observations, actions, reward > 0.5)


class Seen:
    """What a player knows so far, and the moves that follow from it."""

    def __init__(self, design: Design, env: Any, opening: str):
        self.family, self.n, self.verbs = design.family, design.size, design.verbs
        self.env, self.hidden, self.opening = env, design.hidden, opening
        self.letters = list(LETTERS[: self.n])
        self.known: dict[str, Any] = {}
        self.moves: list[str] = []
        self.low, self.high = [1, 1], [self.n, self.n]
        self.last_word = ""
        spots = range(-self.n, self.n + 1) if self.family == "walk" else ()
        self.targets = [(a, b) for a in spots for b in spots if a or b]
        if self.family == "repeat":
            self.asked = int(re.findall(r"at (\d+)", opening)[-1])
            self.last = int(re.findall(r"to (\d+), or", opening)[-1])

    def note(self, move: str, observation: str) -> None:
        """Take in an answer of the environment."""
        self.moves.append(move)
        x = move.split()[1]
        if self.family in REVEAL and move.startswith(self.verbs[0]):
            self.known[x] = getattr(self.env, self.hidden)[x]
        elif self.family in PULL:
            self.known[x] = observation
            self.last_word = observation
        elif self.family in ("hunt", "climb"):
            self._note_number(int(x))
        elif self.family == "line":
            self._narrow(0, LETTERS.index(x) + 1, LETTERS.index(self.env.goal) + 1)
        elif self.family == "grid":
            self._narrow(0, LETTERS.index(x[0]) + 1, LETTERS.index(self.env.goal[0]) + 1)
            self._narrow(1, int(x[1]), int(self.env.goal[1]))
        elif self.family == "walk":
            self._note_step(x, observation)
        elif self.family == "repeat" and move.startswith(self.verbs[0]):
            self.known[x] = observation.split()[3].rstrip(".")

    def _narrow(self, axis: int, tried: int, goal: int) -> None:
        if goal > tried:
            self.low[axis] = max(self.low[axis], tried + 1)
        elif goal < tried:
            self.high[axis] = min(self.high[axis], tried - 1)
        else:
            self.low[axis] = self.high[axis] = tried

    def _note_number(self, x: int) -> None:
        if self.family == "hunt":
            self._narrow(0, x, self.env.goal)
        else:
            self.known[str(x)] = abs(x - self.env.goal)

    def _note_step(self, x: str, observation: str) -> None:
        """Keep the targets that agree with warmer or colder, seen from the new spot."""
        warmer = "warmer" in observation or "nearer" in observation
        dx, dy = DIRECTIONS[x]
        moved = [((a, b), (a - dx, b - dy)) for a, b in self.targets]
        self.targets = [new for old, new in moved if (_norm(new) < _norm(old)) == warmer and new != (0, 0)]
        self.last_word = x if warmer else ""

    # -- moves ---------------------------------------------------------------------------------------------------

    def sensible(self, rng: random.Random) -> str:
        """The move of a player who knows the strategy."""
        if self.family in REVEAL:
            return self._reveal(rng)
        if self.family in PULL:
            return self._pull(rng)
        if self.family == "repeat":
            return self._place()
        return f"{self.verbs[0]} {self._aim(rng)}"

    def careless(self, rng: random.Random) -> str:
        """A mistake: too early, again, or anywhere."""
        if len(self.verbs) == 2 and rng.random() < 0.45:
            return f"{self.verbs[1]} {self._guess(rng)}"
        if self.moves and rng.random() < 0.4:
            return rng.choice(self.moves)
        return f"{self.verbs[0]} {self._anything(rng)}"

    def _anything(self, rng: random.Random) -> str:
        if self.family in ("hunt", "climb"):
            return str(rng.randint(1, self.n))
        if self.family == "grid":
            return rng.choice(self.letters) + str(rng.randint(1, self.n))
        if self.family == "walk":
            return rng.choice(list(DIRECTIONS))
        if self.family == "repeat":
            return str(rng.randint(1, self.last))
        return rng.choice(self.letters)

    def _guess(self, rng: random.Random) -> str:
        """The answer that fits best what was seen, given too early."""
        if self.family == "repeat":
            return rng.choice(list(self.known.values())) if self.known else str(rng.randint(0, 9))
        answer = self._answer() if self.known else None
        if answer is not None:
            return answer
        digits = self.family in ("largest", "smallest", "value")
        return str(rng.randint(0, 9)) if digits else rng.choice(self.letters)

    def _answer(self) -> str | None:
        """What follows from what was seen, or None."""
        known = self.known
        if self.family in ("largest", "where_most"):
            top = max(known, key=known.__getitem__)
            return str(known[top]) if self.family == "largest" else top
        if self.family in ("smallest", "where_least"):
            low = min(known, key=known.__getitem__)
            return str(known[low]) if self.family == "smallest" else low
        if self.family == "value":
            return str(known[self._asked()]) if self._asked() in known else None
        values = list(known.values())
        if self.family == "odd":
            return next(
                (c for c, v in known.items() if len(values) > 2 and values.count(v) == 1 and len(set(values)) == 2),
                None,
            )
        return self._cause()

    def _asked(self) -> str:
        """The place that the question of `value` names."""
        match = re.search(r"does (\w) hide|is in (\w)\?|digit in (\w)\.", self.opening)
        if match is None:
            raise ValueError(f"no place is asked for in {self.opening!r}")
        return next(group for group in match.groups() if group)

    def _cause(self) -> str | None:
        return next((m.split()[1] for m in self.moves if not self._off(m.split()[1])), None)

    def _off(self, x: str) -> bool:
        return any(word in self.known.get(x, "off") for word in ("off", "still", "shut", "lit", "flow"))

    def _reveal(self, rng: random.Random) -> str:
        answer = self._answer() if self.known else None
        asked = [self._asked()] if self.family == "value" else self.letters
        unseen = [c for c in asked if c not in self.known]
        whole = self.family in ("largest", "smallest", "where_most", "where_least")
        if unseen and (whole or answer is None):
            return f"{self.verbs[0]} {unseen[0] if rng.random() < 0.85 else rng.choice(unseen)}"
        return f"{self.verbs[1]} {answer if answer is not None else rng.choice(self.letters)}"

    def _pull(self, rng: random.Random) -> str:
        cause = self._cause()
        if cause is not None:
            return f"{self.verbs[1]} {cause}"
        unseen = [c for c in self.letters if c not in self.known]
        if len(unseen) == 1:
            return f"{self.verbs[1]} {unseen[0]}"
        if not unseen:
            return f"{self.verbs[0]} {self.letters[0]}"
        return f"{self.verbs[0]} {unseen[0] if rng.random() < 0.85 else rng.choice(unseen)}"

    def _place(self) -> str:
        place = self.asked
        while place > self.last:
            place -= self.n
        if str(place) in self.known:
            return f"{self.verbs[1]} {self.known[str(place)]}"
        return f"{self.verbs[0]} {place}"

    def _aim(self, rng: random.Random) -> str:
        if self.family == "walk":
            return self._stride(rng)
        if self.family == "climb":
            fits = [i for i in range(1, self.n + 1) if all(abs(i - int(k)) == d for k, d in self.known.items())]
            return str(rng.choice(fits) if self.known else rng.choice((1, self.n)))
        middle = [(low + high) // 2 for low, high in zip(self.low, self.high, strict=True)]
        if self.family == "hunt":
            return str(middle[0])
        return LETTERS[middle[0] - 1] + (str(middle[1]) if self.family == "grid" else "")

    def _stride(self, rng: random.Random) -> str:
        """The direction that comes nearer to most of the remaining targets; the last one if it is as good."""
        gain = {
            d: sum(_norm((a - x, b - y)) < _norm((a, b)) for a, b in self.targets) for d, (x, y) in DIRECTIONS.items()
        }
        top = [d for d, g in gain.items() if g == max(gain.values())]
        return self.last_word if self.last_word in top else rng.choice(top)


def _norm(spot: tuple[int, int]) -> int:
    return abs(spot[0]) + abs(spot[1])
