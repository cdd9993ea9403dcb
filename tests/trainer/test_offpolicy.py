"""Off-policy correction: only the designer's held-back samples are off-policy, and their weights are bounded.

Both roles' tokens are sampled by the engine from a real model, whose weights change while the designer's sample waits;
verl's rollout correction, configured as the presets have it, then weighs them.
"""

import copy

import pytest
import torch
from omegaconf import OmegaConf
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch
from verl.utils.config import omega_conf_to_dataclass

from spade_trainer.config import SpadeConfig
from spade_trainer.design import Attempt, Design
from spade_trainer.generation.engine import Engine
from spade_trainer.presets import compose
from spade_trainer.rounds import Environment, Round

PRESET = compose("qwen3-4b")
CORRECTION = PRESET.algorithm.rollout_correction
PROMPT, LENGTH, DELAY = [3, 5, 7, 9], 24, 2


def log_probs(model, tokens):
    with torch.no_grad():
        logits = model(torch.tensor([[*PROMPT, *tokens]])).logits[0, len(PROMPT) - 1 : -1]
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(tokens)[:, None])[:, 0]


def generate(engine, n):
    params = [{"max_tokens": LENGTH, "temperature": 1.0, "seed": i, "ignore_eos": True} for i in range(n)]
    return engine.generate_batch([PROMPT] * n, params)


@pytest.fixture(scope="module")
def batch(tiny_model):
    """A batch of step 3: four plays sampled at step 3, and two designs sampled at step 1 with the weights of step 1."""
    model = copy.deepcopy(tiny_model)
    engine = Engine(model, max_rows=16, cache_tokens=16 * 64)
    state: Round = Round(SpadeConfig.from_mapping({"delay": DELAY, "interval": 2}))
    designs = generate(engine, 2)
    for number, answer in enumerate(designs):
        program = Environment(f"spade/E{number}", "class AEnv: ...", "Optimization")
        state.hold(
            1, Design(0, "Optimization", attempts=[Attempt(1, "class AEnv: ...", accepted=True)]), program, [answer]
        )
    for step in (1, 2):
        assert state.samples.release(step) == []
        torch.manual_seed(step)
        changed = {name: value + 0.05 * torch.randn_like(value) for name, value in model.state_dict().items()}
        engine.load(changed)
    plays = generate(engine, 4)
    due = [sample.payload for sample in state.samples.release(3)]
    assert [answer.token_ids for answer in due] == [answer.token_ids for answer in designs], "nothing lost or doubled"
    rows = [*plays, *due]
    mask = torch.ones(len(rows), LENGTH)
    mask[:, 10:14] = 0  # what an environment would have said
    tensors = {
        "old_log_probs": torch.stack([log_probs(model, answer.token_ids) for answer in rows]),
        "rollout_log_probs": torch.tensor([answer.log_probs for answer in rows]),
        "response_mask": mask,
    }
    engine.close()
    return tensors


def weigh(tensors, **changes):
    config = OmegaConf.merge(CORRECTION, changes)
    data, metrics = compute_rollout_correction_and_add_to_batch(DataProto.from_dict(dict(tensors)), config)
    return data.batch["rollout_is_weights"], metrics


def test_weights_differ_from_1_exactly_for_held_back_samples(batch):
    weights, _ = weigh(batch)
    own = batch["response_mask"].bool()
    plays, designs = slice(0, 4), slice(4, 6)
    torch.testing.assert_close(weights[plays][own[plays]], torch.ones(4 * 20), atol=1e-3, rtol=0)
    off = (weights[designs][own[designs]] - 1).abs() > 1e-3
    assert off.float().mean() > 0.95, "two updates have moved nearly every token's probability"
    assert (weights[~own] == 0).all()


def test_a_weight_is_the_ratio_of_probabilities_truncated_at_the_bound(batch):
    bound = float(CORRECTION.rollout_is_threshold)
    weights, _ = weigh(batch)
    ratio = (batch["old_log_probs"] - batch["rollout_log_probs"]).exp()
    own = batch["response_mask"].bool()
    torch.testing.assert_close(weights[own], ratio[own].clamp(max=bound))
    assert (ratio[4:][own[4:]] > bound).any(), "the test would show nothing if no ratio passed the bound"
    assert weights.max() == bound
    lower, _ = weigh(batch, rollout_is_threshold=1.1)
    assert lower.max() == pytest.approx(1.1)


def test_the_loss_is_scaled_by_the_weight(batch):
    actor = omega_conf_to_dataclass(PRESET.actor_rollout_ref.actor)
    weights, _ = weigh(batch)
    losses = []
    for used in (None, weights):
        log_prob = batch["old_log_probs"].clone().requires_grad_()
        loss, _ = get_policy_loss_fn("vanilla")(
            old_log_prob=batch["old_log_probs"],
            log_prob=log_prob,
            advantages=batch["response_mask"],
            response_mask=batch["response_mask"],
            loss_agg_mode=actor.loss_agg_mode,
            config=actor,
            rollout_is_weights=used,
        )
        loss.backward()
        losses.append(log_prob.grad)
    torch.testing.assert_close(losses[1], losses[0] * weights)
