"""The stage for tool-use programs: do schemas, methods and criteria fit, and do the tools lead to a win?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema

from spade_envs.contract import Fault
from spade_envs.gate.actions import Tools, replays, schemas, tool_call
from spade_envs.gate.subject import SEEDS, Rejected, Subject, is_over, is_won
from spade_envs.gate.wording import short

PATH_SEEDS = SEEDS[:4]
MAX_TOOLS = 40
_EXAMPLES: dict[str, Any] = {
    "string": "nothing",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


def tool_schema_stage(subject: Subject) -> list[str]:
    """Schemas and methods agree, criteria can be asked and are open at reset, and the tools lead to a win."""
    facts = _facts(subject)
    for seed, opening in zip(SEEDS, subject.open(SEEDS), strict=True):
        _check_tools(opening.info.get("tools") or (), seed)
    mismatches = list(dict.fromkeys(one for fact in facts for one in fact["mismatches"]))
    if mismatches:
        raise Rejected("schemas and methods disagree: " + "; ".join(mismatches))
    warnings = _check_criteria([fact["criteria"] for fact in facts], [int(fact["messages"]) for fact in facts])
    return [*warnings, *_check_path(subject), *_failing_tools(subject)]


def _facts(subject: Subject) -> list[dict[str, Any]]:
    with subject.instances(len(SEEDS)) as ids:
        subject.reset(ids, SEEDS)
        answers = subject.loaded.inspect(ids)
    facts = []
    for seed, answer in zip(SEEDS, answers, strict=True):
        if isinstance(answer, Fault) or answer is None:
            raise Rejected(f"{answer.message if answer else 'the tools cannot be read'} (after reset(seed={seed}))")
        facts.append(json.loads(answer))
    return facts


def _check_tools(tools: Tools, seed: int) -> None:
    if not tools:
        raise Rejected(
            f"self._tools is empty after reset(seed={seed}); set it in reset() to a dict of tool name -> "
            '{"description": ..., "parameters": {"type": "object", "properties": {...}, "required": [...]}}'
        )
    found = schemas(tools)
    for tool in tools:
        name = tool["function"]["name"]
        if name not in found:
            raise Rejected(
                f"tool {name!r}: parameters must be a JSON schema, a dict with type, properties and required"
            )
        _check_schema(name, found[name])


def _check_schema(name: str, schema: Mapping[str, Any]) -> None:
    try:
        jsonschema.Draft202012Validator.check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        where = "".join(f"[{part!r}]" for part in error.absolute_path)
        raise Rejected(
            f"tool {name!r}: parameters{where} is no valid JSON schema: {short(error.message, 200)}"
        ) from None
    if schema.get("type", "object") != "object":
        raise Rejected(f"tool {name!r}: parameters must have the type 'object', not {schema['type']!r}")
    undeclared = [one for one in schema.get("required") or [] if one not in (schema.get("properties") or {})]
    if undeclared:
        raise Rejected(f"tool {name!r}: required names {undeclared}, which properties does not declare")


def _check_criteria(by_seed: Sequence[Sequence[bool | str]], messages: Sequence[int]) -> list[str]:
    for place in range(max(map(len, by_seed), default=0)):
        values = [one[place] for one in by_seed if len(one) > place]
        if all(isinstance(one, str) for one in values):
            raise Rejected(
                f"criterion {place + 1} of _message_criteria raises on every seed right after reset(): {values[0]}. A "
                "criterion is called with self._state at any time; use state.get(key, default)"
            )
    done = [bool(criteria) and all(one is True for one in criteria) for criteria in by_seed]
    if all(done):
        raise Rejected("every criterion of _message_criteria is true right after reset(): there is nothing to do")
    warnings = [f"with seed {SEEDS[done.index(True)]} every criterion is true right after reset()"] if any(done) else []
    counts = {(len(criteria), count) for criteria, count in zip(by_seed, messages, strict=True)}
    uneven = [(criteria, count) for criteria, count in counts if criteria and count and criteria != count]
    if uneven:
        warnings.append(
            f"{uneven[0][1]} instructions in _user_messages, but {uneven[0][0]} criteria in _message_criteria"
        )
    return warnings


def _check_path(subject: Subject) -> list[str]:
    """Replaying the solution wins; where it does not, the message says which criterion stayed open."""
    for seed, solution in zip(PATH_SEEDS, subject.solutions(PATH_SEEDS), strict=True):
        if solution is None:
            continue
        ways = replays(subject.program, solution, subject.opening(seed).info.get("tools") or ())
        failures = [_failure(subject, seed, way) for way in ways]
        if ways and all(failures):
            raise Rejected(
                f"no success path: replaying solution() with seed {seed} does not win. {failures[0]} See that each "
                "criterion of _message_criteria can become true by calls of the tools, and that _check_answer accepts "
                "the answer that solution() gives"
            )
    return []


def _failure(subject: Subject, seed: int, way: Sequence[str]) -> str | None:
    """Why a way of playing did not win; None if it did."""
    with subject.instances(1) as ids:
        answer = subject.reset(ids, [seed])[0]
        for action in way:
            if not is_over(answer):
                answer = subject.step(ids, [action])[0]
        if is_won(answer):
            return None
        said = answer.message if isinstance(answer, Fault) else answer.observation
        state = subject.loaded.inspect(ids)[0]
    return f"The last reply was {short(said, 200)!r}.{_still_open(state)}"


def _still_open(state: str | Fault | None) -> str:
    if not isinstance(state, str):
        return ""
    criteria = json.loads(state)["criteria"]
    closed = [f"criterion {i} {'is false' if one is False else f'raises {one}'}"
              for i, one in enumerate(criteria, start=1) if one is not True]  # fmt: skip
    return f" After it, {', '.join(closed)}." if closed else ""


def _failing_tools(subject: Subject) -> list[str]:
    """Tools that raise for arguments which their schema allows: the player then reads the exception's text."""
    tools = schemas(subject.opening(0).info.get("tools") or ())
    calls = {name: tool_call(name, _example(schema)) for name, schema in list(tools.items())[:MAX_TOOLS]}
    played = subject.play([0] * len(calls), [[call] for call in calls.values()])
    warnings = []
    for name, trajectory in zip(calls, played, strict=True):
        last = trajectory[-1]
        said = last.message if isinstance(last, Fault) else last.observation
        if said.startswith(f"{name} failed: "):
            warnings.append(f"{short(said, 200)}, called by {calls[name]}; answer with a message instead of raising")
    return warnings


def _example(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that a schema allows."""
    properties = schema.get("properties") or {}
    return {name: _value(properties.get(name) or {}) for name in schema.get("required") or []}


def _value(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return "nothing"
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    first = kind[0] if isinstance(kind, list) and kind else kind
    return _EXAMPLES.get(str(first), "nothing")
