"""Does a hint contain the answer? Then the designer would earn regret for a task that nobody can solve."""

from __future__ import annotations

import re

from spade_envs.contract import Program
from spade_envs.gate.actions import final_answer
from spade_envs.gate.subject import SEEDS, Subject
from spade_envs.sandbox import Pool, default_pool

SHARE = 0.5
"""Share of the seeds whose answer a hint may not reach."""
LEAST = 3
"""Characters of an answer that are no coincidence in a hint."""


def hint_leaks(source: Program | str, hint: str, *, pool: Pool | None = None) -> str | None:
    """Why a hint must not be shown, or None.

    A hint is one text for all seeds. It leaks where it holds the final answer of at least half of the seeds although
    their openings do not show it: a constant answer spelled out, or a table of answers. Single letters and digits
    that a hint mentions by the way count only where every seed has the same answer.

    Raises `ProgramError` where the program cannot be loaded.
    """
    program = source if isinstance(source, Program) else Program.from_source(source)
    return find_leak(Subject(program, pool or default_pool()), hint)


def find_leak(subject: Subject, hint: str) -> str | None:
    """`hint_leaks` of a program that is loaded already."""
    answers = [final_answer(one) if one else None for one in subject.solutions()]
    known = [(seed, answer) for seed, answer in zip(SEEDS, answers, strict=True) if answer]
    if not known:
        return None
    constant = len({answer for _, answer in known}) == 1
    given = [
        answer
        for seed, answer in known
        if (constant or len(answer) >= LEAST)
        and _holds(hint, answer)
        and not _holds(subject.opening(seed).observation, answer)
    ]
    if len(given) >= max(1.0, SHARE * len(known)):
        return f"the hint contains the answer itself, {given[0][:60]!r}: describe the way to it instead"
    return None


def _holds(text: str, answer: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(answer.lower())}(?!\w)", text.lower()) is not None
