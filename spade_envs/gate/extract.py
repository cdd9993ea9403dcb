"""From a model's answer to the text of a program.

A model thinks aloud, corrects itself, and wraps code in fences. What counts is outside of thinking blocks; of several
fenced programs the last complete one; a fence inside a string of the program does not end it.
"""

from __future__ import annotations

import io
import re
import tokenize

from spade_envs.contract import environment_classes
from spade_envs.errors import ProgramError

# A program may name the tags in a string, to strip them from an action: those begin no line, or have a quote behind.
_THINKING = re.compile(
    r"""^[ \t]*<think(?:ing)?>|(?P<closes></think(?:ing)?>)(?![ \t]*["'|)\\])""", re.IGNORECASE | re.MULTILINE
)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+.-]*)[ \t]*$")
MAX_ANSWER = 1 << 19
MAX_FENCES = 20
"""Fences inside of a program, in its strings, that are looked over for its end."""
MAX_BLOCKS = 200
"""Blocks of an answer that are looked at, the last ones."""


def extract_program(text: str) -> str:
    """The program in a model's answer: of the last complete code block that has one, or the text itself.

    Raises `ProgramError` where there is no class whose name ends in `Env` outside of thinking blocks.
    """
    if len(text) > MAX_ANSWER:
        raise ProgramError(f"an answer may have at most {MAX_ANSWER} characters; this one has {len(text)}")
    said = _without_thinking(text)
    head = re.split(r"^[ \t]*(?:```|~~~)", said, maxsplit=1, flags=re.MULTILINE)[0]  # a prompt may open the block
    for candidates in (_blocks(said), [head], [said]):
        blocks = [block for block in candidates if "Env" in block and environment_classes(block)]
        complete = [block for block in blocks if is_complete(block)]
        if blocks:
            return (complete or blocks)[-1]
    raise ProgramError(
        "the answer holds no program: expected one code block with a class whose name ends in Env "
        "that defines reset() and step()"
    )


def _without_thinking(text: str) -> str:
    """What is said outside of thinking blocks; a block may have been opened in the prompt, or not be closed."""
    kept: list[str] = []
    start, inside = 0, False
    for mark in _THINKING.finditer(text):
        if mark.group("closes"):
            kept = kept if inside else []
            start, inside = mark.end(), False
        elif not inside:
            kept.append(text[start : mark.start()])
            inside = True
    return "".join(kept if inside else [*kept, text[start:]])


def _blocks(text: str) -> list[str]:
    """Contents of the fenced blocks, in order; a block ends at the first fence that leaves complete tokens."""
    lines = text.split("\n")
    marks = [(number, mark) for number, line in enumerate(lines) if (mark := _FENCE.match(line))]
    marks = marks[-2 * MAX_BLOCKS :]
    found, index = [], 0
    while index < len(marks):
        start = marks[index][0] + 1
        closing = _closing_mark(lines, marks, index)
        found.append("\n".join(lines[start : marks[closing][0] if closing is not None else len(lines)]))
        index = closing + 1 if closing is not None else len(marks)
    return found


def _closing_mark(lines: list[str], marks: list[tuple[int, re.Match[str]]], opening: int) -> int | None:
    """Which mark ends the block that a mark opens; None where none does."""
    start, fence = marks[opening][0] + 1, marks[opening][1].group(1)
    ends = [
        index
        for index in range(opening + 1, min(len(marks), opening + 1 + MAX_FENCES))
        if marks[index][1].group(1).startswith(fence) and not marks[index][1].group(2)
    ]
    complete = (index for index in ends if is_complete("\n".join(lines[start : marks[index][0]])))
    return next(complete, ends[0] if ends else None)


def is_complete(source: str) -> bool:
    """Whether brackets and strings of a text are all closed."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source + "\n").readline):
            if token.type == tokenize.ERRORTOKEN and token.string.lstrip("rRbBuUfF")[:1] in ("'", '"'):
                return False
    except (tokenize.TokenError, SyntaxError):
        return False
    return True
