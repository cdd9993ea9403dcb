"""A rollout backend for the CPU: the continuous-batching engine as a Ray actor, behind verl's server interface.

verl's backends (vLLM, SGLang, TensorRT-LLM) need an accelerator. The server answers token ids with token ids and
log-probabilities; the adapter lives in the training worker and sends the weights over after each update.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

CONCURRENCY = 4096


def server_name(replica: int) -> str:
    """Name of a replica's actor, by which the training worker finds it."""
    return f"spade_cpu_server_{replica}"


class CPUServer:
    """The actor that generates."""

    def __init__(self, model_path: str, threads: int, max_rows: int, max_length: int, seed: int):
        from transformers import AutoModelForCausalLM

        from spade_trainer.generation.engine import Engine

        torch.set_num_threads(threads)
        model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32, attn_implementation="sdpa")
        self._engine = Engine(model, max_rows=max_rows, max_length=max_length, seed=seed)
        self._step = 0

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """Answer one request; `global_steps` says with which weights."""
        answer = await self._engine.generate(prompt_ids, sampling_params, request_id)
        return TokenOutput(
            token_ids=answer.token_ids,
            log_probs=answer.log_probs,
            stop_reason="completed" if answer.stop_reason == "stop" else "length",
            extra_fields={"global_steps": self._step},
        )

    def load(self, state: dict[str, torch.Tensor], global_steps: int | None) -> None:
        """Take new weights."""
        self._engine.load(state)
        if global_steps is not None:
            self._step = global_steps

    def ready(self) -> bool:
        """Answer once the model is loaded."""
        return True

    # The engine shares no device memory with the trainer, so there is nothing to free, abort or resume.
    def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    wake_up = sleep = abort_all_requests = resume_generation = _nothing
    clear_kv_cache = release_kv_cache = resume_kv_cache = start_profile = stop_profile = _nothing


class CPUReplica(RolloutReplica):
    """One server per training rank."""

    async def launch_servers(self) -> None:
        """Start the actor and wait until its model is loaded."""
        config = self.config
        path = getattr(self.model_config, "local_path", None) or self.model_config.path
        options = {"name": server_name(self.replica_rank), "num_cpus": 0, "max_concurrency": CONCURRENCY}
        server: Any = (
            ray.remote(CPUServer)
            .options(**options)
            .remote(
                path,
                threads=max(1, (os.cpu_count() or 1) // max(self.gpus_per_node, 1)),
                max_rows=config.max_num_seqs,
                max_length=config.max_model_len or config.prompt_length + config.response_length,
                seed=config.seed + self.replica_rank,
            )
        )
        await server.ready.remote()
        self.servers, self._server_handle, self._server_address = (
            [server],
            server,
            f"ray:{server_name(self.replica_rank)}",
        )


class CPUAdapter(BaseRollout):
    """The training worker's end: sends weights to its replica."""

    _server: Any = None

    async def resume(self, tags: list[str]) -> None:
        """Do nothing: the server's memory is its own."""

    async def release(self) -> None:
        """Do nothing: the server's memory is its own."""

    async def update_weights(
        self, weights: Any, wire_format: str = "named_tensors", global_steps: int | None = None, **_: Any
    ) -> None:
        """Send all weights in one message."""
        state = {name: tensor.detach().float().cpu() async for name, tensor in _each(weights)}
        if self._server is None:
            self._server = ray.get_actor(server_name(int(os.environ.get("RANK", "0"))))
        await self._server.load.remote(state, global_steps)


async def _each(weights: Any) -> Any:
    if hasattr(weights, "__aiter__"):
        async for item in weights:
            yield item
    else:
        for item in weights:
            yield item
