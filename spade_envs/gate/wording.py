"""Words for messages: short quotes, and the line of a program that a message speaks of."""

from __future__ import annotations

import re

_LINE = re.compile(r"\bline (\d+)\b")
MAX_LINES = 3
ADVICE: tuple[tuple[str, str], ...] = (
    ("no answer within", "it may loop without end: bound every loop, such as `for _ in range(1000)`"),
    ("NameError", "define or import every name in the program itself"),
    ("which JSON cannot hold", "info may hold str, int, float, bool, None, lists and dicts: sorted(...) for a set"),
    ("reward must be a number", "write float(...)"),
    ("terminated and truncated must be bool", "write bool(...)"),
    ("get_tools() failed", 'self._tools is a dict: {"name": {"description": ..., "parameters": {JSON schema}}}'),
    ("f-string: ", "inside of braces use the other kind of quote, or compute the value on a line of its own"),
    ("was never closed", "the text may have been cut off: write a shorter program"),
    ("unterminated", "the text may have been cut off, or a quote is missing"),
    ("__init__() missing", "the class is made with max_turns at most: give every other argument a default"),
    ("needs more memory", "keep tables small, and compute entries when they are asked for"),
    ("step() failed", "an agent may write anything: step() must answer with an observation, never with an exception"),
    ("is no valid JSON schema", "types are string, integer, number, boolean, array, object and null"),
)
"""What to do about a message that holds such a text; the first that fits is added."""
MAX_MESSAGE = 2000


def short(text: str, limit: int = 60) -> str:
    """A text, or its beginning."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def explained(message: str, source: str) -> str:
    """A message, what to do about it, and the lines of the program that it names (numbers are easily miscounted)."""
    advice = next((f". What to do: {text}" for sign, text in ADVICE if sign in message), "")
    lines = source.split("\n")
    numbers = dict.fromkeys(int(found[:9]) for found in _LINE.findall(message))
    quoted = [
        f"  line {number}: {short(lines[number - 1].strip(), 160)}"
        for number in list(numbers)[:MAX_LINES]
        if 0 < number <= len(lines) and lines[number - 1].strip()
    ]
    said = short(message, MAX_MESSAGE)
    return "\n".join([said.rstrip(".") + advice if advice else said, *quoted])
