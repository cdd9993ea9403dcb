"""Designs and plays of the nano model, in batches: what evaluation and the learning benchmark are made of.

All plays of a list go on side by side: each round asks the engine for one action of every running play, then steps the
environments program by program in the sealed pool. Prompts come from `spade_trainer.prompts` in the variant `nano`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedTokenizerBase

from spade_envs.contract import Fault, Program, StepResult, is_win
from spade_envs.sandbox import Loaded, Pool
from spade_trainer.generation.engine import Engine
from spade_trainer.method.seeding import derive
from spade_trainer.prompts import render

PROGRAM_TOKENS = 512
HINT_TOKENS = 80
ACTION_TOKENS = 24
MAX_TURNS = 25


@dataclass(frozen=True)
class Arm:
    """A play to be made: a program, the seed of its instance, and the hint the player sees, if any."""

    program: Program
    seed: int
    hint: str | None = None


@dataclass
class Result:
    """A play that was made."""

    arm: Arm
    won: bool = False
    cut: bool = False
    """The token limit ended an action, or the program failed: the play does not count."""
    turns: int = 0
    tokens: list[int] = field(default_factory=list)
    """The whole conversation."""
    own: list[bool] = field(default_factory=list)
    """Which of the tokens the model wrote."""
    log_probs: list[float] = field(default_factory=list)
    """Natural-log probabilities of the model's tokens, 0 elsewhere."""


@dataclass
class _Running:
    result: Result
    loaded: Loaded
    instance: int
    done: bool = False


class Model:
    """A nano model with its tokenizer, ready to be asked."""

    def __init__(self, engine: Engine, tokenizer: PreTrainedTokenizerBase):
        self.engine, self.tokenizer = engine, tokenizer
        self.end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        self.newline = tokenizer.encode("\n", add_special_tokens=False)

    def answer(self, prompts: Sequence[list[int]], temperature: float, max_tokens: int, seed: int) -> list[str | None]:
        """Answer prompts; None where the token limit ended the answer."""
        params = [
            {"temperature": temperature, "max_tokens": max_tokens, "seed": derive(seed, i)} for i in range(len(prompts))
        ]
        generations = self.engine.generate_batch(prompts, params)
        return [self.text(one.token_ids) if one.stop_reason == "stop" else None for one in generations]

    def prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Encode messages with the opening of the assistant's turn."""
        return list(
            self.tokenizer.apply_chat_template(
                [dict(one) for one in messages], add_generation_prompt=True, return_dict=False
            )
        )

    def text(self, tokens: Sequence[int]) -> str:
        """Decode an answer without its end."""
        return str(self.tokenizer.decode([token for token in tokens if token != self.end]))

    def hints(self, sources: Sequence[str], skill: str, temperature: float = 0.3, seed: int = 0) -> list[str | None]:
        """Write a hint for each program."""
        prompts = [self.prompt(render("hint_game", variant="nano", source=one, skill=skill)) for one in sources]
        return self.answer(prompts, temperature, HINT_TOKENS, derive(seed, "hint"))


def play_all(model: Model, pool: Pool, arms: Sequence[Arm], temperature: float = 1.0, seed: int = 0) -> list[Result]:
    """Make all plays and return them in the order of `arms`."""
    running = _open(model, pool, arms)
    live = [one for one in running if not one.done]
    while live:
        params = [
            {"temperature": temperature, "max_tokens": ACTION_TOKENS, "seed": derive(seed, i, one.result.turns)}
            for i, one in enumerate(running)
            if not one.done
        ]
        generations = model.engine.generate_batch([one.result.tokens for one in live], params)
        acting: list[tuple[_Running, str]] = []
        for one, generation in zip(live, generations, strict=True):
            result = one.result
            result.turns += 1
            _append(result, generation.token_ids, generation.log_probs)
            if generation.stop_reason == "stop":
                acting.append((one, model.text(generation.token_ids)))
            else:
                result.cut = one.done = True
        _step(model, acting)
        for one in live:
            if one.done:
                one.loaded.close([one.instance])
        live = [one for one in live if not one.done]
    return [one.result for one in running]


def _open(model: Model, pool: Pool, arms: Sequence[Arm]) -> list[_Running]:
    running: list[_Running] = []
    for arm in arms:
        loaded = pool.load(arm.program)
        running.append(_Running(Result(arm), loaded, loaded.make(1)[0]))
    for loaded, group in _by_program(running).items():
        answers = loaded.reset([one.instance for one in group], [one.result.arm.seed for one in group])
        for one, answer in zip(group, answers, strict=True):
            if isinstance(answer, Fault):
                one.result.cut = one.done = True
                continue
            messages = render("player", variant="nano", hint=one.result.arm.hint)
            _append(one.result, model.prompt([*messages, {"role": "user", "content": answer.observation}]))
    return running


def _step(model: Model, acting: Sequence[tuple[_Running, str]]) -> None:
    actions = {id(one): action for one, action in acting}
    for loaded, group in _by_program([one for one, _ in acting]).items():
        answers = loaded.step([one.instance for one in group], [actions[id(one)] for one in group])
        for one, answer in zip(group, answers, strict=True):
            _take(model, one, answer)


def _take(model: Model, one: _Running, answer: StepResult | Fault) -> None:
    result = one.result
    if isinstance(answer, Fault):
        result.cut = one.done = True
    elif answer.terminated or answer.truncated or result.turns >= MAX_TURNS:
        result.won, one.done = answer.terminated and is_win(answer.reward), True
    else:
        text = f"<|im_start|>user\n{answer.observation}<|im_end|>\n<|im_start|>assistant\n"
        _append(result, model.newline + model.tokenizer.encode(text, add_special_tokens=False))


def _append(result: Result, tokens: Sequence[int], log_probs: Sequence[float] | None = None) -> None:
    result.tokens += tokens
    result.own += [log_probs is not None] * len(tokens)
    result.log_probs += log_probs if log_probs is not None else [0.0] * len(tokens)


def _by_program(running: Sequence[_Running]) -> dict[Loaded, list[_Running]]:
    groups: dict[Loaded, list[_Running]] = defaultdict(list)
    for one in running:
        groups[one.loaded].append(one)
    return groups
