"""Whole programs of the warm start: a family, a size, a budget, a noun and a style, written out in the contract.

`Design` is one drawn program with what the scripted players and the hint demonstrations need to know about it. A part of
the combinations (family, size, turns) is held out: no demonstration uses them, and `benchmarks/learning.py` measures on
them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache

from spade_trainer.nano import words
from spade_trainer.nano.families import FAMILIES, Ink

SLACKS = (-1, 0, 0, 1, 1, 2, 3)
HELD_OUT_SHARE = 6  # one fair combination in six is never shown to the model


@dataclass(frozen=True)
class Design:
    """A program with its recipe."""

    family: str
    size: int
    turns: int
    noun: str
    source: str
    hints: tuple[str, ...]
    verbs: tuple[str, ...]
    hidden: str

    @property
    def skill(self) -> str:
        """The skill the family trains."""
        return FAMILIES[self.family].skill


@lru_cache
def held_out_combinations(family: str) -> frozenset[tuple[int, int]]:
    """Return the (size, turns) of a family that are kept for evaluation: a sixth of those with turns enough to win."""
    known = FAMILIES[family]
    fair = sorted({(n, known.needs(n) + slack) for n in known.sizes for slack in (0, 1, 2)})
    return frozenset(random.Random(f"held out {family}").sample(fair, max(2, len(fair) // HELD_OUT_SHARE)))


def held_out(family: str, size: int, turns: int) -> bool:
    """Say whether a combination is kept for evaluation. Depends on the three values only."""
    return (size, turns) in held_out_combinations(family)


def draw(
    rng: random.Random,
    noun: str,
    *,
    family: str | None = None,
    skill: str | None = None,
    size: int | None = None,
    turns: int | None = None,
    kept: bool = False,
) -> Design:
    """Draw a program; what is given is kept, the rest is random. `kept` draws held-out combinations only."""
    names = [f for f in FAMILIES if (skill is None or FAMILIES[f].skill == skill) and family in (None, f)]
    for _ in range(1000):
        chosen = FAMILIES[rng.choice(names)]
        n = size if size is not None else rng.choice(chosen.sizes)
        budget = turns if turns is not None else max(2, chosen.needs(n) + rng.choice(SLACKS))
        if held_out(chosen.name, n, budget) == kept:
            return _write(rng, chosen.name, n, budget, noun)
        size = turns = None  # a given combination that is held out is replaced
    raise ValueError(f"no combination of {names} fits kept={kept}")


def _write(rng: random.Random, family: str, size: int, turns: int, noun: str) -> Design:
    ink = Ink.draw(rng)
    parts = FAMILIES[family].parts(ink, rng, size)
    reading = _reading(rng)
    counting, turn_text, reset_line = _counting(ink)
    where = rng.choice((f"At the {noun}: ", f"In the {noun}, ", f"The {noun}. ", ""))
    text = where + parts.opening + rng.choice((f" {turn_text} turns.", f" Turns: {turn_text}."))
    lines = ["import random", "import re", ""] if rng.random() < 0.15 else []
    lines += [
        f"class {noun}Env:",
        f"    def __init__(self, max_turns={turns}, **kwargs):",
        "        self.max_turns = max_turns",
        "",
        "    def reset(self, seed=None):",
        f"        {ink.rng} = random.Random(seed)",
        f"        {reset_line}",
        *_indent(parts.setup),
        f'        return f"{text}", {{}}',
        "",
        "    def step(self, action):",
        *_indent(counting),
        *_indent(reading),
        *_indent(parts.branches),
        f'        return f"{rng.choice(("unknown", "no such move", "what"))}. {{{ink.left}}} left.", 0.0, False, out, {{}}',
    ]
    if rng.random() < 0.6:
        lines += ["", "    def solution(self):", f"        return {parts.solution}"]
    return Design(family, size, turns, noun, "\n".join(lines) + "\n", tuple(parts.hints), parts.verbs, ink.hidden)


def _counting(ink: Ink) -> tuple[list[str], str, str]:
    if ink.left == "self.left":
        return ["self.left -= 1", "out = self.left <= 0"], "{self.left}", "self.left = self.max_turns"
    counting = ["self.turn += 1", "left = self.max_turns - self.turn", "out = left <= 0"]
    return counting, "{self.max_turns}", "self.turn = 0"


def _reading(rng: random.Random) -> list[str]:
    """Lines that find the last boxed move and split it into `verb` and `x`."""
    if rng.random() < 0.5:
        return [r'found = re.findall(r"\\boxed\{(\w+) (\w+)\}", action)', 'verb, x = found[-1] if found else ("", "")']
    whole = r'found = re.findall(r"\\boxed\{([^{}]*)\}", action)'
    return [whole, 'verb, _, x = (found[-1] if found else "").partition(" ")']


def _indent(lines: list[str]) -> list[str]:
    return ["        " + line for line in lines]


NOUNS = words.TRAIN_NOUNS
