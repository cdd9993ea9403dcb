r"""Actions as players write them, and solutions as programs write them.

A solution is the exact answer, a sequence of actions, or a description. `replays` lists the ways in which a text may
be meant, so that one that can be played is played. All of it reads untrusted text: nothing here is slower than linear
but for small pieces of bounded size and depth.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from spade_envs.contract import Program

COMMANDS = 8
"""Commands of an opening that are tried."""
MAX_MOVES = 400
_BOX = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_PIECE = 4000
_DEPTH = 12
_CALL = re.compile(r"([A-Za-z_]\w*)\(")

Tools = Sequence[Mapping[str, Any]]


def box(text: str) -> str:
    r"""A move as a player writes it; one that is boxed already stays as it is."""
    return text if "\\boxed" in text else f"\\boxed{{{text.strip()}}}"


def boxes(text: str) -> list[str]:
    """Contents of the boxes in a text, each once, in order."""
    found = (one.strip() for one in _BOX.findall(text))
    return list(dict.fromkeys(one for one in found if one))


def moves(solution: str) -> list[str]:
    """The moves that a solution names, without boxes and answer tags."""
    return boxes(solution) or _answers(solution) or [line.strip() for line in solution.split("\n") if line.strip()]


def final_answer(solution: str) -> str:
    """The last move of a solution: where it is an exact answer, that answer."""
    named = _answers(solution)[-1:] or moves(solution)[-1:]
    return named[0] if named else ""


def _answers(text: str) -> list[str]:
    parts = text.split("<answer>")[1:]
    return [one.partition("</answer>")[0].strip() for one in parts if "</answer>" in one]


def is_explicit(program: Program, solution: str) -> bool:
    """Whether a solution is written as actions, so that it must win when it is replayed."""
    lines = [line.strip() for line in solution.split("\n") if line.strip()]
    if program.kind == "tool_use":
        return _is_protocol(lines)
    return bool(lines) and all("\\boxed{" in line for line in lines)


def replays(program: Program, solution: str, tools: Tools = (), commands: Sequence[str] = ()) -> list[list[str]]:
    """Ways to play a solution, the most literal first; a description gives ways that lead nowhere.

    `commands` are those that the opening shows: an answer `amber` may have to be played as `guess amber`.
    """
    lines = [line.strip() for line in solution.split("\n") if line.strip()][:MAX_MOVES]
    if not lines:
        return []
    if program.kind == "tool_use":
        calls = tool_calls(solution, tools)
        return [way for way in (lines if _is_protocol(lines) else [], calls) if way]
    ways = [[box(line) for line in lines], [box(solution)]]
    if "\\boxed" not in solution:
        named = [move.strip() for move in re.split(r"[,;\n]|->", solution) if move.strip()][:MAX_MOVES]
        ways += [[box(move) for move in named]] if len(named) > 1 else []
        verbs = dict.fromkeys(command.rpartition(" ")[0] for command in commands if " " in command)
        ways += [[box(f"{verb} {solution.strip()}")] for verb in verbs]
    ways.append([solution])
    unique = {tuple(way): way for way in ways}
    return list(unique.values())


def _is_protocol(lines: Sequence[str]) -> bool:
    return bool(lines) and all(line.startswith(("<tool_call>", "<answer>")) for line in lines)


def tool_calls(solution: str, tools: Tools) -> list[str]:
    """Calls written as Python, `name(key=value); ...`, and the answer after them, in the protocol's form."""
    order = {name: list(schema.get("properties") or {}) for name, schema in schemas(tools).items()}
    calls: list[str] = []
    for piece in _python_calls(solution, order):
        with suppress(SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            node = ast.parse(piece, mode="eval").body
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names = order[node.func.id]
                arguments = {name: ast.literal_eval(value) for name, value in zip(names, node.args, strict=False)}
                arguments |= {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
                calls.append(tool_call(node.func.id, arguments))
    return calls[:MAX_MOVES] + [f"<answer>{answer}</answer>" for answer in _answers(solution)[-1:]]


def schemas(tools: Tools) -> dict[str, dict[str, Any]]:
    """Name and parameters of each tool, as far as they are what they should be."""
    found: dict[str, dict[str, Any]] = {}
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("parameters"), Mapping):
            found[str(function.get("name"))] = dict(function["parameters"])
    return found


def tool_call(name: str, arguments: Mapping[str, Any]) -> str:
    """A call in the protocol's form."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def _python_calls(text: str, names: Mapping[str, Any]) -> Iterator[str]:
    """The texts of calls of known tools, small and shallow enough to be parsed here."""
    position = 0
    while found := _CALL.search(text, position):
        end = _closing(text, found.end())
        if found.group(1) in names and end is not None:
            yield text[found.start() : end]
            position = end
        else:
            position = found.end()


def _closing(text: str, start: int) -> int | None:
    """Where the call whose arguments start here ends, if it is not too long or too deep."""
    depth, quote, position = 1, "", start
    while position < min(len(text), start + _PIECE):
        character = text[position]
        if quote:
            position += character == "\\"
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
            if depth == 0:
                return position + 1
            if depth > _DEPTH:
                return None
        position += 1
    return None
