"""Tiny random models, made on the spot."""

import os

import pytest
from hypothesis import settings

# A law is about values; on a busy machine Hypothesis's 200 ms for an example are no law.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

os.environ.setdefault("HF_HUB_OFFLINE", "1")

VOCABULARY = 64
EOS = 1


@pytest.fixture(scope="session")
def tiny_model():
    """A Qwen3 of 0.1 M random parameters; its answers are noise, its arithmetic is real."""
    torch = pytest.importorskip("torch")
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=EOS,
        pad_token_id=0,
        attn_implementation="sdpa",
        initializer_range=0.1,
    )
    return Qwen3ForCausalLM(config).eval()
