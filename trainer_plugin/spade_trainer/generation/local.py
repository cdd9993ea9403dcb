"""A transformers model in this process, behind the Generator seam, on top of the continuous-batching engine.

Accepts a folder in the transformers layout or a GGUF file (whose weights are unpacked to float32). The model is loaded by
`prepare`, not before: a command that fails earlier must not have waited for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spade_envs.errors import SpadeError
from spade_trainer.generation.generator import Answer, ChatMessage, ContextOverflow, Sampling

PROBE_TOOL = {"type": "function", "function": {"name": "probe", "description": "", "parameters": {"type": "object"}}}
PROBE_CHAT = [{"role": "user", "content": "?"}]


class LocalGenerator:
    """A causal language model on the CPU; on a GPU, serve it with vLLM and use the endpoint.

    Args:
        path: folder of a transformers model with a chat template, or a `.gguf` file.
        name: how the registry names the model; default: the absolute path.
        seed: seeds answers that bring no seed of their own.
    """

    def __init__(self, path: Path, *, name: str | None = None, seed: int = 0):
        self.path = path
        self.name = name or str(path.resolve())
        self.native_tools = False
        self._seed = seed
        self._engine: Any = None
        self._tokenizer: Any = None
        if not (path.suffix == ".gguf" and path.is_file()) and not (path / "config.json").is_file():
            raise SpadeError(f"{path} is not a model: expected a folder with a config.json, or a .gguf file")

    async def prepare(self) -> None:
        """Load the model. Raises `SpadeError` for one without a chat template or that transformers cannot read."""
        if self._engine is None:
            await asyncio.to_thread(self._load)

    async def generate(
        self, messages: Sequence[ChatMessage], sampling: Sampling, *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Answer:
        """Answer one conversation; concurrent ones are decoded together."""
        await self.prepare()
        prompt = self._encode(messages, tools)
        room = self._engine.max_length - len(prompt)
        if room < 1:
            raise ContextOverflow(f"{self.name}: {len(prompt)} tokens exceed the context of {self._engine.max_length}")
        parameters = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": min(sampling.max_tokens, room),
            "seed": sampling.seed,
        }
        generation = await self._engine.generate(prompt, parameters)
        return Answer(
            text=self._tokenizer.decode(generation.token_ids, skip_special_tokens=True),
            finish="length" if generation.stop_reason == "length" else "stop",
            prompt_tokens=len(prompt),
            tokens=len(generation.token_ids),
            log_probs=tuple(generation.log_probs),
        )

    async def close(self) -> None:
        """Stop the engine and free the model."""
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)
            self._engine = self._tokenizer = None

    def _load(self) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from spade_trainer.generation.engine import Engine

        source, options = (self.path, {}) if self.path.is_dir() else (self.path.parent, {"gguf_file": self.path.name})
        try:
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
            model = AutoModelForCausalLM.from_pretrained(source, attn_implementation="sdpa", **options)
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise SpadeError(f"transformers cannot load {self.path}: {' '.join(str(error).split())[:300]}") from error
        if not tokenizer.chat_template:
            raise SpadeError(f"{self.path} has no chat template; an instruction-tuned model is needed")
        self._tokenizer = tokenizer
        self.native_tools = self._encode(PROBE_CHAT, [PROBE_TOOL]) != self._encode(PROBE_CHAT, ())
        self._engine = Engine(model, seed=self._seed)

    def _encode(self, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        return self._tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=[dict(tool) for tool in tools] or None,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
