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

_CLOSED_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+.-]*)[ \t]*$")
MAX_ANSWER = 1 << 20


def extract_program(text: str) -> str:
    """The program in a model's answer: of the last complete code block that has one, or the text itself.

    Raises `ProgramError` where there is no class whose name ends in `Env` outside of thinking blocks.
    """
    if len(text) > MAX_ANSWER:
        raise ProgramError(f"an answer may have at most {MAX_ANSWER} characters; this one has {len(text)}")
    said = _without_thinking(text)
    blocks = [block for block in _blocks(said) if environment_classes(block)]
    complete = [block for block in blocks if is_complete(block)]
    if complete or blocks:
        return (complete or blocks)[-1]
    if environment_classes(said):
        return said
    raise ProgramError(
        "the answer holds no program: expected one code block with a class whose name ends in Env "
        "that defines reset() and step()"
    )


def _without_thinking(text: str) -> str:
    text = _CLOSED_THINKING.sub("", text)
    closing = re.split(r"</think(?:ing)?>", text, flags=re.IGNORECASE)
    said = closing[-1]  # a template may have opened the block in the prompt
    return re.split(r"^\s*<think(?:ing)?>", said, maxsplit=1, flags=re.IGNORECASE)[0] or said


def _blocks(text: str) -> list[str]:
    """Contents of the fenced blocks, in order; a block ends at the first fence that leaves complete tokens."""
    lines = text.split("\n")
    found, index = [], 0
    while index < len(lines):
        opening = _FENCE.match(lines[index])
        if opening is None:
            index += 1
            continue
        end = _end_of_block(lines, index + 1, opening.group(1))
        found.append("\n".join(lines[index + 1 : end]))
        index = end + 1
    return found


def _end_of_block(lines: list[str], start: int, fence: str) -> int:
    ends = [
        number
        for number in range(start, len(lines))
        if (mark := _FENCE.match(lines[number])) and mark.group(1)[0] == fence[0] and len(mark.group(1)) >= len(fence)
    ]
    closing = [number for number in ends if not _FENCE.match(lines[number]).group(2)]  # type: ignore[union-attr]
    for number in closing[:20]:
        if is_complete("\n".join(lines[start:number])):
            return number
    return (closing or ends or [len(lines)])[0]


def is_complete(source: str) -> bool:
    """Whether brackets and strings of a text are all closed."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source + "\n").readline):
            if token.type == tokenize.ERRORTOKEN and token.string.lstrip("rRbBuUfF")[:1] in ("'", '"'):
                return False
    except (tokenize.TokenError, SyntaxError):
        return False
    return True
