"""`python -m spade_trainer.nano.make [FOLDER]`: make the nano model again, from nothing but the seed.

Tokenizer, demonstrations, warm start, evaluation; some 20 minutes on two cores. The folder defaults to the package's own
`model/`; `metrics.json` there says what was measured and how far a run made again may differ (`tolerance`): weights depend
on the order of floating-point sums, and with it on the machine, so metrics are compared and not bits.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from spade_trainer.nano import MODEL, tokenizer, warmstart
from spade_trainer.nano.demos import draw_demo
from spade_trainer.nano.evaluate import evaluate, load
from spade_trainer.nano.warmstart import Recipe

TOKENIZER_ROWS = 4000
TOLERANCE = {
    "valid": 0.10,
    "distinct": 15,
    "grounded": 0.15,
    "unhinted": 0.10,
    "hinted": 0.10,
    "spread": 0.15,
    "learnable": 0.15,
    "held_out_unhinted": 0.10,
    "held_out_hinted": 0.12,
}


def make(folder: Path, recipe: Recipe | None = None) -> None:
    """Train and evaluate a model and save it with its tokenizer and metrics in `folder`."""
    recipe = recipe or Recipe()
    torch.manual_seed(recipe.seed)
    rng = random.Random(recipe.seed + 1)
    words = tokenizer.train(chat(draw_demo(rng)[1]) for _ in range(TOKENIZER_ROWS))
    rows = warmstart.demonstrations(words, recipe)
    print(f"{len(rows)} demonstrations, {sum(len(row.tokens) for row in rows) / 1e6:.1f} M tokens", flush=True)
    model = warmstart.build(recipe, words)
    pad = model.config.pad_token_id
    assert pad is not None
    warmstart.fit(model, rows, recipe, pad, log=lambda line: print(line, flush=True))
    model.generation_config.eos_token_id = [model.config.eos_token_id]
    model.generation_config.pad_token_id = pad
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    metrics = asdict(evaluate(load(folder)))
    report = {"metrics": metrics, "tolerance": TOLERANCE, "recipe": asdict(recipe)}
    (folder / "metrics.json").write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(metrics, indent=2))


def chat(messages: list) -> str:
    """Render a conversation as the chat template does."""
    return "".join(f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in messages)


if __name__ == "__main__":
    torch.set_num_threads(2)
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else MODEL)
