"""The seam to a model: chat messages in; text, tool calls, token counts and, if there are any, log-probabilities out.

`design` and `measure` know models through this interface only. `openai.py` speaks to an endpoint, `local.py` runs a
transformers model in this process, `models.py` chooses between them by the name that a user gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from spade_envs.errors import SpadeError
from spade_trainer.toolcalls import ToolCall

ChatMessage = Mapping[str, Any]
"""A message with `role` and `content`; an assistant's may carry `tool_calls`, a tool's `tool_call_id`."""


class ContextOverflow(SpadeError):
    """A conversation that has outgrown the model's context: no answer fits any more."""


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn."""

    temperature: float = 0.6
    max_tokens: int = 8192
    top_p: float = 1.0
    seed: int | None = None
    """Seed of this answer. Endpoints do not get it: few honour it, and some refuse it."""


@dataclass(frozen=True)
class Answer:
    """What a model said."""

    text: str
    finish: Literal["stop", "length"]
    """`length`: the token limit cut the answer."""
    calls: tuple[ToolCall, ...] = ()
    """Tool calls that came apart from the text (endpoints that parse them)."""
    prompt_tokens: int = 0
    tokens: int = 0
    log_probs: tuple[float, ...] | None = field(default=None, repr=False)
    """Natural-log probability of each sampled token."""


class Generator(Protocol):
    """A model that answers conversations, many at a time."""

    name: str
    """How the registry names this model: the policy of plays, the author of programs and hints."""

    native_tools: bool
    """Whether schemas passed to `generate` reach the model; if not, they belong into the system message."""

    async def prepare(self) -> None:
        """Make sure that the model can be reached or loaded. Raises `SpadeError` with what to do."""

    async def generate(
        self, messages: Sequence[ChatMessage], sampling: Sampling, *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Answer:
        """Answer one conversation.

        Raises `ContextOverflow` when it does not fit, `SpadeError` when the model cannot be had.
        """

    async def close(self) -> None:
        """Let go of connections, threads and memory."""
