"""One play of an environment by a chat model: the conversation, the actions, and what came of it.

The player sees its system message (with or without the hint), the observation, and then the environment's answers to its
own messages. An action is what the model wrote after its thinking; in tool-use environments its calls are brought into the
contract's form. An answer that the token limit cut before its action was complete ends the play as *cut*.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spade_envs.contract import Outcome, Program
from spade_envs.episode import Episode
from spade_trainer.generation.generator import Answer, ChatMessage, ContextOverflow, Generator, Sampling
from spade_trainer.method.seeding import derive
from spade_trainer.prompt_sets import PromptSet
from spade_trainer.toolcalls import contract_text, to_openai, without_thinking

PLAYER = {"game": "player", "tool_use": "player_tool_use"}
"""The player's prompt for each kind of program."""
# A complete box has balanced braces up to two levels deep, which is what answers and commands need.
_COMPLETE = re.compile(
    r"\\boxed\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}|</tool_call>|</answer>|</function>", re.DOTALL
)


@dataclass(frozen=True)
class Played:
    """What came of a play."""

    ret: float
    outcome: Outcome
    turns: int
    prompt_tokens: int
    tokens: int
    """Tokens that the model wrote."""
    seconds: float
    fault: str | None
    transcript: str
    """The conversation as JSON."""


@dataclass(frozen=True)
class Player:
    """A model with its way of playing."""

    generator: Generator
    sampling: Sampling
    prompts: PromptSet
    max_turns: int = 25

    async def play(self, loaded: Any, program: Program, *, seed: int, hint: str | None = None) -> Played:
        """Play one episode of a loaded program from `seed`.

        Raises `SpadeError` when the model cannot be had; whatever the program does is an outcome.
        """
        begin = time.monotonic()
        episode = Episode(loaded, max_turns=self.max_turns)
        spent = [0, 0]
        messages: list[ChatMessage] = []
        try:
            observation = await asyncio.to_thread(episode.reset, seed)
            tools = tuple((episode.info or {}).get("tools") or ()) if program.kind == "tool_use" else ()
            messages += self._opening(program, hint, tools, observation)
            while not episode.done:
                answer = await self._ask(messages, tools, _seed(program, seed, hint, episode.turns))
                if answer is None:
                    episode.cut()
                    break
                spent = [spent[0] + answer.prompt_tokens, spent[1] + answer.tokens]
                messages.append(_said(answer))
                if answer.finish == "length" and not complete(answer):
                    episode.cut()
                    break
                action = contract_text(answer.text, answer.calls, tools) if tools else without_thinking(answer.text)
                observation = await asyncio.to_thread(episode.step, action)
                messages += _reply(answer, observation)
            assert episode.outcome is not None
            return Played(
                ret=episode.ret,
                outcome=episode.outcome,
                turns=episode.turns,
                prompt_tokens=spent[0],
                tokens=spent[1],
                seconds=time.monotonic() - begin,
                fault=episode.fault,
                transcript=json.dumps(messages, ensure_ascii=False),
            )
        finally:
            await asyncio.to_thread(episode.close)

    def _opening(
        self, program: Program, hint: str | None, tools: Sequence[Mapping[str, Any]], observation: str
    ) -> list[ChatMessage]:
        variables: dict[str, Any] = {"hint": hint}
        if program.kind == "tool_use":
            variables["tools"] = None if self.generator.native_tools else tools
        system = self.prompts.render(PLAYER[program.kind], **variables)
        return [*system, {"role": "user", "content": observation}]

    async def _ask(
        self, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]], seed: int
    ) -> Answer | None:
        """Return the model's answer, or None when the conversation has outgrown its context."""
        sampling = Sampling(self.sampling.temperature, self.sampling.max_tokens, self.sampling.top_p, seed)
        try:
            return await self.generator.generate(
                messages, sampling, tools=tools if self.generator.native_tools else ()
            )
        except ContextOverflow:
            return None


def complete(answer: Answer) -> bool:
    r"""Tell whether an answer that was cut contains a whole action: a closed `\boxed{}`, call or `<answer>`."""
    return bool(answer.calls) or _COMPLETE.search(without_thinking(answer.text)) is not None


def _said(answer: Answer) -> ChatMessage:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    return message | {"tool_calls": to_openai(answer.calls)} if answer.calls else message


def _reply(answer: Answer, observation: str) -> list[ChatMessage]:
    """Return the environment's answer as messages. Calls made apart from the text want one answer each, by their ids."""
    if not answer.calls:
        return [{"role": "user", "content": observation}]
    ids = [call["id"] for call in to_openai(answer.calls)]
    rest = [{"role": "tool", "tool_call_id": one, "content": "(see the first answer)"} for one in ids[1:]]
    return [{"role": "tool", "tool_call_id": ids[0], "content": observation}, *rest]


def _seed(program: Program, seed: int, hint: str | None, turn: int) -> int:
    return derive("play", program.sha256, seed, hint or "", turn)
