"""A conversation as tokens: what the model saw and said, exactly, with a mask over its own tokens.

Token in, token out: the model's tokens are appended as they were sampled, and the environment's messages are rendered by
verl's continuous-token builder for the model family. Nothing the model said is ever decoded and encoded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from spade_trainer.design import Reply
from spade_trainer.prompts import Message

MIN_ROOM = 1  # tokens that must be left for an answer to be asked for


class ContextFull(Exception):
    """The conversation leaves no room for another answer."""


class Dialogue:
    """One conversation of an agent loop.

    Args:
        loop: the agent loop, for its tokenizer, its token builder, its client and verl's length limits.
        sampling: verl's sampling parameters of the run.
    """

    def __init__(self, loop: AgentLoopBase, sampling: dict[str, Any]):
        self._loop: Any = loop
        self._sampling = sampling
        self._builder = loop.continuous_token_builder
        self._request_id = uuid4().hex
        self.messages: list[Message] = []
        self.tokens: list[int] = []
        self.prompt_length = 0
        self.mask: list[int] = []
        self.log_probs: list[float] = []
        self.first_version: Any = None
        self.last_version: Any = None

    def open(self, messages: Sequence[Message]) -> None:
        """Begin with the first messages. Raises `ContextFull` when they exceed verl's prompt length."""
        self.messages = list(messages)
        self.tokens = list(self._builder.build_initial_tokens(self.messages))
        self.prompt_length = len(self.tokens)
        if self.prompt_length > self._loop.rollout_config.prompt_length:
            raise ContextFull

    async def answer(self, *, temperature: float, max_tokens: int, seed: int) -> Reply:
        """Ask the model for its next message. Raises `ContextFull` when no token fits any more."""
        room = self._loop.rollout_config.response_length - len(self.mask)
        if room < MIN_ROOM:
            raise ContextFull
        limit = min(max_tokens, room)
        output = await self._loop.server_manager.generate(
            request_id=self._request_id,
            prompt_ids=self.tokens,
            sampling_params={**self._sampling, "temperature": temperature, "max_tokens": limit, "seed": seed},
        )
        version = output.extra_fields.get("max_global_steps")
        self.first_version = version if self.first_version is None else self.first_version
        self.last_version = version
        merged = self._builder.merge_assistant_tokens(self.tokens, output.token_ids)
        self.mask, self.log_probs = self._builder.align_response_metadata(
            merged, self.mask, self.log_probs, assistant_logprobs=output.log_probs
        )
        self.tokens = list(merged.token_ids)
        text = self._loop.tokenizer.decode(output.token_ids, skip_special_tokens=True)
        self.messages.append({"role": "assistant", "content": text})
        return Reply(text, cut=len(output.token_ids) >= limit and output.token_ids[-1] not in self._ends())

    def show(self, content: str) -> None:
        """Append a message of the user (the environment)."""
        before = list(self.messages)
        self.messages.append({"role": "user", "content": content})
        merged = self._builder.merge_context_tokens(before, self.messages, self.tokens)
        self.mask, self.log_probs = self._builder.align_response_metadata(merged, self.mask, self.log_probs)
        self.tokens = list(merged.token_ids)

    @classmethod
    async def placeholder(cls, loop: AgentLoopBase, sampling: dict[str, Any]) -> Dialogue:
        """Return a conversation of one generated token: verl takes no row without a generation."""
        dialogue = cls(loop, sampling)
        dialogue.open([{"role": "user", "content": "."}])
        await dialogue.answer(temperature=1.0, max_tokens=1, seed=0)
        return dialogue

    @property
    def spoken(self) -> int:
        """Number of tokens the model wrote."""
        return sum(self.mask)

    def output(self, reward: float, turns: int, record: dict[str, Any]) -> AgentLoopOutput:
        """Return the conversation as verl's output, cut after the model's last token, with `record` beside it."""
        end = len(self.mask) - self.mask[::-1].index(1)
        start = self.prompt_length
        return AgentLoopOutput(
            prompt_ids=self.tokens[:start],
            response_ids=self.tokens[start : start + end],
            response_mask=self.mask[:end],
            response_logprobs=self.log_probs[:end],
            reward_score=float(reward),
            num_turns=turns,
            metrics=AgentLoopMetrics(),
            extra_fields={
                "min_global_steps": self.first_version,
                "max_global_steps": self.last_version,
                "reward_extra_info": {"acc": float(reward > 0.5)},
                "turn_scores": [],
                "tool_rewards": [],
                "spade": record,
            },
        )

    def _ends(self) -> set[int]:
        tokenizer = self._loop.tokenizer
        ends = {tokenizer.eos_token_id}
        for name in ("<|im_end|>", "<|endoftext|>", "<|eot_id|>"):
            token = tokenizer.convert_tokens_to_ids(name)
            if token is not None and token != tokenizer.unk_token_id:
                ends.add(token)
        return ends
