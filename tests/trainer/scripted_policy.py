"""A policy with a script in the place of verl's server, behind real agent loops with a real tokenizer.

The loops, verl's token builder, the tokenizer, the sandbox and the programs are the real ones; only which tokens are
sampled is decided by the test. Texts are sampled character by character, as a model may: encoding the text again would
give other tokens, so a loop that did that would be caught.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.workers.rollout.replica import TokenOutput

from spade_trainer.nano.tokenizer import train
from spade_trainer.presets import compose

END = "<|im_end|>"
TOKENIZER = train(
    ["Five doors. Reply with \\boxed{number}. Not here, go left. The prize. def reset(self): return 0 " * 9]
)

Script = Callable[[list[int], dict[str, Any]], str]


def letters(text: str) -> list[int]:
    """The text as one token per byte."""
    return [token for letter in text for token in TOKENIZER.encode(letter, add_special_tokens=False)]


class Server:
    """Answers like verl's client; keeps what it was asked and what it sampled."""

    def __init__(self, script: Script):
        self.script = script
        self.asked: list[list[int]] = []
        self.sampled: list[list[int]] = []
        self.parameters: list[dict[str, Any]] = []

    async def generate(self, *, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        text = self.script(prompt_ids, sampling_params)
        ends = text.endswith(END)
        tokens = [*letters(text.removesuffix(END)), *([TOKENIZER.eos_token_id] if ends else [])]
        tokens = tokens[: sampling_params["max_tokens"]]
        self.asked.append(list(prompt_ids))
        self.sampled.append(tokens)
        self.parameters.append(dict(sampling_params))
        log_probs = [self.log_prob(len(self.sampled), i) for i in range(len(tokens))]
        return TokenOutput(
            token_ids=tokens, log_probs=log_probs, stop_reason="completed", extra_fields={"max_global_steps": 7}
        )

    @staticmethod
    def log_prob(answer: int, position: int) -> float:
        """A number that says where it belongs."""
        return -(answer + position / 1000)


def run(loop_class: type, server: Server, row: dict[str, Any], *, family: str = "qwen3", **lengths: int) -> list[Any]:
    """Run a loop once and return its outputs."""
    data = {"max_prompt_length": 2000, "max_response_length": 1500, **lengths}
    config = compose("nano")
    config.data = OmegaConf.merge(config.data, data)
    OmegaConf.resolve(config.actor_rollout_ref.rollout)

    async def once() -> list[Any]:
        loop = loop_class(
            trainer_config=DictConfigWrap(config),
            server_manager=server,
            tokenizer=TOKENIZER,
            processor=None,
            dataset_cls=SimpleNamespace,
            data_config=DictConfigWrap(config.data),
            hf_model_type=family,
        )
        return await loop.run({"temperature": 1.0, "top_p": 1.0}, **row)

    return asyncio.run(once())
