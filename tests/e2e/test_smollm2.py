"""A real pretrained model through the whole loop on a CPU: three steps, and the rows that were trained on."""

import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from spade_trainer import smollm2

# The package is never imported: doing so would load llama.cpp, which is not needed.
MISSING = [name for name in (smollm2.PACKAGE, "gguf", "accelerate", "verl") if importlib.util.find_spec(name) is None]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")]

STEPS = 3
SETTINGS = (
    "spade.active_skills=1",
    "spade.player.plays=2",
    "spade.player.hinted_plays=2",
    "spade.player.max_turns=2",
    "spade.player.max_tokens=32",
    "spade.designer.max_tokens=128",
    "trainer.save_freq=3",
)


def test_the_unpacked_model_ends_its_messages_and_speaks_english():
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = smollm2.folder()
    assert smollm2.folder() == folder
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    assert (
        model.generation_config.eos_token_id == tokenizer.eos_token_id == tokenizer.convert_tokens_to_ids("<|im_end|>")
    )
    asked = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
    prompt = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=False)
    with torch.no_grad():
        said = model.generate(prompt, do_sample=False, max_new_tokens=60)[0, prompt.shape[1] :]
    assert "Paris" in tokenizer.decode(said)
    assert said[-1] == tokenizer.eos_token_id


@pytest.mark.timeout(2400)
def test_three_steps(tmp_path):
    registry, rows = tmp_path / "registry.db", tmp_path / "rows"
    words = [*SETTINGS, f"trainer.rollout_data_dir={rows}"]
    command = [sys.executable, "-m", "spade_envs", "selfplay", "--preset", "smollm2-135m", "--steps", str(STEPS)]
    command += ["--registry", str(registry), *(word for setting in words for word in ("--set", setting))]
    done = subprocess.run(command, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, timeout=2300)
    assert done.returncode == 0, done.stdout + done.stderr
    with closing(sqlite3.connect(f"file:{registry}?mode=ro", uri=True)) as connection:
        metrics = {step: json.loads(text) for step, text in connection.execute("SELECT step, metrics FROM steps")}
    assert sorted(metrics) == list(range(1, STEPS + 1))
    for step, found in metrics.items():
        assert found["spade/player/plays"] > 0
        lines = [json.loads(line) for line in (rows / f"{step}.jsonl").read_text().splitlines()]
        told = [line for line in lines if "A hint from someone" in line["input"]]
        assert not told, "hinted plays are never trained on"
        assert len(lines) >= found["spade/trained/plays"] + found["spade/trained/programs"] > 0
    assert metrics[STEPS]["spade/designer/held"] == 0, "what waits at the end is trained on"
