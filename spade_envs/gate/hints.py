"""Does a hint contain the answer? Then the designer would earn regret for a task that nobody can solve."""

from __future__ import annotations

import re
from collections.abc import Callable

from spade_envs.contract import Program
from spade_envs.gate.actions import final_answer, moves
from spade_envs.gate.subject import SEEDS, Rejected, Subject
from spade_envs.sandbox import Pool, default_pool

SHARE = 0.5
"""Share of the seeds whose answer a hint may not reach."""
LEAST = 3
"""Characters of an answer that are no coincidence in a hint."""


def hint_leaks(source: Program | str, hint: str, *, pool: Pool | None = None) -> str | None:
    """Why a hint must not be shown, or None.

    A hint is one text for all seeds. It leaks where it holds the answer, or the whole sequence of moves, of at least
    half of the seeds although their openings do not show it: a constant answer spelled out, or a table of answers.
    Single letters and digits that a hint mentions by the way count only where every seed has the same answer.

    Raises `ProgramError` where the program cannot be loaded.
    """
    program = source if isinstance(source, Program) else Program.from_source(source)
    try:
        return find_leak(Subject(program, pool or default_pool()), hint)
    except Rejected as error:
        return f"the hint cannot be compared with the solution: {error}"


def find_leak(subject: Subject, hint: str) -> str | None:
    """`hint_leaks` of a program that is loaded already. Raises `Rejected` where `solution()` fails."""
    solutions = [one or "" for one in subject.solutions()]
    for piece in (final_answer, _sequence):
        found = _given(subject, hint, solutions, piece)
        if found is not None:
            return f"the hint contains the answer itself, {found[:60]!r}: describe the way to it instead"
    return None


def _sequence(solution: str) -> str:
    named = moves(solution)
    return " ".join(named) if len(named) > 1 else ""


def _given(subject: Subject, hint: str, solutions: list[str], piece: Callable[[str], str]) -> str | None:
    """The first answer that a hint gives away, if it does so for enough seeds."""
    answers = [piece(one) for one in solutions]
    known = [(seed, answer) for seed, answer in zip(SEEDS, answers, strict=True) if answer]
    constant = len(set(answers)) == 1
    if not known or (constant and subject.is_tool_use and piece is final_answer):
        return None  # `done` after the work is no secret; the calls before it are
    given = [
        answer
        for seed, answer in known
        if (constant or len(answer) >= LEAST)
        and _holds(hint, answer)
        and not _holds(subject.opening(seed).observation, answer)
    ]
    return given[0] if len(given) >= max(1.0, SHARE * len(known)) else None


def _holds(text: str, answer: str) -> bool:
    """Whether the words of an answer stand in a text one after the other, whatever is between them but words."""
    words = re.findall(r"\w+", answer.lower()) or [answer.lower()]
    return re.search(r"(?<!\w)" + r"[^\w]{1,12}".join(map(re.escape, words)) + r"(?!\w)", text.lower()) is not None
