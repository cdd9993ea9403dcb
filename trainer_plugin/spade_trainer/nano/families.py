"""Families of games: what is hidden, what an action shows, what counts as the answer, and what a hint says.

Every family returns the `Parts` of a program; `programs.py` writes the whole program from them. In each game something is
hidden, an action reveals a little, and the turns are few, so that how one looks decides. Answers are drawn uniformly from
several possibilities, which keeps the chance of a blind guess low. These programs are demonstrations for the warm start
only: at run time the model writes its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from spade_trainer.nano import words

LETTERS = "abcdefghijklmnop"


@dataclass
class Parts:
    """The pieces of one program, as lines of Python without indentation."""

    opening: str
    setup: list[str]
    branches: list[str]
    solution: str
    hints: list[str]
    verbs: tuple[str, ...]


@dataclass(frozen=True)
class Ink:
    """Names that mean nothing to the player. Only one varies: a model this small loses track of more."""

    rng: str
    hidden: str
    left: str

    @classmethod
    def draw(cls, rng: random.Random) -> Ink:
        """Choose the names of one program."""
        return cls("rng", "hid", rng.choice(("self.left", "left")))


def _list(letters: str) -> str:
    return " ".join(letters)


def _reveal(ink: Ink, rng: random.Random, n: int, question: str, setup: list[str], goal: str, hint: list[str]) -> Parts:
    """Places hide digits; one action shows one place, another one answers and ends the game."""
    look, say, things = rng.choice(words.LOOK_VERBS), rng.choice(words.SAY_VERBS), rng.choice(words.THINGS)
    letters, form = LETTERS[:n], "X" if goal == "letter" else "N"
    shown = rng.choice(("in {x}: {v}", "at {x} is {v}", "place {x} has {v}")).format(
        x="{x}", v=f"{{self.{ink.hidden}[x]}}"
    )
    opening = (
        rng.choice(
            (
                f"{things} {_list(letters)} hide digits. {question}",
                f"{n} {things} {_list(letters)}. {question}",
                f"{question} Digits hide in {things} {_list(letters)}.",
            )
        )
        + f" \\\\boxed{{{{{look} a}}}} or \\\\boxed{{{{{say} {form}}}}}."
    )
    branches = [
        f'if verb == "{look}" and x in self.{ink.hidden}:',
        f'    return f"{shown}. {{{ink.left}}} left.", 0.0, False, out, {{}}',
        f'if verb == "{say}":',
        *_answer(rng, "x == self.goal"),
    ]
    hints = [h.format(look=look, say=say, things=things, form=form, n=n, letters=_list(letters)) for h in hint]
    return Parts(opening, setup, branches, f'"{say} " + self.goal', hints, (look, say))


def _answer(rng: random.Random, test: str) -> list[str]:
    if rng.random() < 0.5:
        return [f"    win = {test}", '    return "right" if win else "wrong", float(win), True, False, {}']
    return [
        f"    if {test}:",
        '        return "right", 1.0, True, False, {}',
        '    return "wrong", 0.0, True, False, {}',
    ]


_ALL = [
    "Use {look} on all {n} {things}, each once, then {say} the {what}. Write \\boxed{{{say} {form}}}.",
    "{look} every one of {letters} once before you {say}. Answer \\boxed{{{say} {form}}} with the {what}.",
]


def _hints(what: str, templates: list[str] | None = None) -> list[str]:
    return [t.replace("{what}", what) for t in templates or _ALL]


def largest(ink: Ink, rng: random.Random, n: int) -> Parts:
    """The largest of n digits."""
    q = rng.choice(("Which digit is the largest?", "Find the largest digit.", "What is the highest digit?"))
    r = ink.rng
    setup = [
        f"top = {r}.randint(1, 9)",
        f"vals = [top] + [{r}.randint(0, top) for _ in range({n - 1})]",
        f"{r}.shuffle(vals)",
        _zip(ink, n),
        "self.goal = str(top)",
    ]
    return _reveal(ink, rng, n, q, setup, "digit", _hints("largest digit"))


def smallest(ink: Ink, rng: random.Random, n: int) -> Parts:
    """The smallest of n digits."""
    q = rng.choice(("Which digit is the smallest?", "Find the smallest digit.", "What is the lowest digit?"))
    r = ink.rng
    setup = [
        f"low = {r}.randint(0, 8)",
        f"vals = [low] + [{r}.randint(low, 9) for _ in range({n - 1})]",
        f"{r}.shuffle(vals)",
        _zip(ink, n),
        "self.goal = str(low)",
    ]
    return _reveal(ink, rng, n, q, setup, "digit", _hints("smallest digit"))


def value(ink: Ink, rng: random.Random, n: int) -> Parts:
    """The digit at one named place; the other places distract."""
    q = rng.choice(("What does {key} hide?", "Which digit is in {key}?", "Find the digit in {key}."))
    setup = [
        f"vals = [{ink.rng}.randint(0, 9) for _ in range({n})]",
        _zip(ink, n),
        f'key = {ink.rng}.choice("{LETTERS[:n]}")',
        f"self.goal = str(self.{ink.hidden}[key])",
    ]
    hint = [
        "{look} only at the place asked for, then {say} its digit. Write \\boxed{{{say} {form}}}.",
        "One {look} is enough: the named place. Then \\boxed{{{say} {form}}} with what it shows.",
    ]
    return _reveal(ink, rng, n, q, setup, "digit", hint)


def odd(ink: Ink, rng: random.Random, n: int) -> Parts:
    """All places hide the same digit, save one."""
    q = rng.choice(("One differs: which?", "All are equal save one. Which?", "Find the odd one out."))
    setup = [
        f"m, k = {ink.rng}.sample(range(10), 2)",
        f'self.goal = {ink.rng}.choice("{LETTERS[:n]}")',
        f'self.{ink.hidden} = {{c: k if c == self.goal else m for c in "{LETTERS[:n]}"}}',
    ]
    hint = [
        "{look} at one after the other until a digit differs, then {say} its letter. Write \\boxed{{{say} X}}.",
        "Never {look} twice at one place. When one differs from the rest, \\boxed{{{say} X}}.",
    ]
    return _reveal(ink, rng, n, q, setup, "letter", hint)


def where_most(ink: Ink, rng: random.Random, n: int) -> Parts:
    """The place of the largest digit."""
    q = rng.choice(("Where is the largest digit?", "Which place has the most?"))
    setup = [
        f"vals = {ink.rng}.sample(range(10), {n})",
        _zip(ink, n),
        f"self.goal = max(self.{ink.hidden}, key=self.{ink.hidden}.get)",
    ]
    return _reveal(ink, rng, n, q, setup, "letter", _hints("letter of the largest digit"))


def where_least(ink: Ink, rng: random.Random, n: int) -> Parts:
    """The place of the smallest digit."""
    q = rng.choice(("Where is the smallest digit?", "Which place has the least?"))
    setup = [
        f"vals = {ink.rng}.sample(range(10), {n})",
        _zip(ink, n),
        f"self.goal = min(self.{ink.hidden}, key=self.{ink.hidden}.get)",
    ]
    return _reveal(ink, rng, n, q, setup, "letter", _hints("letter of the smallest digit"))


def _zip(ink: Ink, n: int) -> str:
    return f'self.{ink.hidden} = dict(zip("{LETTERS[:n]}", vals))'


def hunt(ink: Ink, rng: random.Random, n: int) -> Parts:
    """A number from 1 to n; every try says higher or lower."""
    verb = rng.choice(words.TRY_VERBS)
    up, down = rng.choice((("higher", "lower"), ("more", "less")))
    q = rng.choice((f"A number from 1 to {n} is hidden.", f"Find the number, 1 to {n}."))
    branches = [
        f'if verb == "{verb}" and x.isdecimal() and len(x) < 4:',
        "    n = int(x)",
        "    if n == self.goal:",
        '        return "found", 1.0, True, False, {}',
        f'    word = "{up}" if n < self.goal else "{down}"',
        f'    return f"{{word}} than {{x}}. {{{ink.left}}} left.", 0.0, False, out, {{}}',
    ]
    hints = [
        f"Halve the range: {verb} the middle of what is left after {up} or {down}. Write \\boxed{{{verb} N}}.",
        f"Always {verb} a number between the bounds that {up} and {down} give, near the middle. \\boxed{{{verb} N}}.",
    ]
    return Parts(
        f"{q} \\\\boxed{{{{{verb} N}}}}.",
        [f"self.goal = {ink.rng}.randint(1, {n})"],
        branches,
        f'"{verb} " + str(self.goal)',
        hints,
        (verb,),
    )


def line(ink: Ink, rng: random.Random, n: int) -> Parts:
    """A letter of a row; every try says before or after."""
    verb = rng.choice(words.TRY_VERBS)
    low, high = rng.choice((("left", "right"), ("before", "after"), ("west", "east")))
    q = rng.choice((f"It lies in one of {_list(LETTERS[:n])}.", f"Find the place in the row {_list(LETTERS[:n])}."))
    branches = [
        f'if verb == "{verb}":',
        "    if x == self.goal:",
        '        return "found", 1.0, True, False, {}',
        f'    word = "{high}" if self.goal > x else "{low}"',
        f'    return f"{{word}} of {{x[:1]}}. {{{ink.left}}} left.", 0.0, False, out, {{}}',
    ]
    hints = [
        f"Halve the row: {verb} the middle of what is left, as {low} or {high} says. Write \\boxed{{{verb} X}}.",
        f"Always {verb} a letter between the bounds that {low} and {high} give. \\boxed{{{verb} X}}.",
    ]
    return Parts(
        f"{q} \\\\boxed{{{{{verb} X}}}}.",
        [f'self.goal = {ink.rng}.choice("{LETTERS[:n]}")'],
        branches,
        f'"{verb} " + self.goal',
        hints,
        (verb,),
    )


def grid(ink: Ink, rng: random.Random, n: int) -> Parts:
    """A cell of an n by n grid; every try gives the direction on both axes."""
    verb = rng.choice(words.TRY_VERBS)
    q = rng.choice(
        (f"A cell of a grid, a1 to {LETTERS[n - 1]}{n}, is marked.", f"Find the cell, a1 to {LETTERS[n - 1]}{n}.")
    )
    branches = [
        f'if verb == "{verb}":',
        "    if x == self.goal:",
        '        return "found", 1.0, True, False, {}',
        '    ew = "east" if self.goal[0] > x[:1] else "west" if self.goal[0] < x[:1] else "here"',
        '    ns = "north" if self.goal[1] > x[-1:] else "south" if self.goal[1] < x[-1:] else "here"',
        f'    return f"from {{x[:2]}}: {{ew}} {{ns}}. {{{ink.left}}} left.", 0.0, False, out, {{}}',
    ]
    setup = [f'self.goal = {ink.rng}.choice("{LETTERS[:n]}") + str({ink.rng}.randint(1, {n}))']
    hints = [
        f"East is a later letter, north a higher digit, here is right: {verb} as told. Write \\boxed{{{verb} X}}.",
        f"Keep what is here, move the rest as told: letters go east, digits north. \\boxed{{{verb} X}}.",
    ]
    return Parts(f"{q} \\\\boxed{{{{{verb} X}}}}.", setup, branches, f'"{verb} " + self.goal', hints, (verb,))


def walk(ink: Ink, rng: random.Random, n: int) -> Parts:
    """A walk to a hidden spot at most n away on each axis; warmer or colder after each step."""
    verb = rng.choice(words.GO_VERBS)
    warm, cold = rng.choice((("warmer", "colder"), ("nearer", "farther")))
    q = rng.choice(("Walk to the hidden spot.", "Find the spot on a plane.", "The spot is near."))
    r = ink.rng
    setup = [
        "self.dx = self.dy = 0",
        "while self.dx == self.dy == 0:",
        f"    self.dx, self.dy = {r}.randint(-{n}, {n}), {r}.randint(-{n}, {n})",
    ]
    branches = [
        'moves = {"east": (1, 0), "west": (-1, 0), "north": (0, 1), "south": (0, -1)}',
        f'if verb == "{verb}" and x in moves:',
        "    old = abs(self.dx) + abs(self.dy)",
        "    self.dx, self.dy = self.dx - moves[x][0], self.dy - moves[x][1]",
        "    new = abs(self.dx) + abs(self.dy)",
        "    if new == 0:",
        '        return "found", 1.0, True, False, {}',
        f'    word = "{warm}" if new < old else "{cold}"',
        f'    return f"going {{x}}: {{word}}. {{{ink.left}}} left.", 0.0, False, out, {{}}',
    ]
    hints = [
        f"Keep the direction while it gets {warm}; when {cold}, turn back or aside. Write \\boxed{{{verb} X}}.",
        f"Repeat a step that was {warm}. After {cold} take the opposite one. \\boxed{{{verb} X}}.",
    ]
    solution = (
        f'"\\n".join(["{verb} east" if self.dx > 0 else "{verb} west"] * abs(self.dx)'
        f' + ["{verb} north" if self.dy > 0 else "{verb} south"] * abs(self.dy))'
    )
    return Parts(
        f"{q} \\\\boxed{{{{{verb} X}}}} with east, west, north or south.", setup, branches, solution, hints, (verb,)
    )


def _lever(ink: Ink, rng: random.Random, n: int, q: str, on: str, off: str, hints: list[str]) -> Parts:
    pull, say, levers = rng.choice(words.PULL_VERBS), rng.choice(words.SAY_VERBS), rng.choice(words.LEVERS)
    letters = LETTERS[:n]
    branches = [f'if verb == "{pull}":', f'    word = "{on}" if x == self.goal else "{off}"']
    branches += [
        f'    return f"with {{x[:1]}}: {{word}}. {{{ink.left}}} left.", 0.0, False, out, {{}}',
        f'if verb == "{say}":',
        *_answer(rng, "x == self.goal"),
    ]
    setup = [f'self.goal = {ink.rng}.choice("{letters}")']
    opening = f"{levers} {_list(letters)}. {q} \\\\boxed{{{{{pull} a}}}} or \\\\boxed{{{{{say} X}}}}."
    hints = [h.format(pull=pull, say=say, on=on, off=off) for h in hints]
    return Parts(opening, setup, branches, f'"{say} " + self.goal', hints, (pull, say))


def lever(ink: Ink, rng: random.Random, n: int) -> Parts:
    """One of n levers acts; the others do nothing."""
    on, off, what = rng.choice(
        (("on", "off", "lights the lamp"), ("ring", "still", "rings the bell"), ("open", "shut", "opens the gate"))
    )
    hints = [
        "{pull} each one once until it says {on}, then {say} that one. Write \\boxed{{{say} X}}.",
        "Never {pull} one twice. The one that gives {on} is the cause: \\boxed{{{say} X}}.",
    ]
    return _lever(ink, rng, n, rng.choice((f"One {what}.", f"Which one {what}?")), on, off, hints)


def blocker(ink: Ink, rng: random.Random, n: int) -> Parts:
    """All levers act, save one."""
    on, off, what = rng.choice((("dark", "lit", "breaks the lamp"), ("dry", "flow", "stops the water")))
    hints = [
        "{pull} each one once until it says {on}, then {say} that one. Write \\boxed{{{say} X}}.",
        "Never {pull} one twice. The one that gives {on} is the cause: \\boxed{{{say} X}}.",
    ]
    return _lever(ink, rng, n, rng.choice((f"One {what}.", f"Which one {what}?")), on, off, hints)


def _places(ink: Ink, rng: random.Random, last: int, q: str, setup: list[str], show: str, hints: list[str]) -> Parts:
    """A row of digits; some positions may be looked at, another one is asked for."""
    look, say = rng.choice(words.LOOK_VERBS), rng.choice(words.SAY_VERBS)
    branches = [
        f'if verb == "{look}" and x in list("{"".join(map(str, range(1, last + 1)))}"):',
        f'    return f"at {{x[0]}} is {{{show}}}. {{{ink.left}}} left.", 0.0, False, out, {{}}',
        f'if verb == "{say}":',
        *_answer(rng, "x == self.goal"),
    ]
    opening = f"{q} \\\\boxed{{{{{look} 1}}}} to {last}, or \\\\boxed{{{{{say} N}}}}."
    return Parts(
        opening, setup, branches, f'"{say} " + self.goal', [h.format(look=look, say=say) for h in hints], (look, say)
    )


def repeat(ink: Ink, rng: random.Random, n: int) -> Parts:
    """A row of digits with period n; the place asked for lies beyond what may be seen."""
    last = n + rng.choice((1, 2))
    h, r = ink.hidden, ink.rng
    setup = [
        f"self.{h} = [{r}.randint(0, 9) for _ in range({n})]",
        f"k = {r}.randint({last + 1}, {last + n})",
        f"self.goal = str(self.{h}[(k - 1) % {n}])",
    ]
    q = rng.choice((f"Digits repeat after {n}. Which is at {{k}}?", f"A row of period {n}: what is at {{k}}?"))
    hints = [
        f"Go back by {n} from the place asked for, {{look}} there, then \\boxed{{{{{{say}} N}}}}.",
        f"{{look}} at the place that lies a multiple of {n} before, and {{say}} it. Write \\boxed{{{{{{say}} N}}}}.",
    ]
    return _places(ink, rng, last, q, setup, f"self.{h}[(int(x[0]) - 1) % {n}]", hints)


def climb(ink: Ink, rng: random.Random, n: int) -> Parts:
    """Places 1 to n; the height falls by one with each step from a hidden top of height 9."""
    verb = rng.choice(words.TRY_VERBS)
    q = rng.choice(
        (f"Heights 1 to {n} fall by 1 around a top of 9.", f"Find the top: 9 high, 1 less each step, 1 to {n}.")
    )
    branches = [
        f'if verb == "{verb}" and x.isdecimal() and len(x) < 3:',
        "    n = 9 - abs(int(x) - self.goal)",
        "    if n == 9:",
        '        return "top", 1.0, True, False, {}',
        f'    return f"at {{x}} {{n}} high. {{{ink.left}}} left.", 0.0, False, out, {{}}',
    ]
    hints = [
        f"What lacks to 9 is how far the top is: {verb} that far up or down. Write \\boxed{{{verb} N}}.",
        f"9 less the height is the distance. {verb} one side, then the other. \\boxed{{{verb} N}}.",
    ]
    return Parts(
        f"{q} \\\\boxed{{{{{verb} N}}}}.",
        [f"self.goal = {ink.rng}.randint(1, {n})"],
        branches,
        f'"{verb} " + str(self.goal)',
        hints,
        (verb,),
    )


@dataclass(frozen=True)
class Family:
    """A family with the sizes it comes in and the turns that a careful player needs at most."""

    name: str
    skill: str
    parts: Callable[[Ink, random.Random, int], Parts]
    sizes: tuple[int, ...]
    needs: Callable[[int], int]


MATH, LOGIC, SPACE = "Mathematical Reasoning", "Logical Deduction", "Spatial Reasoning"
PATTERN, BEST, CAUSE = "Pattern Recognition", "Optimization", "Causal Inference"
FAMILIES: dict[str, Family] = {
    f.name: f
    for f in (
        Family("largest", MATH, largest, (2, 3, 4), lambda n: n + 1),
        Family("smallest", MATH, smallest, (2, 3, 4), lambda n: n + 1),
        Family("hunt", MATH, hunt, (7, 9, 12, 15, 20), lambda n: n.bit_length()),
        Family("odd", LOGIC, odd, (4, 5, 6), lambda n: n),
        Family("line", LOGIC, line, (6, 8, 10, 12, 15), lambda n: n.bit_length()),
        Family("grid", SPACE, grid, (3, 4, 5, 6), lambda n: n.bit_length() + 1),
        Family("walk", SPACE, walk, (1, 2, 3), lambda n: 2 * n + 4),
        Family("value", PATTERN, value, (3, 4, 5, 6), lambda n: 2),
        Family("repeat", PATTERN, repeat, (2, 3, 4), lambda n: 2),
        Family("where_most", BEST, where_most, (2, 3, 4), lambda n: n + 1),
        Family("where_least", BEST, where_least, (2, 3, 4), lambda n: n + 1),
        Family("climb", BEST, climb, (6, 7, 8, 9), lambda n: 3),
        Family("lever", CAUSE, lever, (4, 5, 6, 7, 8), lambda n: n),
        Family("blocker", CAUSE, blocker, (4, 5, 6, 7, 8), lambda n: n),
    )
}
