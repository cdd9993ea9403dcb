"""The warm start: supervised training from scratch on the demonstrations, on a CPU, in one pass over a fixed list.

The assistant's tokens are learned, and in plays, with less weight, the environment's. Batches hold rows of similar length and a bounded number of padded tokens. Muon
updates the matrices of the layers, AdamW the rest (K. Jordan et al., 2024: fewer tokens to the same loss than AdamW alone).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from spade_trainer.nano.demos import draw_demo
from spade_trainer.prompts import Message

ROLE_WEIGHT = {"designer": 1.0, "hint": 1.0, "player": 3.0}  # a play has few tokens of its own, a program has many
# Learning to foresee the environment's words as well teaches a small model to look back: most of them repeat something.
OBSERVATION_WEIGHT = 0.3
# Few different shapes: the CPU's matrix library compiles, and keeps, a kernel for each.
BUCKET = 32
LEARNED_BUCKET = 512


@dataclass(frozen=True)
class Recipe:
    """Everything the warm start depends on."""

    seed: int = 1
    rows: int = 60_000
    batch_tokens: int = 8192
    learning_rate: float = 3e-3
    hidden: int = 160
    layers: int = 4
    heads: int = 5
    intermediate: int = 448
    warmup: int = 60


@dataclass(frozen=True)
class Row:
    """One tokenised conversation; a token's weight is 0 where nothing is learned from it."""

    tokens: list[int]
    weights: list[float]


def tokenise(tokenizer: PreTrainedTokenizerFast, role: str, messages: Sequence[Message]) -> Row:
    """Encode a conversation message by message, as it grows in a run."""
    tokens: list[int] = []
    weights: list[float] = []
    opening = tokenizer.encode("<|im_start|>assistant\n", add_special_tokens=False)
    for message in messages:
        text = f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
        part = tokenizer.encode(text, add_special_tokens=False)
        tokens += part
        if message["role"] == "assistant":
            weights += [0.0] * len(opening) + [ROLE_WEIGHT[role]] * (len(part) - len(opening) - 1) + [0.0]
        else:
            seen = role == "player" and message["role"] == "user"
            weights += [OBSERVATION_WEIGHT if seen else 0.0] * len(part)
    return Row(tokens, weights)


def demonstrations(tokenizer: PreTrainedTokenizerFast, recipe: Recipe) -> list[Row]:
    """Draw and encode all rows of a recipe."""
    rng = random.Random(recipe.seed)
    return [tokenise(tokenizer, *draw_demo(rng)) for _ in range(recipe.rows)]


def build(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Return an untrained model."""
    torch.manual_seed(recipe.seed)
    ends: list[Any] = [tokenizer.convert_tokens_to_ids(token) for token in ("<|im_end|>", "<|endoftext|>")]
    end, pad = ends
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=recipe.hidden,
            intermediate_size=recipe.intermediate,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            head_dim=32,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            attn_implementation="sdpa",  # type: ignore[call-arg]  # of the base class
            eos_token_id=end,
            pad_token_id=pad,
            bos_token_id=None,
        )
    )


def batches(rows: Sequence[Row], recipe: Recipe) -> list[list[Row]]:
    """Group rows of similar length, at most `batch_tokens` padded tokens a batch, in random order."""
    rng = random.Random(recipe.seed)
    order = list(range(len(rows)))
    rng.shuffle(order)
    result: list[list[Row]] = []
    for start in range(0, len(order), 2048):
        chunk = sorted((rows[i] for i in order[start : start + 2048]), key=lambda row: len(row.tokens))
        groups = list(_fill(chunk, recipe.batch_tokens))
        rng.shuffle(groups)
        result += groups
    return result


def _fill(rows: Sequence[Row], limit: int) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:  # from short to long, so the newest row is the longest
        if group and (len(group) + 1) * -(-len(row.tokens) // BUCKET) * BUCKET > limit:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def tensors(rows: Sequence[Row], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad on the right: tokens and weights, both `[rows, length]`, the length a multiple of `BUCKET`."""
    longest = -(-max(len(row.tokens) for row in rows) // BUCKET) * BUCKET
    tokens = torch.full((len(rows), longest), pad)
    weights = torch.zeros(len(rows), longest)
    for i, row in enumerate(rows):
        tokens[i, : len(row.tokens)] = torch.tensor(row.tokens)
        weights[i, : len(row.weights)] = torch.tensor(row.weights)
    return tokens, weights


def _learned(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Places of the tokens that are learned, filled up to a multiple of `LEARNED_BUCKET` with others of weight 0."""
    flat = weights.flatten()
    order = torch.argsort((flat > 0).to(torch.int8), descending=True, stable=True)
    count = int((flat > 0).sum())
    chosen = order[: min(len(order), -(-count // LEARNED_BUCKET) * LEARNED_BUCKET)].sort().values
    return torch.div(chosen, weights.shape[1], rounding_mode="floor"), chosen % weights.shape[1]


def optimisers(model: torch.nn.Module, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings and norms."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    return [
        torch.optim.Muon(matrices, lr=learning_rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def fast_autocast() -> torch.autocast:
    """bfloat16 where the CPU multiplies it in hardware, else plain float32."""
    return torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_amx_tile_supported())


def fit(
    model: Qwen3ForCausalLM, rows: Sequence[Row], recipe: Recipe, pad: int, log: Callable[[str], None] = print
) -> Qwen3ForCausalLM:
    """Train in one pass over `rows`."""
    plan = batches(rows, recipe)
    optimizers = optimisers(model, recipe.learning_rate)
    started, running = time.monotonic(), 0.0
    model.train()
    for step, group in enumerate(plan):
        progress = step / len(plan)
        rate = (
            recipe.learning_rate
            * min(1.0, (step + 1) / recipe.warmup)
            * (0.05 + 0.475 * (1 + math.cos(math.pi * progress)))
        )
        tokens, weights = tensors(group, pad)
        learned = _learned(weights[:, 1:])
        weight = weights[:, 1:][learned]
        with fast_autocast():
            states = model.model(input_ids=tokens).last_hidden_state
            logits = model.lm_head(states[:, :-1][learned])
        losses = functional.cross_entropy(logits.float(), tokens[:, 1:][learned], reduction="none")
        loss = (losses * weight).sum() / weight.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for parameters in optimizer.param_groups:
                parameters["lr"] = rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        running = loss.item() if step == 0 else 0.97 * running + 0.03 * loss.item()
        if step % 50 == 0 or step == len(plan) - 1:
            log(f"step {step + 1}/{len(plan)} loss {running:.3f} after {time.monotonic() - started:.0f} s")
    return model.eval()
