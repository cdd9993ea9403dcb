"""verl's advantage estimator `spade`: one environment's plays are compared with one another, and standardised.

verl hands an estimator rewards, masks and group names only. The trainer (`trainer.py`) adds what needs more: designers
are centred per skill and weighted, plays that do not count are left out. Under verl's own trainers the name gives the
players' half of the method.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from verl.trainer.ppo.core_algos import register_adv_est

from spade_trainer.method.advantages import standardise


@register_adv_est("spade")
def spade_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return advantages and returns `[rows, tokens]`: a row's standardised reward on each of its own tokens.

    verl's `algorithm.norm_adv_by_std_in_grpo=false` leaves out the division by the standard deviation.
    """
    divide = True if config is None else bool(config.get("norm_adv_by_std_in_grpo", True))
    rewards = token_level_rewards.sum(-1).tolist()
    groups: dict[Any, list[int]] = defaultdict(list)
    for row, group in enumerate(index):
        groups[group].append(row)
    values = [0.0] * len(rewards)
    for rows in groups.values():
        for row, value in zip(rows, standardise([rewards[row] for row in rows], divide=divide), strict=True):
            values[row] = value
    advantages = torch.tensor(values, dtype=torch.float32).unsqueeze(-1) * response_mask
    return advantages, advantages
