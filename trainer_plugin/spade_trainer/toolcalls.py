"""Tool calls as models write them, read into one type and written in the contract's text form.

Three notations are read: JSON inside `<tool_call>` (Qwen2.5, Qwen3, Hermes), XML with `<function=...>` and
`<parameter=...>` (Qwen3-Coder), and the structured `tool_calls` of OpenAI-compatible endpoints. Programs understand the
first one only, so an action is rewritten into it; what cannot be read is left as the model wrote it, because the
environment's answer to a malformed call is part of the game.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION = re.compile(r"<function=\s*([^>\s]+)\s*>(.*?)(?:</function>|\Z)", re.DOTALL)
# A value ends at its own closing tag; a forgotten one ends at the next parameter or at the end of the function.
_PARAMETER = re.compile(
    r"<parameter=\s*([^>\s]+)\s*>(.*?)(?:</parameter>|(?=<parameter=)|(?=</function>)|\Z)", re.DOTALL
)
_SPACE = re.compile(r"\s*")
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True)
class ToolCall:
    """One call: the tool's name and its arguments, a mapping, or the raw text where that is not a JSON object."""

    name: str
    arguments: dict[str, Any] | str
    id: str | None = None
    """The endpoint's name for the call, to which an answer refers."""

    def text(self) -> str:
        """Return the call in the contract's form, on one line; raw arguments stand as they came."""
        raw = self.arguments
        arguments = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
        return f'{OPEN}{{"name": {json.dumps(self.name, ensure_ascii=False)}, "arguments": {arguments}}}{CLOSE}'


@dataclass(frozen=True)
class _Span:
    start: int
    end: int
    calls: tuple[ToolCall, ...]


def parse(text: str, tools: Iterable[Mapping[str, Any]] = ()) -> list[ToolCall]:
    """Return the well-formed calls of a model's answer in order, thinking excluded.

    `tools`: schemas in OpenAI's function-calling form; they say which XML parameters are numbers, flags or structures.
    """
    return [call for span in _spans(without_thinking(text), tools) for call in span.calls]


def from_openai(calls: Iterable[Mapping[str, Any]] | None) -> list[ToolCall]:
    """Return the calls of an endpoint's message; arguments that are not a JSON object stay raw text."""
    found = []
    for call in calls or ():
        function = call.get("function") or {}
        raw = function.get("arguments") or "{}"
        found.append(ToolCall(str(function.get("name") or ""), _object(raw), call.get("id")))
    return found


def to_openai(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Return calls as the `tool_calls` of an assistant message; calls without an id are numbered."""
    return [
        {"id": call.id or f"call_{i}", "type": "function", "function": {"name": call.name, "arguments": _json(call)}}
        for i, call in enumerate(calls)
    ]


def contract_text(text: str, calls: Sequence[ToolCall] = (), tools: Iterable[Mapping[str, Any]] = ()) -> str:
    """Return an answer as the action a program reads: thinking removed, every readable call in the contract's form.

    `calls` are those that an endpoint returned apart from the text; they follow it, in order.
    """
    text = without_thinking(text)
    parts, at = [], 0
    for span in _spans(text, tools):
        parts += [text[at : span.start], "\n".join(call.text() for call in span.calls)]
        at = span.end
    parts.append(text[at:])
    return "\n".join(part for part in ("".join(parts).strip(), *(call.text() for call in calls)) if part)


def without_thinking(text: str) -> str:
    """Return what follows the model's thinking; a thought that never ends leaves nothing.

    Chat templates often put the opening tag into the prompt, so a closing tag alone ends a thought, too.
    """
    text = _THINKING.sub("", text)
    text = text.rpartition("</think>")[2]
    return text.partition("<think>")[0]


def _spans(text: str, tools: Iterable[Mapping[str, Any]]) -> list[_Span]:
    """Find the readable calls. A closing tag inside a JSON string is data: the JSON decides where a call ends."""
    schemas = {one["function"]["name"]: one["function"].get("parameters") or {} for one in tools if "function" in one}
    spans, at = [], 0
    while (start := _next(text, at)) is not None:
        body = start + len(OPEN) if text.startswith(OPEN, start) else start
        span = _json_span(text, start, body) or _xml_span(text, start, body, schemas)
        if span is not None:
            spans.append(span)
        at = span.end if span is not None else body + 1
    return spans


def _next(text: str, at: int) -> int | None:
    found = [i for i in (text.find(OPEN, at), text.find("<function=", at)) if i >= 0]
    return min(found, default=None)


def _json_span(text: str, start: int, body: int) -> _Span | None:
    if body == start:
        return None
    begin = _after_space(text, body)
    try:
        value, end = json.JSONDecoder().raw_decode(text, begin)
    except (json.JSONDecodeError, RecursionError):
        return None
    call = _call(value)
    return None if call is None else _Span(start, _closed(text, end), (call,))


def _call(value: Any) -> ToolCall | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    raw = value.get("arguments", value.get("parameters", {}))  # `parameters` is how Llama's templates name them
    if isinstance(raw, str):
        raw = _object(raw)
    return ToolCall(value["name"], raw if isinstance(raw, (dict, str)) else _dump(raw))


def _xml_span(text: str, start: int, body: int, schemas: Mapping[str, Any]) -> _Span | None:
    calls: list[ToolCall] = []
    at = body
    while match := _FUNCTION.match(text, _after_space(text, at)):
        name = match[1]
        types = schemas.get(name, {}).get("properties") or {}
        values = {key: _typed(_unframed(raw), types.get(key)) for key, raw in _PARAMETER.findall(match[2])}
        calls.append(ToolCall(name, values))
        at = match.end()
    return _Span(start, _closed(text, at), tuple(calls)) if calls else None


def _unframed(value: str) -> str:
    """Remove the one line break that the notation puts around a value."""
    return value.removeprefix("\n").removesuffix("\n")


def _typed(value: str, schema: Any) -> Any:
    """Read an XML value as its schema says: strings stay text, everything else is JSON where it can be."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    kinds = set(kind) if isinstance(kind, list) else {kind}
    if kinds <= {"string", None} and not (kind is None and isinstance(schema, dict) and schema):
        return value
    literal = {"True": "true", "False": "false", "None": "null"}.get(value.strip(), value)
    try:
        return json.loads(literal)
    except ValueError:
        return value


def _object(raw: str) -> dict[str, Any] | str:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    return value if isinstance(value, dict) else raw


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json(call: ToolCall) -> str:
    return call.arguments if isinstance(call.arguments, str) else _dump(call.arguments)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _closed(text: str, end: int) -> int:
    """Return the position behind the closing tag, if one follows; models that stop early forget it."""
    after = _after_space(text, end)
    return after + len(CLOSE) if text.startswith(CLOSE, after) else end
