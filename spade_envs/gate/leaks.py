"""Does a program show its solution before it is earned?

A right answer may be among the things that are shown (one of four colours, the largest of five numbers). It leaks
where it stands at the same place for every seed: that place is then the answer. Shown are the opening, with its info,
and the replies to actions that earn nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from spade_envs.contract import StepResult
from spade_envs.gate.actions import box, final_answer, moves
from spade_envs.gate.subject import Rejected, Subject, is_over, is_won
from spade_envs.gate.wording import short

LEAK_SEEDS = tuple(range(16))
IDLE = (("an empty action", ""), ("a wrong answer", box("no such answer")), ("prose", "I do not know."))
MAX_TOKENS = 4000
MAX_ANSWER = 400
MAX_COPIES = 60
_TOKEN = re.compile(r"\w+|[^\w\s]")
ADVICE = "Keep the answer out of observations and info until it is earned"

Views = list[tuple[int, str]]
"""What is shown to the player with each seed."""


def leak_stage(subject: Subject) -> list[str]:
    """Neither the opening nor the replies to idle actions print the solution."""
    answers = [one or "" for one in subject.solutions(LEAK_SEEDS)]
    views = list(_views(subject))
    for where, view in views:
        for piece in (_all_moves, _whole, _last_word):
            _check(where, view, {seed: piece(answers[seed]) for seed, _ in view})
    _check_copies(subject, dict(views[0][1]))
    return []


def shows_solution(subject: Subject) -> bool:
    """Whether `leak_stage` would refuse a program."""
    try:
        leak_stage(subject)
    except Rejected:
        return True
    return False


def _whole(solution: str) -> str:
    return final_answer(solution)[:MAX_ANSWER]


def _last_word(solution: str) -> str:
    return (final_answer(solution)[:MAX_ANSWER].split() or [""])[-1]


def _all_moves(solution: str) -> str:
    named = moves(solution)
    return " ".join(named)[:MAX_ANSWER] if len(named) > 1 else ""


def _views(subject: Subject) -> Iterator[tuple[str, Views]]:
    """Where something is shown, and what, for each seed whose episode goes on."""
    openings = subject.open(LEAK_SEEDS)
    yield "the opening", [(seed, shown(one)) for seed, one in zip(LEAK_SEEDS, openings, strict=True)]
    actions = [action for _, action in IDLE]
    played = subject.play(list(LEAK_SEEDS), [actions] * len(LEAK_SEEDS))
    for turn, (name, action) in enumerate(IDLE, start=1):
        view = [
            (seed, shown(trajectory[turn]))  # type: ignore[arg-type]
            for seed, trajectory in zip(LEAK_SEEDS, played, strict=True)
            if len(trajectory) > turn and not is_over(trajectory[turn])
        ]
        yield f"the reply to {name}, {action!r}, in turn {turn}", view


def shown(answer: StepResult) -> str:
    """What a player, or whoever records its episodes, sees."""
    info = {name: value for name, value in answer.info.items() if name != "tools"}
    return answer.observation + ("\n" + json.dumps(info, ensure_ascii=False) if info else "")


def _check(where: str, view: Views, pieces: dict[int, str]) -> None:
    known = [(seed, text, pieces[seed]) for seed, text in view if pieces[seed]]
    kinds = [piece for _, _, piece in known]
    if len(known) < len(LEAK_SEEDS) // 2 or len(kinds) - max(map(kinds.count, kinds)) < 2:
        return  # too few answers, or always the same one: nothing to tell a place by
    seed, text, piece = known[0]
    first = _places(_tokens(text), _tokens(piece))
    common = set(first)
    for _, other, wanted in known[1:]:
        common &= set(_places(_tokens(other), _tokens(wanted))) if common else set()
    if common:
        excerpt = _excerpt(text, min(first[place] for place in common))
        raise Rejected(
            f"{where} gives the solution away: with seed {seed} the answer is {short(piece)!r}, and it shows "
            f"{excerpt!r}; the answer stands at that place with every seed. {ADVICE}"
        )


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())[:MAX_TOKENS]


def _excerpt(text: str, token: int) -> str:
    """The text around a token."""
    found = list(_TOKEN.finditer(text))[token]
    start, end = max(0, found.start() - 30), min(len(text), found.end() + 20)
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")


def _places(tokens: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
    """Where an answer stands (its number from the front, from the back, two words before it that are unique), and the
    number of its first token there.
    """
    found: dict[str, int] = {}
    pairs = Counter(pairwise(tokens))
    width = len(wanted)
    for i in range(len(tokens) - width + 1) if wanted else ():
        if tokens[i] == wanted[0] and list(tokens[i : i + width]) == list(wanted):
            found[f"{i} from the start"] = found[f"{len(tokens) - i} from the end"] = i
            if i >= 2 and pairs[tokens[i - 2], tokens[i - 1]] == 1:
                found[f"after {' '.join(tokens[i - 2 : i])}"] = i
    return found


def _check_copies(subject: Subject, openings: dict[int, str]) -> None:
    """No place of the opening is an answer that wins at once when it is copied: that needs no `solution()`."""
    words = {seed: re.findall(r"[\w.-]*\w", text)[:MAX_TOKENS] for seed, text in openings.items()}
    wanted = subject.affordable(MAX_COPIES, len(LEAK_SEEDS), 0.3, least=4)
    for place, copy in _varying(words, wanted):
        if subject.is_tool_use:
            return
        wins = 0
        for some in (LEAK_SEEDS[:2], LEAK_SEEDS[2:]):
            actions = [[box(copy(words[seed]))] for seed in some]
            wins += sum(is_won(one[-1]) for one in subject.play(list(some), actions))
            if wins < 2:
                break
        if wins == len(LEAK_SEEDS):
            word = copy(words[0])
            found = f"{place}, which is {short(word)!r} with seed 0"
            raise Rejected(f"copying a word of the opening wins with every seed: {found}. {ADVICE}")


def _varying(words: dict[int, list[str]], limit: int) -> Iterator[tuple[str, Callable[[list[str]], str]]]:
    """Places, from the front and from the back, whose word changes with the seed."""
    shortest = min(map(len, words.values()), default=0)
    found = 0
    for number in range(1, shortest + 1):
        for place, index in ((f"word {number}", number - 1), (f"word {number} from the end", -number)):
            if len({texts[index] for texts in words.values()}) > 2 and found < limit:
                found += 1
                yield place, lambda texts, index=index: texts[index]  # type: ignore[misc]
