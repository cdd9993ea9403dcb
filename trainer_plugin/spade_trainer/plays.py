"""One play of an environment by a chat model: the conversation, the actions, and what came of it.

The player sees its system message (with or without the hint), the observation, and then the environment's answers to
its own messages. An action is what the model wrote after its thinking; in tool-use environments its calls are brought
into the contract's form. An answer that the token limit cut before its action was complete ends the play as *cut*.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spade_envs.contract import MAX_ACTION, Outcome, Program
from spade_envs.episode import Episode
from spade_envs.errors import ProgramError
from spade_envs.sandbox import Pool
from spade_trainer.generation.generator import Answer, ChatMessage, ContextOverflow, Generator, Sampling
from spade_trainer.method.seeding import derive
from spade_trainer.prompt_sets import PromptSet
from spade_trainer.toolcalls import contract_text, to_openai, without_thinking

PLAYER = {"game": "player", "tool_use": "player_tool_use"}
"""The player's prompt for each kind of program."""
# A complete box has balanced braces up to two levels deep, which is what answers and commands need.
_COMPLETE = re.compile(r"\\boxed\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}|</tool_call>|</answer>|</function>", re.DOTALL)


@dataclass(frozen=True)
class Played:
    """What came of a play."""

    outcome: Outcome
    ret: float
    """The return, in [-1, 1]."""
    turns: int
    prompt_tokens: int
    tokens: int
    """Tokens that the model wrote."""
    seconds: float
    fault: str | None
    """What the program did wrong, where it did."""
    transcript: str
    """The conversation as JSON."""


@dataclass
class _Talk:
    messages: list[ChatMessage] = field(default_factory=list)
    prompt_tokens: int = 0
    tokens: int = 0

    def add(self, answer: Answer) -> None:
        self.messages.append(_said(answer))
        self.prompt_tokens += answer.prompt_tokens
        self.tokens += answer.tokens


@dataclass(frozen=True)
class Player:
    """A model with its way of playing."""

    generator: Generator
    sampling: Sampling
    prompts: PromptSet
    max_turns: int = 25
    """Turn limit; a program's own lower one counts first."""

    async def play(self, program: Program, pool: Pool, *, seed: int, hint: str | None = None) -> Played:
        """Play one episode of a program from `seed`.

        Raises `SpadeError` when the model cannot be had; whatever the program does is an outcome.
        """
        begin = time.monotonic()
        try:
            episode = await asyncio.to_thread(Episode, program, max_turns=self.max_turns, pool=pool)
        except ProgramError as error:
            return Played("faulty", 0.0, 0, 0, 0, time.monotonic() - begin, str(error), "[]")
        with episode:
            talk = await self._talk(episode, program, seed, hint)
        assert episode.outcome is not None, "an episode that ended has an outcome"
        return Played(
            outcome=episode.outcome,
            ret=episode.ret,
            turns=episode.turns,
            prompt_tokens=talk.prompt_tokens,
            tokens=talk.tokens,
            seconds=time.monotonic() - begin,
            fault=episode.fault,
            transcript=json.dumps(talk.messages, ensure_ascii=False),
        )

    async def _talk(self, episode: Episode, program: Program, seed: int, hint: str | None) -> _Talk:
        """Let the model and the environment talk until the episode is done."""
        talk = _Talk()
        observation = await asyncio.to_thread(episode.reset, seed)
        tools = tuple(episode.info.get("tools") or ()) if program.kind == "tool_use" else ()
        talk.messages += self._opening(program, hint, tools, observation)
        while not episode.done:
            answer = await self._ask(talk.messages, tools, derive(program.sha256, seed, hint or "", episode.turns))
            if answer is not None:
                talk.add(answer)
            if answer is None or (answer.finish == "length" and not complete(answer)):
                episode.cut()
                break
            action = contract_text(answer.text, answer.calls, tools) if tools else without_thinking(answer.text)
            observation = await asyncio.to_thread(episode.step, action[-MAX_ACTION:])
            talk.messages += _reply(answer, observation)
        return talk

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
            return await self.generator.generate(messages, sampling, tools=tools if self.generator.native_tools else ())
        except ContextOverflow:
            return None


def complete(answer: Answer) -> bool:
    r"""Tell whether an answer that was cut contains a whole action: a closed `\boxed{}`, call or `<answer>`."""
    return bool(answer.calls) or _COMPLETE.search(without_thinking(answer.text)) is not None


def _said(answer: Answer) -> ChatMessage:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    return message | {"tool_calls": to_openai(answer.calls)} if answer.calls else message


def _reply(answer: Answer, observation: str) -> list[ChatMessage]:
    """Return the environment's answer as messages; calls made apart from the text want one each, by their ids."""
    if not answer.calls:
        return [{"role": "user", "content": observation}]
    ids = [call["id"] for call in to_openai(answer.calls)]
    rest = [{"role": "tool", "tool_call_id": one, "content": "(see the first answer)"} for one in ids[1:]]
    return [{"role": "tool", "tool_call_id": ids[0], "content": observation}, *rest]
