"""What host and worker say to each other: frames, requests, answers.

A frame is its length in four bytes, little-endian, then MessagePack. Both sides decode into the exact types below and
refuse anything else; neither ever unpickles. A batch is answered by one or more frames, each with some of the answers
in the order of the request, so that a long batch shows progress and no frame grows beyond `MAX_FRAME`.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_FRAME = 4 << 20
"""Longest frame, in bytes; a longer one is refused before it is read."""
HEADER = 4
MAX_INFO = 65536
"""Longest info, in bytes of MessagePack."""


class Answer(msgspec.Struct, array_like=True, tag=0, forbid_unknown_fields=True, gc=False):
    """A valid result of `reset` or `step`."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Broken(msgspec.Struct, array_like=True, tag=1, forbid_unknown_fields=True, gc=False):
    """The program raised, or answered with something that is not a result."""

    message: str


class Text(msgspec.Struct, array_like=True, tag=2, forbid_unknown_fields=True, gc=False):
    """A solution, or None where the program has none."""

    text: str | None


class LoadReport(msgspec.Struct, array_like=True, tag=3, forbid_unknown_fields=True):
    """How loading went: `stage` is None when it worked, else the stage that refused."""

    stage: str | None
    message: str
    violations: list[tuple[int, str]]
    layers: list[str]
    max_turns: int | None
    has_solution: bool


Item = Answer | Broken | Text


class Load(msgspec.Struct, array_like=True, tag=0, forbid_unknown_fields=True):
    """Compile a program and try its class once; always the first request."""

    source: str
    class_name: str
    kind: str
    guarded: bool
    extras: tuple[str, ...]
    max_observation: int


class Reset(msgspec.Struct, array_like=True, tag=1, forbid_unknown_fields=True):
    """Start an episode in each of some instances: (instance, seed, keyword arguments of the class)."""

    items: list[tuple[int, int, dict[str, Any]]]


class Step(msgspec.Struct, array_like=True, tag=2, forbid_unknown_fields=True):
    """One action for each of some instances: (instance, action)."""

    items: list[tuple[int, str]]


class Solution(msgspec.Struct, array_like=True, tag=3, forbid_unknown_fields=True):
    """Ask instances for their solutions."""

    items: list[int]


class Inspect(msgspec.Struct, array_like=True, tag=5, forbid_unknown_fields=True):
    """Ask tool-use instances, right after a reset, about their tools and criteria; each answers with JSON as `Text`."""

    items: list[int]


class Mend(msgspec.Struct, array_like=True, tag=6, forbid_unknown_fields=True):
    """Repair texts of programs without running them; each is answered with JSON (`source`, `changes`) as `Text`."""

    items: list[str]


class Close(msgspec.Struct, array_like=True, tag=4, forbid_unknown_fields=True):
    """Forget instances; not answered."""

    items: list[int]


Request = Load | Reset | Step | Solution | Inspect | Mend | Close
encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_items = msgspec.msgpack.Decoder(list[Item]).decode
decode_load_report = msgspec.msgpack.Decoder(LoadReport).decode


def frame(payload: bytes) -> bytes:
    """A payload with its length before it."""
    return len(payload).to_bytes(HEADER, "little") + payload
