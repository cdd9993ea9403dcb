"""A program under examination: what every stage needs, and nothing that a stage decides."""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from spade_envs.contract import Fault, Program, StepResult
from spade_envs.sandbox import Loaded, Pool

SEEDS = tuple(range(8))
"""Seeds on which a program is examined."""
COMMANDS = 8
_BOX = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_TWIN_HASH_SEED = 4_242
_twins: weakref.WeakKeyDictionary[Pool, Pool] = weakref.WeakKeyDictionary()


class Rejected(Exception):
    """What a stage found wrong; the message is written for the designer to repair from."""


class Subject:
    """A loaded program with its openings."""

    def __init__(self, program: Program, pool: Pool) -> None:
        self.program = program
        self.pool = pool
        self.loaded = pool.load(program)
        self.openings: dict[int, StepResult] = {}

    @property
    def is_tool_use(self) -> bool:
        """Whether it subclasses `ToolUseBaseEnv`."""
        return self.program.kind == "tool_use"

    @contextmanager
    def instances(self, n: int, loaded: Loaded | None = None, **keywords: Any) -> Iterator[list[int]]:
        """Ids of `n` instances, closed afterwards."""
        of = loaded or self.loaded
        ids = of.make(n, **keywords)
        try:
            yield ids
        finally:
            of.close(ids)

    def opening(self, seed: int) -> StepResult:
        """The answer to a reset from `seed`. Raises `Rejected` for a fault."""
        if seed not in self.openings:
            with self.instances(1) as ids:
                self.openings[seed] = expect(self.loaded.reset(ids, [seed])[0], f"with seed {seed}")
        return self.openings[seed]

    def commands(self, seed: int = 0) -> list[str]:
        """Contents of the boxes that an opening shows, as a player would copy them."""
        found = [found.strip() for found in _BOX.findall(self.opening(seed).observation)]
        return list(dict.fromkeys(one for one in found if one))[:COMMANDS]

    def solutions(self, seeds: Sequence[int] = SEEDS) -> list[str | None]:
        """What the program says its solution is, right after the reset from each seed; None where it says nothing."""
        if not self.loaded.has_solution:
            return [None] * len(seeds)
        with self.instances(len(seeds)) as ids:
            self.loaded.reset(ids, list(seeds))
            return [None if isinstance(one, Fault) else one for one in self.loaded.solution(ids)]

    def play(
        self, seeds: Sequence[int], actions: Sequence[Sequence[str]], turns: int, loaded: Loaded | None = None
    ) -> list[list[StepResult | Fault]]:
        """Trajectories, one for each seed: the opening, then the answer to each of its actions, until it is over."""
        of = loaded or self.loaded
        with self.instances(len(seeds), of) as ids:
            trajectories = [[answer] for answer in of.reset(ids, list(seeds))]
            for turn in range(turns):
                going = [
                    i for i, one in enumerate(trajectories) if not is_over(one[-1]) and turn < len(actions[i])
                ]
                if not going:
                    break
                answers = of.step([ids[i] for i in going], [actions[i][turn] for i in going])
                for i, answer in zip(going, answers, strict=True):
                    trajectories[i].append(answer)
        return trajectories

    def twin(self) -> Loaded | None:
        """The same program in a process with another hash seed; None in a trusted pool, which has no processes."""
        if self.pool.trusted:
            return None
        twin = _twins.get(self.pool)
        if twin is None:
            twin = Pool(self.pool.max_workers, self.pool.limits, extras=self.pool.extras, hash_seed=_TWIN_HASH_SEED)
            _twins[self.pool] = twin
            weakref.finalize(self.pool, twin.close)
        return twin.load(self.program)


def is_over(answer: StepResult | Fault) -> bool:
    """Whether nothing can follow an answer."""
    return isinstance(answer, Fault) or answer.terminated or answer.truncated


def expect(answer: StepResult | Fault, when: str) -> StepResult:
    """The answer, if it is one. Raises `Rejected` with what the program did and when."""
    if isinstance(answer, Fault):
        raise Rejected(f"{answer.message} ({when})")
    return answer


def box(text: str) -> str:
    r"""A move as a player writes it; one that is boxed already stays as it is."""
    return text if "\\boxed" in text else f"\\boxed{{{text.strip()}}}"


def unboxed(text: str) -> str:
    """What a solution says, without the box or the answer tag around it."""
    found = _BOX.findall(text) or re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return (found[-1] if found else text).strip()


def replays(program: Program, solution: str, tools: Sequence[Mapping[str, Any]] = ()) -> list[list[str]]:
    """Ways to play a solution, the most literal first; a description gives ways that lead nowhere."""
    lines = [line.strip() for line in solution.split("\n") if line.strip()]
    if not lines:
        return []
    if program.kind == "tool_use":
        calls = _tool_calls(solution, tools)
        return [way for way in ([*lines] if _is_protocol(lines) else [], calls) if way]
    ways = [[box(line) for line in lines], [box(solution)]]
    moves = [move.strip() for move in re.split(r"[,;\n]|->", solution) if move.strip()]
    if len(moves) > 1 and "\\boxed" not in solution:
        ways.append([box(move) for move in moves])
    ways.append([solution])
    unique = {tuple(way): way for way in ways}
    return list(unique.values())


def is_explicit(program: Program, solution: str) -> bool:
    """Whether a solution is written as actions, so that it must win when it is replayed."""
    lines = [line.strip() for line in solution.split("\n") if line.strip()]
    if program.kind == "tool_use":
        return _is_protocol(lines)
    return bool(lines) and all("\\boxed{" in line for line in lines)


def _is_protocol(lines: Sequence[str]) -> bool:
    return bool(lines) and all(re.match(r"<tool_call>|<answer>", line) for line in lines)


def _tool_calls(solution: str, tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Calls written as Python, `name(key=value); ...`, and the answer after them, in the protocol's form."""
    import ast

    order = {
        str(tool["function"]["name"]): list(tool["function"].get("parameters", {}).get("properties", {}))
        for tool in tools
    }
    actions: list[str] = []
    for answer in re.findall(r"<answer>.*?</answer>", solution, re.DOTALL):
        solution = solution.replace(answer, "")
        actions.append(answer)
    calls: list[str] = []
    for piece in re.split(r"[;\n]", solution):
        with suppress(SyntaxError, ValueError, TypeError):
            node = ast.parse(piece.strip(), mode="eval").body
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in order:
                names = order[node.func.id]
                arguments = {name: ast.literal_eval(value) for name, value in zip(names, node.args, strict=False)}
                arguments |= {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
                calls.append(f"<tool_call>{json.dumps({'name': node.func.id, 'arguments': arguments})}</tool_call>")
    return calls + actions[-1:]
