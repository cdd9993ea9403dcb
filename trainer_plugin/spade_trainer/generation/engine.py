"""Continuous batching over a transformers model: requests join and leave between two decoding steps.

One thread runs the model. Before each decoding step it takes in what has arrived and computes the prompts of the new
requests in one padded pass; then it decodes one token for all running requests at once. Keys and values stay in their
row of the cache (`cache.py`), so a turn of a multi-turn play computes its new tokens only.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from spade_envs.errors import SpadeError
from spade_trainer.generation.cache import BLOCK, Row, RowCache
from spade_trainer.generation.sampling import SamplingParams, sample

PREFILL_TOKENS = 4096  # padded tokens of one prompt pass: bounds its memory, and how long decoding waits for it
CACHE_TOKENS = 262_144  # rows x positions of the key-value cache
StopReason = Literal["stop", "length"]


class Generation(NamedTuple):
    """A finished answer."""

    token_ids: list[int]
    """Sampled tokens, the end-of-sequence token included."""
    log_probs: list[float]
    """Natural-log probability of each token under the distribution it was sampled from."""
    stop_reason: StopReason


@dataclass(eq=False)
class _Request:
    prompt: list[int]
    params: SamplingParams
    future: Future[Generation]
    random: np.random.Generator
    row: Row | None = None
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)


class _Load(NamedTuple):
    state: Mapping[str, torch.Tensor]
    future: Future[None]


class Engine:
    """Samples from a causal language model for many concurrent requests.

    Args:
        model: a decoder-only transformers model with full attention in all layers, in evaluation mode.
        eos_token_ids: tokens that end an answer; default: the model's generation configuration.
        max_rows: most sequences in the cache, and so in one batch.
        max_length: most tokens of prompt and answer together; default: the model's limit.
        seed: seeds the generators of requests that bring no seed.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        eos_token_ids: Sequence[int] | None = None,
        max_rows: int = 256,
        max_length: int | None = None,
        cache_tokens: int = CACHE_TOKENS,
        seed: int = 0,
    ):
        self.model = model.eval()
        self.eos = frozenset(_eos(model) if eos_token_ids is None else eos_token_ids)
        self.max_length = min(max_length or model.config.max_position_embeddings, model.config.max_position_embeddings)
        self.prefilled = 0
        """Prompt tokens computed so far."""
        self.reused = 0
        """Prompt tokens found in the cache so far."""
        self._cache = RowCache(model.config, max_rows=max_rows, max_tokens=max(cache_tokens, self.max_length))
        self._seeds = np.random.SeedSequence(seed)
        self._inbox: queue.SimpleQueue[_Request | _Load | None] = queue.SimpleQueue()
        self._loads: list[_Load] = []
        self._waiting: list[_Request] = []
        self._running: list[_Request] = []
        self._thread = threading.Thread(target=self._serve, name="generation", daemon=True)
        self._thread.start()

    # -- callers -------------------------------------------------------------------------------------------------

    def submit(
        self, prompt_ids: Sequence[int], sampling_params: Mapping[str, Any] | SamplingParams
    ) -> Future[Generation]:
        """Queue a request. Raises `SpadeError` for an empty prompt or one that leaves no room for an answer."""
        room = self.max_length - len(prompt_ids)
        if not prompt_ids or room < 1:
            raise SpadeError(f"a prompt has 1 to {self.max_length - 1} tokens, got {len(prompt_ids)}")
        if not isinstance(sampling_params, SamplingParams):
            sampling_params = SamplingParams.from_mapping(sampling_params, max_tokens=room)
        seed = self._seeds.spawn(1)[0] if sampling_params.seed is None else sampling_params.seed
        request = _Request(list(prompt_ids), sampling_params, Future(), np.random.Generator(np.random.PCG64(seed)))
        self._inbox.put(request)
        return request.future

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling_params: Mapping[str, Any] | SamplingParams,
        request_id: str | None = None,
    ) -> Generation:
        """Answer one prompt. A prompt that continues an earlier one computes its new tokens only.

        `request_id` is accepted for inference clients that send one; the cache recognises prompts by their tokens.
        """
        return await asyncio.wrap_future(self.submit(prompt_ids, sampling_params))

    def generate_batch(
        self, prompts: Sequence[Sequence[int]], sampling_params: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> list[Generation]:
        """Answer many prompts, with one set of parameters or one per prompt, and wait for all of them."""
        each = [sampling_params] * len(prompts) if isinstance(sampling_params, Mapping) else sampling_params
        futures = [self.submit(prompt, params) for prompt, params in zip(prompts, each, strict=True)]
        return [future.result() for future in futures]

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Copy weights into the model by name, as soon as no request is running, and forget the cached prefixes.

        Raises `SpadeError` for names the model does not have.
        """
        load = _Load(state, Future())
        self._inbox.put(load)
        load.future.result()

    def close(self) -> None:
        """Stop the thread; requests that are still running fail."""
        self._inbox.put(None)
        self._thread.join()

    # -- the thread ----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        with torch.inference_mode():
            while self._receive():
                try:
                    self._admit()
                    self._decode()
                except Exception as error:  # the requests at hand fail with it; the engine lives on
                    self._fail(error)
        self._fail(RuntimeError("the engine was closed"))

    def _receive(self) -> bool:
        """Take in what has arrived, waiting only when there is nothing to do. False ends the thread."""
        while True:
            if self._loads and not self._running:
                self._load(self._loads.pop(0))
            try:
                item = self._inbox.get(block=not (self._waiting or self._running or self._loads))
            except queue.Empty:
                return True
            if item is None:
                return False
            if isinstance(item, _Load):
                self._loads.append(item)
            else:
                self._waiting.append(item)

    def _load(self, load: _Load) -> None:
        try:
            unknown = self.model.load_state_dict(dict(load.state), strict=False).unexpected_keys
            if unknown:
                raise SpadeError(f"the model has no weights named {', '.join(unknown[:3])}")
        except Exception as error:
            load.future.set_exception(error)
        else:
            load.future.set_result(None)
        finally:
            self._cache.clear()

    def _admit(self) -> None:
        """Give waiting requests a row and compute their prompts, the short ones together.

        A prompt whose beginning another one of this round is about to compute waits for the next round, and copies it.
        """
        while self._waiting and not self._loads:
            chosen, self._waiting = self._choose()
            for group in _passes(chosen):
                self._prefill(group)
            if not chosen:
                return

    def _choose(self) -> tuple[list[_Request], list[_Request]]:
        chosen: list[_Request] = []
        later: list[_Request] = []
        openings: set[tuple[int, ...]] = set()
        for position, request in enumerate(self._waiting):
            opening = tuple(request.prompt[:BLOCK])
            if opening in openings:
                later.append(request)
                continue
            request.row = self._cache.acquire(request.prompt)
            if request.row is None:
                later.extend(self._waiting[position:])
                break
            if not request.row.filled and len(opening) == BLOCK:
                openings.add(opening)
            chosen.append(request)
        return chosen, later

    def _prefill(self, requests: Sequence[_Request]) -> None:
        rows = [request.row for request in requests if request.row is not None]
        new = [row.tokens[row.filled :] for row in rows]
        longest = max(map(len, new))
        starts = torch.tensor([row.filled for row in rows])
        inputs = torch.tensor([tokens + [0] * (longest - len(tokens)) for tokens in new])
        self.prefilled += sum(map(len, new))
        self.reused += int(starts.sum())
        self._cache.reserve(int(starts.max()) + longest + 1)
        positions = starts.unsqueeze(1) + torch.arange(longest)
        hidden = self._forward(rows, inputs, positions)
        last = torch.tensor([len(tokens) - 1 for tokens in new])
        for row in rows:
            row.filled = len(row.tokens)
            self._cache.publish(row)
        self._running.extend(requests)
        self._extend(list(requests), hidden[torch.arange(len(rows)), last])

    def _decode(self) -> None:
        if not self._running:
            return
        busy = [request.row for request in self._running if request.row is not None]
        self._cache.reserve(max(len(row.tokens) for row in busy) + 1)
        if max(row.index for row in busy) >= len(busy) + len(busy) // 4:
            self._cache.compact(busy)
        # Rows between the running ones are computed along and ignored: cheaper than gathering all others at each step.
        rows = self._cache.rows[: max(row.index for row in busy) + 1]
        place = {row.index: request for row, request in zip(busy, self._running, strict=True)}
        inputs = torch.tensor([[row.tokens[-1] if row.index in place else 0] for row in rows])
        positions = torch.tensor([[row.filled] for row in rows])
        hidden = self._forward(rows, inputs, positions, width=max(len(row.tokens) for row in busy))
        for row in busy:
            row.filled += 1
        order = sorted(place)
        self._extend([place[index] for index in order], hidden[order, 0])

    def _forward(
        self, rows: Sequence[Row], inputs: torch.Tensor, positions: torch.Tensor, width: int | None = None
    ) -> torch.Tensor:
        """Run the decoder on `inputs` `[rows, query]` and return its hidden states `[rows, query, hidden]`."""
        width = width or int(positions.max()) + 1
        self._cache.select(rows, positions, width)
        mask = torch.arange(width) <= positions[:, None, :, None]
        decoder = self.model.get_decoder()
        return decoder(
            input_ids=inputs, attention_mask=mask, position_ids=positions, past_key_values=self._cache, use_cache=True
        ).last_hidden_state

    def _extend(self, requests: list[_Request], hidden: torch.Tensor) -> None:
        """Sample the next token of each request and finish those that end with it."""
        uniforms = torch.tensor([request.random.random() for request in requests], dtype=torch.float64)
        logits = self.model.get_output_embeddings()(hidden)
        tokens, log_probs = sample(logits, [request.params for request in requests], uniforms)
        done = set()
        for request, token, log_prob in zip(requests, tokens.tolist(), log_probs.tolist(), strict=True):
            request.tokens.append(token)
            request.log_probs.append(log_prob)
            assert request.row is not None
            request.row.tokens.append(token)
            reason = self._stop_reason(request, token)
            if reason is not None:
                done.add(request)
                self._cache.release(request.row)
                if not request.future.cancelled():
                    request.future.set_result(Generation(request.tokens, request.log_probs, reason))
        if done:
            self._running = [request for request in self._running if request not in done]

    def _stop_reason(self, request: _Request, token: int) -> StopReason | None:
        params = request.params
        if (token in self.eos and not params.ignore_eos) or token in params.stop_token_ids:
            return "stop"
        full = len(request.prompt) + len(request.tokens) >= self.max_length
        return "length" if full or len(request.tokens) >= params.max_tokens else None

    def _fail(self, error: Exception) -> None:
        for request in (*self._running, *self._waiting):
            if request.row is not None:
                request.row.busy, request.row.filled = False, 0
                self._cache.release(request.row)
            if not request.future.done():
                request.future.set_exception(error)
        self._running, self._waiting = [], []


def _passes(requests: Sequence[_Request]) -> list[list[_Request]]:
    """Split requests into prompt passes: similar lengths together, at most `PREFILL_TOKENS` padded tokens each."""

    def length(request: _Request) -> int:
        assert request.row is not None
        return len(request.row.tokens) - request.row.filled

    passes: list[list[_Request]] = []
    for request in sorted(requests, key=length):
        group = passes[-1] if passes else None
        small = group is not None and (len(group) + 1) * length(request) <= PREFILL_TOKENS
        if group is not None and small and length(request) <= 2 * length(group[0]) + 16:
            group.append(request)
        else:
            passes.append([request])
    return passes


def _eos(model: PreTrainedModel) -> list[int]:
    generation = model.generation_config.eos_token_id if model.generation_config is not None else None
    value = generation if generation is not None else model.config.eos_token_id
    return [] if value is None else [value] if isinstance(value, int) else list(value)
