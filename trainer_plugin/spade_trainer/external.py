"""An external designer: the same jobs, answered by a model behind an OpenAI-compatible endpoint; it is not trained."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from spade_envs.sandbox import default_pool
from spade_trainer import prompts
from spade_trainer.config import DesignerConfig
from spade_trainer.design import Design, Job, Reply, design
from spade_trainer.generation.generator import Sampling
from spade_trainer.generation.models import EndpointOptions, open_generator


async def write_designs(jobs: Sequence[Job], config: DesignerConfig) -> list[Design]:
    """Do all jobs at once. Raises `SpadeError` when the endpoint cannot be had."""
    assert config.endpoint is not None
    assert config.model is not None
    model = open_generator(config.model, EndpointOptions(base_url=config.endpoint))

    async def ask(
        messages: Sequence[prompts.Message], *, purpose: str, temperature: float, max_tokens: int, seed: int
    ) -> Reply:
        answer = await model.generate(messages, Sampling(temperature, max_tokens, seed=seed))
        return Reply(answer.text, answer.finish == "length")

    try:
        await model.prepare()
        return list(await asyncio.gather(*(design(job, ask, config, default_pool()) for job in jobs)))
    finally:
        await model.close()
