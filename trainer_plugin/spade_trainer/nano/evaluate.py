"""The evaluation of the nano model: what it designs, and how it plays that with and without its own hints.

Documents and nouns are those that the warm start never showed. Every program goes through the real gate as emitted: a
program that only passes after a repair does not count as valid. Run `python -m spade_trainer.nano.evaluate`.
"""

from __future__ import annotations

import ast
import json
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, Qwen3ForCausalLM

from spade_envs import gate
from spade_envs.contract import Program
from spade_envs.errors import SpadeError
from spade_envs.sandbox import Pool
from spade_trainer.corpus import Document, open_corpus
from spade_trainer.generation.engine import Engine
from spade_trainer.nano import MODEL, words
from spade_trainer.nano.demos import SKILLS, document
from spade_trainer.nano.heldout import held_out_games
from spade_trainer.nano.rollouts import PROGRAM_TOKENS, Arm, Model, play_all
from spade_trainer.prompts import render


@dataclass(frozen=True)
class Metrics:
    """What the acceptance of the model is judged by; all shares lie in [0, 1]."""

    valid: float
    """Raw answers of the designer that the gate accepts without a change."""
    distinct: int
    """Different accepted programs per 100 answers, names of classes and all strings removed."""
    grounded: float
    """Accepted programs whose class is named after a word of the title."""
    unhinted: float
    hinted: float
    """Mean win rates on its own games, with its own hints in the second."""
    spread: float
    """Share of its games whose unhinted plays were neither all lost nor all won."""
    learnable: float
    """Share of its games with an unhinted win rate in [0.2, 0.8]."""
    held_out_unhinted: float
    held_out_hinted: float
    """Mean win rates on the held-out games, with hints from the demonstrations in the second."""
    designs: int
    plays: int


@dataclass(frozen=True)
class Design:
    """One answer of the designer."""

    skill: str
    title: str
    text: str | None
    program: Program | None
    reason: str


def load(path: Path | str = MODEL) -> Model:
    """Load a nano model for evaluation."""
    model = Qwen3ForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="sdpa")
    tokenizer = AutoTokenizer.from_pretrained(path)
    end: Any = tokenizer.convert_tokens_to_ids("<|im_end|>")
    return Model(Engine(model, eos_token_ids=[end]), tokenizer)


def unseen_document(rng: random.Random) -> Document:
    """Draw a document that the warm start did not show: the other half of the corpus, or a held-out noun."""
    if rng.random() < 0.5:
        return rng.choice(open_corpus().documents[1::2])
    return document(rng, words.HELD_OUT_NOUNS)[0]


def design(model: Model, pool: Pool, count: int, *, temperature: float = 1.0, seed: int = 0) -> list[Design]:
    """Ask for programs and put each through the gate."""
    rng = random.Random(seed)
    briefs = [(SKILLS[i % len(SKILLS)], unseen_document(rng)) for i in range(count)]
    prompts = [
        model.prompt(
            render("designer_game", variant="nano", skill=skill, document=shown, seeds=[], negatives=[], max_turns=8)
        )
        for skill, shown in briefs
    ]
    texts = model.answer(prompts, temperature, PROGRAM_TOKENS, seed)
    return [_judge(skill, shown, text, pool) for (skill, shown), text in zip(briefs, texts, strict=True)]


def _judge(skill: str, shown: Document, text: str | None, pool: Pool) -> Design:
    title = shown.title or ""
    if text is None:
        return Design(skill, title, None, None, "cut")
    try:
        emitted = Program.from_source(text)
        report = gate.check(text, pool=pool)
    except SpadeError as error:
        return Design(skill, title, text, None, f"parse: {error}")
    if report.failure is not None:
        return Design(skill, title, text, None, ": ".join(report.failure))
    if report.program is None or report.program.sha256 != emitted.sha256:
        return Design(skill, title, text, None, "repair: the program only passes after a repair")
    return Design(skill, title, text, report.program, "")


def skeleton(source: str) -> str:
    """Return a program's structure: class names and all texts removed."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.name = "C"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def win_rates(
    model: Model,
    pool: Pool,
    games: Sequence[tuple[Program, str | None]],
    plays: int,
    *,
    temperature: float = 1.0,
    seed: int = 0,
) -> list[float]:
    """Play every game `plays` times on seeds 1000, 1001, ... and return its share of wins."""
    arms = [Arm(program, 1000 + i, hint) for program, hint in games for i in range(plays)]
    results = play_all(model, pool, arms, temperature, seed)
    rates = []
    for start in range(0, len(results), plays):
        scored = [one for one in results[start : start + plays] if not one.cut]
        rates.append(sum(one.won for one in scored) / len(scored) if scored else 0.0)
    return rates


def evaluate(model: Model, *, designs: int = 100, plays: int = 8, temperature: float = 1.0, seed: int = 0) -> Metrics:
    """Measure everything that the model is accepted by."""
    with Pool(max_workers=designs + 64) as pool:
        drawn = design(model, pool, designs, temperature=temperature, seed=seed)
        good = [one for one in drawn if one.program is not None]
        programs = [one.program for one in good if one.program is not None]
        hints = model.hints([one.source for one in programs], "", seed=seed)
        unhinted = win_rates(model, pool, [(one, None) for one in programs], plays, temperature=temperature)
        hinted = win_rates(model, pool, list(zip(programs, hints, strict=True)), plays, temperature=temperature)
        kept = [(Program.from_source(one.source), one.hints[0]) for one in held_out_games()]
        held = win_rates(model, pool, [(one, None) for one, _ in kept], plays, temperature=temperature)
        held_hinted = win_rates(model, pool, kept, plays, temperature=temperature)
    mean = statistics.mean
    names = [one.program.class_name.removesuffix("Env").lower() in one.title.lower() for one in good if one.program]
    return Metrics(
        valid=len(good) / designs,
        distinct=round(len({skeleton(one.source) for one in programs}) * 100 / designs),
        grounded=mean(names),
        unhinted=mean(unhinted),
        hinted=mean(hinted),
        spread=mean(0 < rate < 1 for rate in unhinted),
        learnable=mean(0.2 <= rate <= 0.8 for rate in unhinted),
        held_out_unhinted=mean(held),
        held_out_hinted=mean(held_hinted),
        designs=designs,
        plays=plays,
    )


def main() -> None:
    """Evaluate the model in the folder given, or the shipped one, and print the metrics as JSON."""
    torch.set_num_threads(min(2, torch.get_num_threads()))
    model = load(Path(sys.argv[1]) if len(sys.argv) > 1 else MODEL)
    print(json.dumps(asdict(evaluate(model)), indent=2))


if __name__ == "__main__":
    main()
