"""Credit: what a step does to a policy whose probabilities are known, through verl's own loss, for both roles."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn
from verl.utils.config import omega_conf_to_dataclass

from spade_trainer.config import SpadeConfig
from spade_trainer.design import Attempt, Design
from spade_trainer.method.rewards import Result
from spade_trainer.presets import compose
from spade_trainer.rounds import Environment, Played, Round
from spade_trainer.verl_plugin.advantage import spade_advantage

ACTOR = omega_conf_to_dataclass(compose("qwen3-4b").actor_rollout_ref.actor)
VOCABULARY = 4
START = [0.4, 0.3, 0.2, 0.1]


class Toy:
    """One logit per token, the same at every position; the gradient of a token's log-probability is `onehot - p`."""

    def __init__(self, probabilities=START):
        self.logits = torch.tensor(probabilities).log().requires_grad_()

    @property
    def p(self):
        return torch.softmax(self.logits, -1).detach()

    def log_probs(self, tokens):
        return torch.log_softmax(self.logits, -1)[tokens]

    def direction(self, token):
        """Gradient of the token's log-probability in the logits."""
        return torch.nn.functional.one_hot(torch.tensor(token), VOCABULARY).float() - self.p


def update(toy, tokens, advantages, mask, *, old=None):
    """Return the gradient of verl's loss, configured as a preset has it."""
    tokens, mask = torch.tensor(tokens), torch.tensor(mask)
    log_prob = toy.log_probs(tokens)
    loss, _ = get_policy_loss_fn(ACTOR.policy_loss.loss_mode)(
        old_log_prob=log_prob.detach() if old is None else old,
        log_prob=log_prob,
        advantages=advantages,
        response_mask=mask,
        loss_agg_mode=ACTOR.loss_agg_mode,
        config=ACTOR,
    )
    toy.logits.grad = None
    loss.backward()
    return toy.logits.grad


def at_the_end(rewards, width):
    """Rewards as verl holds them: the row's reward on its last token."""
    out = torch.zeros(len(rewards), width)
    out[:, -1] = torch.tensor(rewards)
    return out


def test_verl_finds_the_estimator_by_its_name():
    assert get_adv_estimator_fn("spade") is spade_advantage


def test_a_players_gradient_by_hand():
    """Two groups of two plays; the second has no spread. Token 3 stands for what the environment said."""
    tokens = [[0, 3, 1], [2, 3, 2], [0, 3, 0], [1, 3, 1]]
    mask = [[1, 0, 1]] * 4
    rewards = at_the_end([1.0, 0.0, 1.0, 1.0], 3)
    advantages, _ = spade_advantage(rewards, torch.tensor(mask), ["a", "a", "b", "b"])
    half = 0.5**0.5
    assert advantages[:, 0].tolist() == pytest.approx([half, -half, 0, 0])
    toy = Toy()
    found = update(toy, tokens, advantages, mask)
    own = 8
    expected = -half / own * (toy.direction(0) + toy.direction(1) - 2 * toy.direction(2))
    torch.testing.assert_close(found, expected)
    assert found[0] < 0 < found[2], "a descent makes the winner's tokens likelier and the loser's rarer"
    assert found[3] == pytest.approx(0, abs=1e-7), "nothing pulls at what the environment said"


def test_without_the_division_a_group_is_only_centred():
    rewards, mask = at_the_end([1.0, 0.0, 0.0, 0.0], 2), torch.ones(4, 2)
    advantages, _ = spade_advantage(rewards, mask, ["a"] * 4, config={"norm_adv_by_std_in_grpo": False})
    assert advantages[:, 0].tolist() == pytest.approx([0.75, -0.25, -0.25, -0.25])


def design(skill, *, accepted=True):
    return Design(0, skill, attempts=[Attempt(1, "class AEnv: ...", accepted=accepted)])


def settled(rates, *, agent_samples=32, **settings):
    """Return credits and weight of one design per (skill, win rate), None standing for a rejected program."""
    values = {"interval": 1, "active_skills": 1, "reward": {"kind": "solve_rate"}, **settings}
    state: Round[str] = Round(SpadeConfig.from_mapping(values))
    environments = []
    for number, (skill, wins) in enumerate(rates):
        environment = None
        if wins is not None:
            environment = Environment(f"spade/E{number}", f"class E{number}Env: ...", skill)
            environments.append(environment)
            results = [Result(i, float(i < wins), "won" if i < wins else "lost") for i in range(4)]
            environment.unhinted.extend(results)
        state.hold(1, design(skill, accepted=wins is not None), environment, [f"payload {number}"])
    state.new_set(environments)
    released, dropped = state.settle(2)
    assert dropped == 0
    return state.credit(released, agent_samples)


def test_a_designers_gradient_by_hand():
    """Skill a: solve rates 1 and 0.5. Skill b: 0.5, and a rejected program at -0.5. Weight 32 / 4 * 1 = 8."""
    credits, weight = settled([("a", 2), ("a", 1), ("b", 3), ("b", None)])
    assert weight == 8
    assert credits == pytest.approx([8 * 0.25, -8 * 0.25, 8 * 0.5, -8 * 0.5])
    tokens, mask = [[0, 0], [1, 1], [2, 2], [3, 3]], [[1, 1]] * 4
    toy = Toy()
    found = update(toy, tokens, torch.tensor(credits)[:, None] * torch.ones(4, 2), mask)
    expected = -sum(credit * 2 * toy.direction(token) for token, credit in enumerate(credits)) / 8
    torch.testing.assert_close(found, expected)
    assert found[2] < found[0] < 0 < found[1] < found[3], "the rejected program's tokens become rarer the most"


def test_both_roles_in_one_batch_are_weighted_by_tokens_and_role():
    """verl averages over all tokens, so a designer's token counts `weight` times a player's of the same advantage."""
    toy = Toy()
    mask = [[1, 1], [1, 0]]
    tokens = [[0, 0], [1, 1]]
    weight = 4.0
    advantages = torch.tensor([[1.0], [weight]]) * torch.tensor(mask)
    found = update(toy, tokens, advantages, mask)
    torch.testing.assert_close(found, -(2 * toy.direction(0) + weight * toy.direction(1)) / 3)


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.25, 1, True), (1.30, 1, False), (0.85, -1, True), (0.75, -1, False), (0.5, 1, True), (1.5, -1, True)],
)
def test_clipping_is_asymmetric_as_the_preset_says(ratio, advantage, moves):
    """1 - 0.20 below, 1 + 0.28 above; a ratio that already went the wrong way is not clipped."""
    toy = Toy()
    tokens = [[0]]
    old = toy.log_probs(torch.tensor(tokens)).detach() - torch.tensor(ratio).log()
    found = update(toy, tokens, torch.tensor([[float(advantage)]]), [[1]], old=old)
    expected = -advantage * ratio * toy.direction(0) if moves else torch.zeros(VOCABULARY)
    torch.testing.assert_close(found, expected)


def test_a_group_without_spread_moves_nothing():
    rewards, mask = at_the_end([1.0] * 4, 1), torch.ones(4, 1)
    advantages, _ = spade_advantage(rewards, mask, ["a"] * 4)
    assert update(Toy(), [[0], [1], [2], [3]], advantages, mask.tolist()).abs().max() == 0
    credits, _ = settled([("a", 2), ("a", 2)])
    assert credits == [0, 0]


def test_groups_are_never_mixed():
    """The same returns beside another group's: an advantage depends on its own group alone."""
    rewards, mask = at_the_end([1.0, 0.0, 5.0, -5.0], 1), torch.ones(4, 1)
    together, _ = spade_advantage(rewards, mask, ["p1", "p1", "d1", "d1"])
    alone, _ = spade_advantage(rewards[:2], mask[:2], ["p1", "p1"])
    torch.testing.assert_close(together[:2], alone)


def test_centring_over_the_whole_set_is_an_option():
    credits, _ = settled([("a", 2), ("b", 1)], designer={"centre": "set", "weight": 1.0})
    assert credits == pytest.approx([0.25, -0.25])
    credits, _ = settled([("a", 2), ("b", 1)], designer={"weight": 1.0})
    assert credits == [0, 0], "a lone design of its skill, without a history, says nothing"


@pytest.mark.parametrize(("agent_samples", "expected"), [(4, 1.0), (384, 50.0)])
def test_the_weight_of_the_role_is_capped(agent_samples, expected):
    _, weight = settled([("a", 2)] * 4, agent_samples=agent_samples)
    assert weight == expected


@given(st.sampled_from(["won", "lost", "cut", "faulty", "timeout"]), st.booleans())
def test_only_unhinted_plays_that_count_are_trained_on(outcome, hinted):
    play = Played("e", hinted, Result(0, 0.0, outcome), turns=1, tokens=1, seconds=0.0)
    assert play.trained is (not hinted and outcome in ("won", "lost"))
