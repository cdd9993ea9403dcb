"""One slot of `spade-envs design`: programs written until the gate accepts one, then its hint.

The judging of programs and hints is the trainer's (`design.py`); what differs is who asks and what for: prompts may
be a user's own, programs may be tool-use programs, and a conversation may outgrow the model's context.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spade_envs.contract import Program
from spade_envs.sandbox import Pool
from spade_trainer.design import Attempt, Design, Job, Reply, judge, refuse_hint
from spade_trainer.generation.generator import ChatMessage, ContextOverflow, Generator, Sampling
from spade_trainer.method.seeding import derive
from spade_trainer.prompt_sets import PromptSet
from spade_trainer.toolcalls import without_thinking

DESIGNER = {"game": "designer_game", "tool_use": "designer_tool_use"}
"""The designer's prompt for each kind of program."""
HINT = {"game": "hint_game", "tool_use": "hint_tool_use"}
REPAIR = "designer_repair"
DUPLICATE = "duplicate"
"""Stage of a program that the registry has already."""
WRONG_KIND: Mapping[str, str] = {
    "tool_use": "a class that subclasses ToolUseBaseEnv was asked for; this one does not",
    "game": "a game was asked for; this program subclasses ToolUseBaseEnv",
}
_FENCE = re.compile(r"^```\w*\n(.*?)\n?```$", re.DOTALL)
_LABEL = re.compile(r"^\**\s*hint\s*:\s*\**\s*", re.IGNORECASE)


@dataclass
class Usage:
    """Tokens that a slot cost."""

    prompt_tokens: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Designer:
    """A model with its way of designing."""

    generator: Generator
    prompts: PromptSet
    pool: Pool
    gate_slots: asyncio.Semaphore
    """Bounds the programs that are in the gate at once."""
    kind: str
    attempts: int
    repair_turns: int
    hint_attempts: int
    sampling: Sampling
    hint_sampling: Sampling
    is_new: Callable[[Program], bool]
    """Whether nobody has written this program before."""

    async def fill(self, job: Job, usage: Usage) -> Design:
        """Settle one slot. Whatever the model writes is a result.

        Raises `SpadeError` when the model cannot be had, or when even the first prompt exceeds its context.
        """
        result = Design(job.slot, job.skill)
        messages: list[ChatMessage] = [*job.messages]
        repairs = 0
        for number in range(1, self.attempts + 1):
            seed = derive(job.seed, "program", number)
            reply = await self._ask(messages, self.sampling, seed, usage, first=repairs == 0)
            attempt = await self._judge(reply, number)
            result.attempts.append(attempt)
            if attempt.accepted:
                await self._hint(job, result, attempt, usage)
                break
            repairs = repairs + 1 if self._mendable(attempt, repairs) else 0
            messages = self._sent_back(messages, reply, attempt) if repairs else [*job.messages]
        return result

    def _mendable(self, attempt: Attempt, repairs: int) -> bool:
        return not attempt.cut and repairs < self.repair_turns and REPAIR in self.prompts.names()

    async def _judge(self, reply: Reply, number: int) -> Attempt:
        async with self.gate_slots:
            attempt = await judge(reply, number, self.pool)
        if attempt.accepted:
            program = Program.from_source(attempt.source)
            if program.kind != self.kind:
                _reject(attempt, "kind", WRONG_KIND[self.kind])
            elif not self.is_new(program):
                _reject(attempt, DUPLICATE, f"this program exists already, as {program.id}; write another one")
        return attempt

    def _sent_back(self, messages: Sequence[ChatMessage], reply: Reply, attempt: Attempt) -> list[ChatMessage]:
        request = self.prompts.render(REPAIR, stage=attempt.stage, message=attempt.message, source=attempt.source)
        return [*messages, {"role": "assistant", "content": without_thinking(reply.text).strip()}, *request]

    async def _hint(self, job: Job, result: Design, attempt: Attempt, usage: Usage) -> None:
        """Ask for hints until one does not leak; an environment without one is kept, and cannot have a regret."""
        messages = self.prompts.render(HINT[self.kind], source=attempt.source, skill=job.skill)
        for number in range(1, self.hint_attempts + 1):
            reply = await self._ask(messages, self.hint_sampling, derive(job.seed, "hint", number), usage)
            hint = clean_hint(reply.text)
            async with self.gate_slots:
                result.hint_leak = await refuse_hint(attempt.source, hint, reply.cut, self.pool)
            if result.hint_leak is None:
                result.hint = hint
                return

    async def _ask(
        self, messages: Sequence[ChatMessage], sampling: Sampling, seed: int, usage: Usage, *, first: bool = False
    ) -> Reply:
        """Ask the model; a conversation that outgrew its context is an answer that was cut, unless it is the first."""
        asked = Sampling(sampling.temperature, sampling.max_tokens, sampling.top_p, seed)
        try:
            answer = await self.generator.generate(messages, asked)
        except ContextOverflow:
            if first:
                raise
            return Reply("", cut=True)
        usage.prompt_tokens += answer.prompt_tokens
        usage.tokens += answer.tokens
        return Reply(answer.text, answer.finish == "length")


def _reject(attempt: Attempt, stage: str, message: str) -> None:
    attempt.accepted, attempt.stage, attempt.message = False, stage, message
    attempt.checks.append({"stage": stage, "passed": False, "message": message, "seconds": 0.0})


def clean_hint(text: str) -> str:
    """Return a model's hint without its thinking, a code fence or quotes around it, or a leading `Hint:`."""
    hint = without_thinking(text).strip()
    if fenced := _FENCE.match(hint):
        hint = fenced[1].strip()
    hint = _LABEL.sub("", hint)
    if len(hint) > 1 and hint[0] == hint[-1] == '"':
        hint = hint[1:-1].strip()
    return hint
