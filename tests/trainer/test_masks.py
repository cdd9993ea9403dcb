"""The tokens of a play: the model's own ones and no others are trained on, exactly as they were sampled."""

import json
from dataclasses import asdict

import pytest
from scripted_policy import END, TOKENIZER, Server, letters, run

from spade_envs.contract import Program
from spade_trainer.config import SpadeConfig
from spade_trainer.design import Design, Job
from spade_trainer.verl_plugin.loops import DesignerLoop, PlayerLoop

DOORS = '''
import random
import re


class DoorsEnv:
    """Behind one of five doors is the prize; a wrong door says whether to go left or right."""

    def __init__(self, max_turns=6, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.door = random.Random(seed).randint(1, 5)
        self.turn = 0
        return "Five doors. Reply with \\\\boxed{number}.", {}

    def step(self, action):
        self.turn += 1
        found = re.findall(r"boxed\\{(\\d+)\\}", action)
        door = int(found[-1]) if found else -1
        if door == 0:
            raise RuntimeError("door zero")
        if door == self.door:
            return "The prize.", 1.0, True, False, {}
        return f"Not here, go {'left' if door > self.door else 'right'}.", 0.0, False, self.turn >= self.max_turns, {}

    def solution(self):
        return f"\\\\boxed{{{self.door}}}"
'''
PROGRAM = Program.from_source(DOORS)


def row(*, hint=None, max_turns=6, max_tokens=60, seeds=(3,)):
    job = {
        "environment": PROGRAM.id,
        "source": PROGRAM.source,
        "hint": hint,
        "seeds": list(seeds),
        "max_turns": max_turns,
        "temperature": 1.0,
        "max_tokens": max_tokens,
        "transcripts": 1,
        "variant": "default",
        "run_seed": 0,
    }
    return {"job": job, "session_id": 0}


def one_by_one(*texts):
    left = list(texts)
    return lambda prompt, parameters: left.pop(0)


def own(output):
    """Tokens and log-probabilities under the mask."""
    marked = [i for i, mask in enumerate(output.response_mask) if mask]
    return [output.response_ids[i] for i in marked], [output.response_logprobs[i] for i in marked]


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_the_mask_covers_exactly_what_the_model_sampled(family):
    doors = [f"I try \\boxed{{{door}}}{END}" for door in (1, 2, 3, 4, 5)]
    server = Server(one_by_one(*doors))
    (output,) = run(PlayerLoop, server, row(), family=family)
    played = output.extra_fields["spade"]
    assert played["outcome"] == "won"
    assert played["turns"] == len(server.sampled) >= 2

    tokens, log_probs = own(output)
    assert tokens == [token for answer in server.sampled for token in answer]
    assert log_probs == [
        Server.log_prob(number, i) for number, answer in enumerate(server.sampled, 1) for i in range(len(answer))
    ]
    assert played["tokens"] == len(tokens)
    text = TOKENIZER.decode(tokens)
    assert TOKENIZER.encode(text, add_special_tokens=False) != tokens, "the test has teeth: encoding again differs"

    others = [token for token, mask in zip(output.response_ids, output.response_mask, strict=True) if not mask]
    assert TOKENIZER.decode(others).count("Not here, go") == played["turns"] - 1, "what the environment said is context"
    assert "I try" not in TOKENIZER.decode(others)
    assert all(
        value == 0 for value, mask in zip(output.response_logprobs, output.response_mask, strict=True) if not mask
    )


def test_every_request_extends_the_one_before_token_by_token():
    server = Server(one_by_one(*(f"\\boxed{{{door}}}{END}" for door in (1, 2, 3, 4, 5))))
    (output,) = run(PlayerLoop, server, row())
    whole = [*output.prompt_ids, *output.response_ids]
    for asked, sampled in zip(server.asked, server.sampled, strict=True):
        assert whole[: len(asked) + len(sampled)] == [*asked, *sampled]
    assert output.response_mask[-1] == 1, "the row ends with the model's last token"
    assert "Five doors" in TOKENIZER.decode(output.prompt_ids)


def test_running_out_of_turns_is_a_loss_that_counts():
    server = Server(lambda prompt, parameters: f"\\boxed{{9}}{END}")
    (output,) = run(PlayerLoop, server, row(max_turns=2))
    assert (output.extra_fields["spade"]["outcome"], output.reward_score) == ("lost", 0.0)
    assert len(server.sampled) == 2


@pytest.mark.parametrize(
    ("say", "outcome"),
    [("\\boxed{0}" + END, "faulty"), ("I am thinking and thinking about it", "cut"), ("\\boxed{9}", "lost")],
)
def test_faults_and_cut_answers_are_told_apart_from_losses(say, outcome):
    server = Server(lambda prompt, parameters: say)
    (output,) = run(PlayerLoop, server, row(max_turns=1, max_tokens=len(letters(say)) if END not in say else 60))
    assert output.extra_fields["spade"]["outcome"] == outcome
    assert (output.extra_fields["spade"]["fault"] is not None) is (outcome == "faulty")
    assert sum(output.response_mask) == len(server.sampled[0])


def test_a_context_that_is_full_ends_the_play_as_cut():
    server = Server(lambda prompt, parameters: "long " * 8 + f"\\boxed{{9}}{END}")
    (output,) = run(PlayerLoop, server, row(max_tokens=200), max_response_length=150)
    assert output.extra_fields["spade"]["outcome"] == "cut"
    assert len(output.response_ids) <= 150


def test_the_hint_is_in_the_prompt_of_its_arm_only():
    for hint in (None, "halve the doors"):
        server = Server(lambda prompt, parameters: f"\\boxed{{9}}{END}")
        (output,) = run(PlayerLoop, server, row(hint=hint, max_turns=1))
        assert output.extra_fields["spade"]["hinted"] is (hint is not None)
        assert ("halve the doors" in TOKENIZER.decode(output.prompt_ids)) is (hint is not None)


def test_a_designer_row_is_one_program_and_never_the_hint():
    answers = {
        "rejected": f"```python\nclass BrokenEnv:\n    pass\n```{END}",
        "accepted": f"```python\n{DOORS}```{END}",
        "hint": f"Halve the doors that are left at every turn.{END}",
    }
    server = Server(one_by_one(*answers.values()))
    config = asdict(SpadeConfig.from_mapping({"designer": {"attempts": 3, "max_tokens": 1400}}))
    job = Job(0, "Logical Deduction", [{"role": "user", "content": "Write an environment."}], seed=1)
    outputs = run(DesignerLoop, server, {"job": {"job": asdict(job), "config": config}}, max_response_length=2600)
    assert len(outputs) == 2, "one row per program"
    assert [own(output)[0] for output in outputs] == server.sampled[:2]
    assert "Halve" not in TOKENIZER.decode([token for output in outputs for token in output.response_ids])
    design = Design.from_dict(json.loads(json.dumps(outputs[-1].extra_fields["spade"]["design"])))
    assert [attempt.accepted for attempt in design.attempts] == [False, True]
    assert design.hint == "Halve the doors that are left at every turn."
    assert outputs[0].extra_fields["spade"]["design"] is None
    wanted = [config["designer"][name] for name in ("temperature", "temperature", "hint_temperature")]
    assert [parameters["temperature"] for parameters in server.parameters] == wanted
    assert len({parameters["seed"] for parameters in server.parameters}) == 3
