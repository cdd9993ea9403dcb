"""The stages of the gate that play a program, in order. Each is a function of a `Subject`.

A stage returns its warnings, and raises `Rejected` with a message that says what was done, what came, and what was
expected. It runs nothing of the program outside of a sealed worker.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from spade_envs.contract import Fault, StepResult
from spade_envs.gate.actions import box, is_explicit, replays
from spade_envs.gate.cheating import free_win_stage
from spade_envs.gate.leaks import leak_stage
from spade_envs.gate.subject import (
    SEEDS,
    SLOW_CALL_SECONDS,
    Rejected,
    Subject,
    TooCostly,
    expect,
    is_over,
    is_won,
)
from spade_envs.gate.toolcheck import tool_schema_stage
from spade_envs.gate.wording import short

IDLE_TURNS = 200
"""Turns within which a program without a `max_turns` of its own must end; a longer `max_turns` is set to this."""
PROBE_TURNS = 6
TRAJECTORY_TURNS = 64
TRAJECTORY_SECONDS = 0.3
COST_STEPS = 7
REPLAY_SEEDS = SEEDS[:4]
REWARD_SLACK = 1e-9

PROSE = "I am not sure yet. Let me think about the rules before I choose."
PROBES: tuple[tuple[str, str], ...] = (
    ("an empty action", ""),
    ("prose without a box", PROSE),
    ("a number without a box", "42"),
    ("a boxed number", "\\boxed{7}"),
    ("a boxed negative number", "\\boxed{-3.5}"),
    ("a boxed word", "\\boxed{north}"),
    ("two boxed words", "\\boxed{open door}"),
    ("a boxed list", "\\boxed{1, 2, 3}"),
    ("an empty box", "\\boxed{}"),
    ("an open box", "\\boxed{go"),
    ("nested braces", "{{}} }{ \\boxed{\\frac{1}{2}}"),
    ("Unicode", "\\boxed{żółć 漢字 ٣ 🙂}"),
    ("a line break and a null", "\\boxed{a\nb\x00c}"),
    ("100,000 characters", "x" * 100_000),
    ("a box of 2,000 digits", "\\boxed{" + "9" * 2000 + "}"),
    ("a tool call with bad JSON", '<tool_call>{"name": "look", "arguments": {</tool_call>'),
    ("a call of an unknown tool", '<tool_call>{"name": "no_such_tool", "arguments": {"a": [1]}}</tool_call>'),
    ("a call that is a list", "<tool_call>[1, null]</tool_call>"),
    ("an answer tag", "<answer>nothing</answer>"),
)


def reset_stage(subject: Subject) -> list[str]:
    """Every seed opens, with a briefing that is not empty."""
    for seed, opening in zip(SEEDS, subject.open(SEEDS), strict=True):
        if not opening.observation.strip():
            raise Rejected(
                f"reset(seed={seed}) returned an empty observation; it must return (observation, info) with a briefing "
                "that states the rules, the goal and the form of an answer"
            )
    return []


def step_stage(subject: Subject) -> list[str]:
    """No action, however odd, breaks the program; rewards lie in [-1, 1]."""
    probes = [*PROBES, *((f"the command {one!r} after the briefing", box(one)) for one in subject.tries())]
    n = len(probes)
    turns = subject.affordable(PROBE_TURNS, n, 1.0, least=2)
    # Each instance starts with another probe and goes on with the ones after it.
    actions = [[probes[(i + turn) % n][1] for turn in range(turns)] for i in range(n)]
    for i, trajectory in enumerate(subject.play([SEEDS[i % 2] for i in range(n)], actions)):
        for turn, answer in enumerate(trajectory[1:]):
            name, action = probes[(i + turn) % n]
            when = f"the action was {name}, {short(action)!r}, in turn {turn + 1}"
            _check_reward(expect(answer, when), when)
    _check_solution_path(subject)
    return []


def _check_solution_path(subject: Subject) -> None:
    """Results and rewards are right on the way to the win, too."""
    for seed in SEEDS[:2]:
        actions = (_ways(subject, seed) or [[]])[0]
        for turn, answer in enumerate(subject.play([seed], [actions])[0][1:]):
            when = f"replaying solution() with seed {seed}, action {short(actions[turn])!r} in turn {turn + 1}"
            _check_reward(expect(answer, when), when)


def _ways(subject: Subject, seed: int) -> list[list[str]]:
    """Ways to play the solution of a seed."""
    solution = subject.solutions([seed])[0]
    tools = subject.opening(seed).info.get("tools") or ()
    return replays(subject.program, solution, tools, subject.commands(seed)) if solution else []


def _check_reward(answer: StepResult, when: str) -> None:
    if not -1 - REWARD_SLACK <= answer.reward <= 1 + REWARD_SLACK:
        raise Rejected(
            f"a reward must lie in [-1, 1], but step() returned {answer.reward:g} ({when}). Give 1.0 for the win, "
            "with terminated=True, and less than 0.5 for progress on the way"
        )


def turns_stage(subject: Subject) -> list[str]:
    """An episode ends by itself: within the program's own `max_turns`, whatever is played."""
    own = subject.loaded.max_turns
    limit = min(own or IDLE_TURNS, IDLE_TURNS)
    keywords: dict[str, Any] = {"max_turns": limit} if own and own > limit else {}
    commands = [box(one) for one in subject.commands()] or [box("1")]
    policies = {f"the action {PROSE!r}": [PROSE], "the commands of the briefing": commands}
    lengths = []
    for name, moves in policies.items():
        actions = [moves[turn % len(moves)] for turn in range(limit + 1)]
        trajectory = subject.play([SEEDS[0]], [actions], **keywords)[0]
        for turn, answer in enumerate(trajectory[1:], start=1):
            _check_reward(expect(answer, f"in turn {turn} of playing {name}"), f"in turn {turn} of playing {name}")
        if not is_over(trajectory[-1]):
            what = f"max_turns is {limit}" if own else "__init__ has no max_turns"
            raise Rejected(
                f"the episode did not end: after {len(trajectory) - 1} turns of {name} neither terminated nor "
                f"truncated was True, though {what}. Count turns in step(), and return truncated=True once they reach "
                "max_turns"
            )
        lengths.append(len(trajectory) - 1)
    return [] if own else [f"__init__ has no max_turns; an idle player's episode lasted {max(lengths)} turns"]


def determinism_stage(subject: Subject) -> list[str]:
    """One seed and one sequence of actions give one trajectory: beside others, and in another process."""
    scripts = _scripts(subject)
    warnings = _clock(subject.program.source)
    for number, script in enumerate(scripts):
        others = len(SEEDS) - 1 if number == 0 else 1
        together = subject.play([0, *SEEDS[1 : others + 1], 0], [script] * (others + 2))
        first, second = together[0], together[-1]
        _same(first, second, script, "two instances with seed 0 that are played in turn")
        alone = subject.play([0], [script])[0]
        _same(first, alone, script, "an instance with seed 0 beside others, and one alone,")
        twin = subject.twin()
        if twin is not None:
            _same(first, subject.play([0], [script], twin)[0], script, "two processes with seed 0")
        if number == 0 and all(other == first for other in together) and len(set(subject.solutions())) == 1:
            warnings.append("different seeds changed nothing that was seen; draw the task from random.Random(seed)")
    return warnings


def _scripts(subject: Subject) -> list[list[str]]:
    """Whole episodes to compare: the briefing's commands and odd actions in turn, and the solution."""
    turns = min(subject.loaded.max_turns or TRAJECTORY_TURNS, TRAJECTORY_TURNS)
    turns = subject.affordable(turns, 2 * len(SEEDS), TRAJECTORY_SECONDS, least=6)
    moves = [*(box(one) for one in subject.tries()), box("50"), PROSE, box("1"), box("a"), ""]
    scripts = [[moves[turn % len(moves)] for turn in range(turns)]]
    return scripts + [way[:TRAJECTORY_TURNS] for way in _ways(subject, 0)[:1]]


def _clock(source: str) -> list[str]:
    for number, line in enumerate(source.split("\n"), start=1):
        code = line.partition("#")[0]
        found = re.search(
            r"\b(time\.(time|monotonic|perf_counter)(_ns)?|datetime\.(now|utcnow|today)|date\.today)\(", code
        )
        if found:
            return [f"line {number} reads the clock ({found.group(1)}): what depends on it cannot be replayed"]
    return []


def _same(
    one: Sequence[StepResult | Fault], two: Sequence[StepResult | Fault], actions: Sequence[str], who: str
) -> None:
    for turn, (left, right) in enumerate(zip(one, two, strict=False)):
        if left == right:
            continue
        where = "reset()" if turn == 0 else f"step() number {turn}, action {short(actions[turn - 1])!r}"
        raise Rejected(
            f"{who} differ at {where}: {_difference(left, right)}. Draw everything from self.rng = "
            "random.Random(seed), made in reset(); no SystemRandom, no secrets, no uuid4, no clock, no id() or hash(), "
            "and sort a set before you draw from it or print it"
        )


def _difference(left: StepResult | Fault, right: StepResult | Fault) -> str:
    if isinstance(left, Fault) or isinstance(right, Fault):
        return f"{_told(left)} and {_told(right)}"
    for name in ("observation", "reward", "terminated", "truncated", "info"):
        a, b = getattr(left, name), getattr(right, name)
        if a != b:
            return f"{name} {_around(str(a), str(b))!r} and {_around(str(b), str(a))!r}"
    return "they compare unequal"


def _told(answer: StepResult | Fault) -> str:
    return (
        f"the failure {answer.message!r}"
        if isinstance(answer, Fault)
        else f"the observation {short(answer.observation)!r}"
    )


def _around(text: str, other: str) -> str:
    """The part of a text where it begins to differ from another."""
    same = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    start = max(0, same - 20)
    return ("..." if start else "") + short(text[start:], 60)


def solvable_stage(subject: Subject) -> list[str]:
    """Where `solution()` can be replayed it wins, on every seed that is tried."""
    seeds = list(REPLAY_SEEDS)
    solutions = subject.solutions(seeds)
    if all(one is None for one in solutions):
        return ["solvable: unknown, the program has no solution()"]
    won = [_replayed(subject, seed, one) for seed, one in zip(seeds, solutions, strict=True)]
    if all(won):
        return []
    seed = seeds[won.index(False)]
    solution = solutions[won.index(False)]
    shown = "None" if solution is None else repr(short(solution, 200))
    explicit = all(one is not None and is_explicit(subject.program, one) for one in solutions)
    verdict = None if solution is None or any(won) or explicit else _verdict(subject, seed, solution)
    if not explicit and not any(won) and verdict is None:
        return [f"solvable: unknown, solution() could not be replayed; with seed {seed} it is {shown}"]
    said = verdict or _reply(subject, seed)
    raise Rejected(
        f"replaying solution() does not win with seed {seed}: it is {shown}, and {said}. solution() must return what "
        "wins the current instance: the exact answer, or the actions in order, one per line, each in \\boxed{}; and "
        "step() must then return reward 1.0 and terminated=True"
    )


def _replayed(subject: Subject, seed: int, solution: str | None) -> bool:
    """Whether a solution wins, in one of the ways in which it may be meant."""
    if solution is None:
        return False
    won = any(is_won(subject.play([seed], [way])[0][-1]) for way in _ways(subject, seed))
    return won or _won_by_asking(subject, seed)


def _won_by_asking(subject: Subject, seed: int) -> bool:
    """Whether asking `solution()` again in every turn wins: some programs return the next action."""
    with subject.instances(1) as ids:
        answer = subject.reset(ids, [seed])[0]
        said: list[str] = []
        while not is_over(answer) and len(said) < TRAJECTORY_TURNS:
            text = subject.loaded.solution(ids)[0]
            if not isinstance(text, str) or (len(said) == 1 and text == said[0]):
                return False
            said.append(text)
            answer = subject.step(ids, [box(text)])[0]
    return is_won(answer)


def _verdict(subject: Subject, seed: int, solution: str) -> str | None:
    """What the program replied to an exact answer that it took as final and as wrong; None where it did not."""
    if "\n" in solution.strip() or len(solution) > 60:
        return None
    answer = subject.play([seed], [[box(solution)]])[0][-1]
    nonsense = subject.play([seed], [[box("no such answer")]])[0][-1]
    if isinstance(answer, Fault) or not answer.terminated or is_won(answer):
        return None
    if not isinstance(nonsense, Fault) and nonsense.terminated and " " in solution.strip():
        return None  # every reply ends the episode, and the solution may be a description
    return f"the reply to {short(box(solution))!r} is {short(answer.observation, 120)!r} with reward {answer.reward:g}"


def _reply(subject: Subject, seed: int) -> str:
    ways = _ways(subject, seed)
    if not ways:
        return "it names no action"
    last = subject.play([seed], [ways[0]])[0][-1]
    if isinstance(last, Fault):
        return f"the replay failed: {last.message}"
    return (
        f"the last reply is {short(last.observation, 120)!r} with reward {last.reward:g}, terminated={last.terminated}"
    )


def cost_stage(subject: Subject) -> list[str]:
    """The median step takes at most 50 ms of processor time."""
    median = _median_step(subject)
    if median > SLOW_CALL_SECONDS:
        raise TooCostly(
            f"the median step took {1000 * median:.0f} ms; at most {1000 * SLOW_CALL_SECONDS:.0f} ms are allowed. "
            "Search less, and compute what does not change only once, in reset()"
        )
    return []


def _median_step(subject: Subject) -> float:
    moves = [box(one) for one in subject.commands()] or [box("1")]
    seconds = []
    with subject.instances(1) as ids:
        answer = subject.reset(ids, [0])[0]
        for turn in range(COST_STEPS):
            if is_over(answer):
                answer = subject.reset(ids, [turn])[0]
            before = subject.loaded.processor_seconds
            answer = subject.step(ids, [moves[turn % len(moves)]])[0]
            seconds.append(subject.loaded.processor_seconds - before)
    return statistics.median(seconds)


STAGES: dict[str, Callable[[Subject], list[str]]] = {
    "reset": reset_stage,
    "step": step_stage,
    "turns": turns_stage,
    "determinism": determinism_stage,
    "no_free_win": free_win_stage,
    "leak": leak_stage,
    "tool_schema": tool_schema_stage,
    "solvable": solvable_stage,
    "cost": cost_stage,
}
"""The stages that play, in order; `tool_schema` is for tool-use programs only."""
EXTENT = ("extract", "repair", "parse", "policy", "load", *STAGES)
"""Names of all stages, in order."""
