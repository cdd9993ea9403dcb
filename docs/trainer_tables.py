"""The tables of docs/trainer.md that follow from the code: every setting, and the presets beside the paper.

`docs/generate.py` writes them between the page's markers; a test compares them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from spade_trainer.config import settings
from spade_trainer.presets import compose, describe, names

PAGE = Path(__file__).parent / "trainer.md"
SHOWN = ("nano", "smollm2-135m", "qwen3-4b", "qwen3-8b", "qwen3-30b-a3b")
# What the paper (arXiv 2608.19197: section 3, Table 5) says, and the setting that says it here.
PAPER = (
    ("learning rate, constant", "1e-6", "actor_rollout_ref.actor.optim.lr"),
    ("Adam's betas", "0.9, 0.98", "actor_rollout_ref.actor.optim.betas"),
    ("weight decay", "0.1", "actor_rollout_ref.actor.optim.weight_decay"),
    ("clipping below", "0.20", "actor_rollout_ref.actor.clip_ratio_low"),
    ("clipping above", "0.28", "actor_rollout_ref.actor.clip_ratio_high"),
    ("KL term", "none; 0.005 (8B)", "actor_rollout_ref.actor.use_kl_loss"),
    ("its coefficient, where used", "0.005 (8B)", "actor_rollout_ref.actor.kl_loss_coef"),
    ("correction of delayed samples", "truncated importance sampling", "algorithm.rollout_correction.rollout_is"),
    ("its bound", "not given", "algorithm.rollout_correction.rollout_is_threshold"),
    ("steps", "400", "trainer.total_training_steps"),
    ("updates a step (192 samples each)", "2 of 384 plays", "spade.updates_per_step"),
    ("skills of a set", "3", "spade.active_skills"),
    ("environments a skill", "8", "spade.environments_per_skill"),
    ("interval k", "4; 8 (tool use)", "spade.interval"),
    ("delay", "k", "spade.delay"),
    ("plays, group size G", "16", "spade.player.plays"),
    ("hinted plays", "16", "spade.player.hinted_plays"),
    ("player's temperature", "0.6", "spade.player.temperature"),
    ("player's tokens an action", "8,192", "spade.player.max_tokens"),
    ("turns of a play", "25", "spade.player.max_turns"),
    ("designer's temperature", "0.6", "spade.designer.temperature"),
    ("designer's tokens", "16,384; 20,000 (8B)", "spade.designer.max_tokens"),
    ("attempts a slot", "5", "spade.designer.attempts"),
    ("temperature of hints", "0.3", "spade.designer.hint_temperature"),
    ("cap of the designer's weight", "50", "spade.designer.weight_cap"),
    ("weight of the plateau", "0.6", "spade.reward.plateau_weight"),
    ("band of the plateau, low", "0.4; later 0.2 (4B)", "spade.reward.band_low"),
    ("band of the plateau, high", "0.6; later 0.4 (4B)", "spade.reward.band_high"),
    ("ramp of the plateau", "0.25", "spade.reward.ramp"),
    ("weight of the regret", "0.4", "spade.reward.regret_weight"),
    ("scale of the regret", "0.15", "spade.reward.regret_scale"),
    ("floor of the regret", "0", "spade.reward.regret_floor"),
    ("reward after a timeout", "-0.5", "spade.reward.timeout"),
    ("memory", "200", "spade.memory.capacity"),
    ("examples from memory", "2", "spade.memory.seeds"),
    ("negatives from memory", "1", "spade.memory.negatives"),
    ("words of a document", "6,000", "spade.corpus.max_words"),
    ("tokens of a prompt", "32,768 in all", "data.max_prompt_length"),
    ("tokens of an episode after it", "", "data.max_response_length"),
)


def render(page: str) -> str:
    """Return the page with its generated parts made new."""
    for name, table in (("presets", presets()), ("values", values()), ("settings", options())):
        begin, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        page = re.sub(f"{begin}.*?{end}", lambda _, text=f"{begin}\n{table}\n{end}": text, page, flags=re.DOTALL)
    return page


def presets() -> str:
    """Return the table of the presets."""
    return "\n".join(["| preset | |", "|---|---|", *(f"| `{name}` | {describe(name)} |" for name in names())])


def values() -> str:
    """Return the table of the paper's values and where they stand."""
    configs = [compose(name) for name in SHOWN]
    lines = [f"| | paper | setting | {' | '.join(SHOWN)} |", "|---" * (3 + len(SHOWN)) + "|"]
    for label, paper, name in PAPER:
        cells = [_cell(OmegaConf.select(config, name)) for config in configs]
        lines.append(f"| {label} | {paper} | `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def options() -> str:
    """Return the table of every setting of the method."""
    lines = ["| setting | type | default | meaning | source |", "|---|---|---|---|---|"]
    for one in settings():
        kind = f"{one.type} {one.accepts}".strip()
        lines.append(f"| `{one.name}` | {kind} | {_cell(one.default)} | {one.doc} | {one.source} |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else yaml.safe_dump(value).splitlines()[0]


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
