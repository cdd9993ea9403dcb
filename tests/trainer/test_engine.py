"""The engine: what it samples is what the model says, whatever else is in the batch."""

import asyncio
import random

import pytest
import torch

from spade_envs.errors import SpadeError
from spade_trainer.generation.engine import Engine
from spade_trainer.generation.sampling import SamplingParams, sample

EOS, VOCABULARY = 1, 64


def prompt(seed, length):
    rng = random.Random(seed)
    return [rng.randrange(2, VOCABULARY) for _ in range(length)]


def log_probs(model, prompt_ids, answer, temperature=1.0):
    """Log-probabilities of `answer` by one plain forward pass over everything."""
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt_ids, *answer]])).logits[0, len(prompt_ids) - 1 : -1]
    return torch.log_softmax(logits / temperature, -1).gather(1, torch.tensor(answer)[:, None])[:, 0]


@pytest.fixture
def engine(tiny_model):
    engine = Engine(tiny_model, max_rows=16, cache_tokens=16 * 128)
    yield engine
    engine.close()


def test_log_probs_are_those_of_a_plain_forward_pass(engine, tiny_model):
    prompts = [prompt(i, 5 + 7 * i) for i in range(12)]
    for temperature in (1.0, 0.6):
        answers = engine.generate_batch(prompts, {"temperature": temperature, "max_tokens": 20, "seed": 3})
        for ids, answer in zip(prompts, answers, strict=True):
            expected = log_probs(tiny_model, ids, answer.token_ids, temperature)
            torch.testing.assert_close(torch.tensor(answer.log_probs), expected, atol=2e-4, rtol=1e-4)


def test_a_request_does_not_depend_on_its_company(engine):
    params = [{"seed": i, "max_tokens": 6 + i, "temperature": 1.0} for i in range(40)]
    prompts = [prompt(i, 4 + i % 23) for i in range(40)]
    together = engine.generate_batch(prompts, params)
    alone = [engine.generate_batch([ids], one)[0] for ids, one in zip(prompts, params, strict=True)]
    assert [a.token_ids for a in together] == [a.token_ids for a in alone]


def test_greedy_equals_transformers(engine, tiny_model):
    ids = prompt(9, 30)
    answer = engine.generate_batch([ids], {"temperature": 0, "max_tokens": 25})[0]
    expected = tiny_model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=25)[0, len(ids) :]
    assert answer.token_ids == expected.tolist()


def test_a_second_turn_computes_its_new_tokens_only(engine, tiny_model):
    first = prompt(1, 40)
    answer = engine.generate_batch([first], {"max_tokens": 10, "seed": 0, "ignore_eos": True})[0]
    assert engine.prefilled == 40
    second = [*first, *answer.token_ids, *prompt(2, 6)]
    again = engine.generate_batch([second], {"max_tokens": 10, "seed": 1})[0]
    assert engine.prefilled == 40 + 6 + 1, "the last sampled token had not been computed yet"
    expected = log_probs(tiny_model, second, again.token_ids)
    torch.testing.assert_close(torch.tensor(again.log_probs), expected, atol=2e-4, rtol=1e-4)


def test_siblings_share_the_prefix_of_their_prompts(engine, tiny_model):
    shared = prompt(3, 64)
    prompts = [[*shared, *prompt(50 + i, 5)] for i in range(8)]
    answers = engine.generate_batch(prompts, {"max_tokens": 5, "seed": 0})
    assert engine.prefilled <= 64 + 8 * 12
    for ids, answer in zip(prompts, answers, strict=True):
        expected = log_probs(tiny_model, ids, answer.token_ids)
        torch.testing.assert_close(torch.tensor(answer.log_probs), expected, atol=2e-4, rtol=1e-4)


def test_multi_turn_plays_stay_right_when_rows_are_short(engine, tiny_model):
    """40 plays of 4 turns in 16 rows: rows are evicted, moved, copied and grown on the way."""

    async def play(i):
        ids, answers = prompt(i % 5, 20 + i % 7), []
        for turn in range(4):
            answer = await engine.generate(ids, {"max_tokens": 3 + i % 9, "seed": 10 * i + turn})
            answers.append((ids, answer))
            ids = [*ids, *answer.token_ids, *prompt(100 * i + turn, 3)]
        return answers

    async def everything():
        return await asyncio.gather(*map(play, range(40)))

    for answers in asyncio.run(everything()):
        for ids, answer in answers:
            expected = log_probs(tiny_model, ids, answer.token_ids)
            torch.testing.assert_close(torch.tensor(answer.log_probs), expected, atol=2e-4, rtol=1e-4)


def test_an_answer_ends_at_eos_at_its_limit_or_at_the_end_of_the_context(tiny_model):
    engine = Engine(tiny_model, max_length=32)
    answers = engine.generate_batch([prompt(i, 12) for i in range(20)], {"max_tokens": 8})
    for answer in answers:
        assert (answer.stop_reason == "stop") == (answer.token_ids[-1] == EOS)
        assert EOS not in answer.token_ids[:-1]
        assert len(answer.token_ids) == 8 or answer.stop_reason == "stop"
    full = engine.generate_batch([prompt(0, 12)], {"max_tokens": 500, "ignore_eos": True})[0]
    assert (len(full.token_ids), full.stop_reason) == (20, "length")
    stop = engine.generate_batch([prompt(0, 12)], {"max_tokens": 9, "stop_token_ids": list(range(VOCABULARY))})[0]
    assert (len(stop.token_ids), stop.stop_reason) == (1, "stop")
    engine.close()


def test_new_weights_change_the_answers_and_forget_the_cache(tiny_model):
    from copy import deepcopy

    model = deepcopy(tiny_model)
    engine = Engine(model)
    ids = prompt(1, 20)
    engine.generate_batch([ids], {"max_tokens": 5})
    state = {name: value + 0.05 for name, value in model.state_dict().items()}
    engine.load(state)
    answer = engine.generate_batch([ids], {"max_tokens": 5, "seed": 0})[0]
    torch.testing.assert_close(
        torch.tensor(answer.log_probs), log_probs(model, ids, answer.token_ids), atol=2e-4, rtol=1e-4
    )
    assert engine.prefilled == 40
    with pytest.raises(SpadeError, match="nonsense"):
        engine.load({"nonsense": torch.zeros(1)})
    engine.close()


def test_refused_requests_say_why(engine):
    with pytest.raises(SpadeError, match="tokens, got 0"):
        engine.submit([], {})
    with pytest.raises(SpadeError, match="got 512"):
        engine.submit([2] * 512, {})
    with pytest.raises(SpadeError, match="top_p=0"):
        engine.submit([2], {"top_p": 0})


def test_sampling_follows_the_probabilities():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2]])).expand(3000, 3)
    uniforms = (torch.arange(3000) + 0.5) / 3000
    tokens, logs = sample(logits, [SamplingParams()] * 3000, uniforms)
    assert torch.bincount(tokens).tolist() == [1500, 900, 600]
    torch.testing.assert_close(logs.exp(), torch.tensor([0.5, 0.3, 0.2])[tokens])


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (SamplingParams(top_p=0.6), [0.625, 0.375, 0]),
        (SamplingParams(top_k=1), [1, 0, 0]),
        (SamplingParams(top_k=2, top_p=0.99), [0.625, 0.375, 0]),
        (SamplingParams(temperature=0.5), [0.25 / 0.38, 0.09 / 0.38, 0.04 / 0.38]),
    ],
)
def test_truncation_and_temperature(params, expected):
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2]])).expand(8000, 3)
    uniforms = (torch.arange(8000) + 0.5) / 8000
    tokens, logs = sample(logits, [params] * 8000, uniforms)
    share = torch.bincount(tokens, minlength=3) / 8000
    torch.testing.assert_close(share, torch.tensor(expected, dtype=torch.float32), atol=2e-3, rtol=0)
    torch.testing.assert_close(logs.exp(), torch.tensor(expected, dtype=torch.float32)[tokens])
