"""Words for messages: short quotes, and the line of a program that a message speaks of."""

from __future__ import annotations

import re

_LINE = re.compile(r"\bline (\d+)\b")
MAX_LINES = 3
MAX_MESSAGE = 2000


def short(text: str, limit: int = 60) -> str:
    """A text, or its beginning."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def with_code(message: str, source: str) -> str:
    """A message, and below it the lines of the program that it names, since numbers alone are easily miscounted."""
    lines = source.split("\n")
    numbers = dict.fromkeys(int(found[:9]) for found in _LINE.findall(message))
    quoted = [
        f"  line {number}: {short(lines[number - 1].strip(), 160)}"
        for number in list(numbers)[:MAX_LINES]
        if 0 < number <= len(lines) and lines[number - 1].strip()
    ]
    return "\n".join([short(message, MAX_MESSAGE), *quoted])
