"""Sampling: logits in, tokens and their log-probabilities out, reproducibly, request by request.

Every request draws from a generator of its own, so what it samples does not depend on which other requests share its
batch. The log-probability is the one of the distribution that was sampled: after temperature, top-k and top-p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from spade_envs.errors import SpadeError


@dataclass(frozen=True)
class SamplingParams:
    """How one request is sampled. Unknown keys of a mapping are ignored, as inference servers differ in theirs."""

    max_tokens: int = 256
    temperature: float = 1.0
    """0 means greedy."""
    top_p: float = 1.0
    top_k: int = -1
    """-1 or 0 means all tokens."""
    seed: int | None = None
    """Seed of the request's own generator; None takes the engine's next one."""
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end the answer besides the end-of-sequence tokens."""
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.temperature < 0 or not 0 < self.top_p <= 1:
            raise SpadeError(
                "sampling needs max_tokens >= 1, temperature >= 0 and 0 < top_p <= 1; "
                f"got max_tokens={self.max_tokens}, temperature={self.temperature}, top_p={self.top_p}"
            )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, max_tokens: int) -> SamplingParams:
        """Read the keys that vLLM and verl use; `max_tokens` is the default when the mapping names none."""
        limit = values.get("max_tokens") or values.get("max_new_tokens") or max_tokens
        known = {
            name: values[name] for name in ("temperature", "top_p", "top_k", "seed", "ignore_eos") if name in values
        }
        return cls(max_tokens=int(limit), stop_token_ids=tuple(values.get("stop_token_ids") or ()), **known)


def sample(
    logits: torch.Tensor, params: Sequence[SamplingParams], uniforms: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample one token a row.

    Args:
        logits: `[batch, vocabulary]`.
        params: one per row.
        uniforms: `[batch]` numbers in [0, 1), one per row: the only randomness.

    Returns:
        Tokens `[batch]` and natural-log probabilities `[batch]` of them. Greedy rows report the probability at
        temperature 1.
    """
    temperature = torch.tensor([p.temperature or 1.0 for p in params]).unsqueeze(1)
    logprobs = torch.log_softmax(logits.float() / temperature, dim=-1)
    if any(p.top_p < 1 or p.top_k > 0 for p in params):
        logprobs = torch.log_softmax(_truncate(logprobs, params), dim=-1)
    cumulative = logprobs.double().exp().cumsum(-1)
    thresholds = uniforms.double().unsqueeze(1) * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, thresholds, right=True).squeeze(1).clamp(max=logits.shape[1] - 1)
    greedy = torch.tensor([p.temperature == 0 for p in params])
    if bool(greedy.any()):
        tokens = torch.where(greedy, logprobs.argmax(-1), tokens)
    return tokens, logprobs.gather(1, tokens.unsqueeze(1)).squeeze(1)


def _truncate(logprobs: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """Exclude all but the top-k tokens, and of those all beyond the smallest set that holds probability top-p."""
    ranked, order = logprobs.sort(dim=-1, descending=True)
    before = ranked.exp().cumsum(-1) - ranked.exp()
    top_p = torch.tensor([p.top_p for p in params]).unsqueeze(1)
    top_k = torch.tensor([p.top_k if p.top_k > 0 else logprobs.shape[1] for p in params]).unsqueeze(1)
    outside = (before >= top_p) | (torch.arange(logprobs.shape[1]) >= top_k)
    return logprobs.masked_fill(torch.zeros_like(outside).scatter(1, order, outside), float("-inf"))
