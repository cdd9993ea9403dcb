"""The base class of tool-use programs: it owns the protocol between an agent's text and the program's tools.

An agent calls a tool by writing `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, and answers by writing
`<answer>...</answer>`. Whatever goes wrong with a call is told to the agent in words; it never becomes an exception.
The class is injected into programs and never imported by them; it runs inside the sealed worker, beside the program.

Arguments are checked here against the subset of JSON Schema that function calling uses (type, enum, required,
properties, items, additionalProperties). The complete `jsonschema` would have to live in every worker: it adds about
60 modules and 9 MiB to the zygote, for keywords that no tool description needs.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import Any

FORMAT_ERROR_REWARD = -0.1
"""Reward of a turn whose action is neither a well-formed tool call nor an answer."""
CORRECT_REWARD = 1.0
DEFAULT_MAX_TURNS = 25
MAX_CALLS_A_TURN = 16
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}

StepTuple = tuple[str, float, bool, bool, dict[str, Any]]


class ToolUseBaseEnv:
    """Base of tool-use programs.

    A program sets in `reset`: `_tools` (name -> {description, parameters}), `_state`, and optionally `_user_messages`,
    `_message_criteria`, `_current_msg`, `_expected_answer`; it defines `tool_<name>(**arguments) -> str` for each tool,
    and `_check_answer(answer) -> bool` where equality with `_expected_answer` is not enough.
    """

    def __init__(self, max_turns: int = DEFAULT_MAX_TURNS, **kwargs: Any) -> None:
        self.max_turns = max_turns
        self.turn_count = 0
        self._tools: dict[str, dict[str, Any]] = {}
        self._state: Any = {}
        self._user_messages: list[str] = []
        self._message_criteria: list[Callable[[Any], Any]] = []
        self._current_msg = 0
        self._expected_answer: Any = None
        self._call_history: list[dict[str, Any]] = []

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Open an episode; every program defines its own."""
        raise NotImplementedError("a tool-use program must define reset(self, seed=None)")

    def get_tools(self) -> list[dict[str, Any]]:
        """The tools in OpenAI's function-calling format."""
        nothing = {"type": "object", "properties": {}}
        return [
            {
                "type": "function",
                "function": {
                    "name": str(name),
                    "description": str(tool.get("description", "")),
                    "parameters": tool.get("parameters") or nothing,
                },
            }
            for name, tool in self._tools.items()
        ]

    def step(self, action: str) -> StepTuple:
        """One turn: an answer ends the episode if it is correct; otherwise every tool call of the text is made."""
        self.turn_count = getattr(self, "turn_count", 0) + 1
        text = _THINKING.sub("", action)
        calls = _CALL.findall(text)
        answers = _ANSWER.findall(_CALL.sub("", text))
        if answers and not calls:
            return self._answered(answers[-1].strip())
        if not calls:
            tools = ", ".join(self._tools) or "none"
            return self._turn(
                'Nothing was called or answered. Write <tool_call>{"name": ..., "arguments": {...}}</tool_call> or '
                f"<answer>...</answer>. Tools: {tools}.",
                FORMAT_ERROR_REWARD,
            )
        results = [self._call(call) for call in calls[:MAX_CALLS_A_TURN]]
        if len(calls) > MAX_CALLS_A_TURN:
            results.append((f"Only the first {MAX_CALLS_A_TURN} calls of a turn are made.", False))
        well_formed = all(fine for _, fine in results)
        return self._turn("\n".join(text for text, _ in results), 0.0 if well_formed else FORMAT_ERROR_REWARD)

    def _turn(self, text: str, reward: float) -> StepTuple:
        truncated = self.turn_count >= self.max_turns
        return text + self._obs_suffix(), reward, False, truncated, {}

    def _answered(self, answer: str) -> StepTuple:
        if self._is_correct(answer):
            return "Correct.", CORRECT_REWARD, True, False, {}
        open_message = self._open_instruction()
        still = f" Still open: {open_message}" if open_message else ""
        return self._turn(f"That answer is not correct.{still}", 0.0)

    def _is_correct(self, answer: str) -> bool:
        try:
            return bool(self._check_answer(answer))
        except Exception:
            return False

    def _check_answer(self, answer: str) -> bool:
        """Whether the answer is right: every instruction done, and equal to `_expected_answer` but for case."""
        if self._expected_answer is None or self._open_instruction() is not None:
            return False
        return answer.strip().lower() == str(self._expected_answer).strip().lower()

    def _open_instruction(self) -> str | None:
        """The first instruction that is not done, or None."""
        position = self._current_msg
        if position < len(self._user_messages):
            return str(self._user_messages[position])
        return None

    def _obs_suffix(self) -> str:
        return ""

    def _advance_if_done(self) -> str:
        """Reveal the next instruction when the current one is done; programs may define their own."""
        position = self._current_msg
        if position >= len(self._message_criteria) or not self._message_criteria[position](self._state):
            return ""
        self._current_msg = position + 1
        if self._current_msg < len(self._user_messages):
            return f"\n{self._user_messages[self._current_msg]}"
        return "\nEverything is done. Give your <answer>...</answer>."

    def _call(self, text: str) -> tuple[str, bool]:
        """Make one call; what to tell the agent, and whether the call was well-formed."""
        try:
            call = json.loads(text)
        except (ValueError, RecursionError) as error:
            return f"The tool call is not valid JSON: {error}", False
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return 'A tool call is an object {"name": ..., "arguments": {...}}.', False
        name, arguments = call["name"], call.get("arguments", {})
        if name not in self._tools:
            return f"There is no tool {name!r}. Tools: {', '.join(self._tools) or 'none'}.", False
        if not isinstance(arguments, dict):
            return f"The arguments of {name} must be an object.", False
        problem = check_schema(arguments, self._tools[name].get("parameters") or {}, "arguments")
        if problem:
            return f"{name}: {problem}.", False
        return self._run(name, arguments), True

    def _run(self, name: str, arguments: dict[str, Any]) -> str:
        method = getattr(self, f"tool_{name}", None)
        if not callable(method):
            return f"The tool {name} does not answer."
        history = getattr(self, "_call_history", None)
        if isinstance(history, list):
            history.append({"name": name, "arguments": arguments})
        try:
            return str(method(**arguments))
        except Exception as error:
            return f"{name} failed: {type(error).__name__}: {str(error)[:200]}"


def check_schema(value: Any, schema: dict[str, Any], path: str) -> str | None:
    """What is wrong with a value under a schema, or None; see the module's text for the keywords that count."""
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else list(kinds or [])
    if names and not any(_is_type(value, name) for name in names):
        return f"{path} must be of type {' or '.join(map(str, names))}, not {_type_name(value)}"
    allowed = schema.get("enum")
    if isinstance(allowed, (list, tuple)) and not any(value == one and type(value) is type(one) for one in allowed):
        return f"{path} must be one of {', '.join(map(repr, allowed))}, not {value!r}"
    if isinstance(value, dict):
        return _check_object(value, schema, path)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        problems = (check_schema(item, schema["items"], f"{path}[{index}]") for index, item in enumerate(value))
        return next(filter(None, problems), None)
    return None


def _check_object(value: dict[str, Any], schema: dict[str, Any], path: str) -> str | None:
    properties = schema.get("properties") or {}
    missing = [name for name in schema.get("required") or [] if name not in value]
    if missing:
        return f"{path} lacks {', '.join(map(repr, missing))}"
    closed = schema.get("additionalProperties") is False or (path == "arguments" and "properties" in schema)
    unknown = [name for name in value if name not in properties]
    if unknown and closed:
        return f"{path} has no {', '.join(map(repr, unknown))}; known: {', '.join(map(repr, properties)) or 'none'}"
    for name, part in properties.items():
        if name in value and isinstance(part, dict):
            problem = check_schema(value[name], part, f"{path}.{name}" if path != "arguments" else f"{name!r}")
            if problem:
                return problem
    return None


def _is_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, (object,)))


def _type_name(value: Any) -> str:
    return next((name for name in ("boolean", "null", "string", "integer", "number", "array", "object")
                 if _is_type(value, name)), type(value).__name__)  # fmt: skip


def schema_mismatches(tools: dict[str, dict[str, Any]], environment: Any) -> list[str]:
    """Where the schemas of tools and the signatures of their methods disagree, in words; empty if nowhere."""
    problems = []
    for name, tool in tools.items():
        method = getattr(environment, f"tool_{name}", None)
        if not callable(method):
            problems.append(f"tool {name!r} has no method tool_{name}")
            continue
        schema = tool.get("parameters") or {}
        declared, required = set(schema.get("properties") or {}), set(schema.get("required") or [])
        parameters = inspect.signature(method).parameters
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            continue
        needed = {key for key, p in parameters.items() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL}
        if declared - set(parameters):
            problems.append(
                f"tool_{name} does not take {sorted(declared - set(parameters))}, which its schema declares"
            )
        if needed - required:
            problems.append(f"tool_{name} needs {sorted(needed - required)}, which its schema does not require")
    return problems
