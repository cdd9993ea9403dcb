"""The shipped nano model: what it is made of, what it was taught on, and that it still does what its metrics say."""

import json
import random
import re

import pytest

pytest.importorskip("transformers")
pytest.importorskip("torch")

from spade_envs import gate
from spade_envs.sandbox import Pool
from spade_trainer.nano import MODEL, words
from spade_trainer.nano.demos import SHARES, draw_demo
from spade_trainer.nano.evaluate import design, evaluate, load
from spade_trainer.nano.families import FAMILIES
from spade_trainer.nano.heldout import COUNT, held_out_games
from spade_trainer.nano.players import play
from spade_trainer.nano.programs import draw, held_out

REPORT = json.loads((MODEL / "metrics.json").read_text())


@pytest.fixture(scope="module")
def model():
    return load()


@pytest.fixture(scope="module")
def pool():
    with Pool(max_workers=200) as pool:
        yield pool


def test_it_is_small_and_safe_to_load():
    size = sum(file.stat().st_size for file in MODEL.iterdir())
    assert size <= 8 << 20
    assert {file.suffix for file in MODEL.iterdir()} <= {".json", ".jinja", ".safetensors"}


def test_its_tokens_give_back_any_text_and_a_longer_conversation_only_appends(model):
    tokenizer = model.tokenizer
    for text in (
        "class BeeEnv:\n    def reset(self, seed=None):\n",
        "\\boxed{look a}",
        "naïve 漢字 🙂 \t x",
        "0.0, 1234",
    ):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    short = [{"role": "system", "content": "Play."}, {"role": "user", "content": "A lamp."}]
    longer = [*short, {"role": "assistant", "content": "\\boxed{look a}"}, {"role": "user", "content": "in a: 3."}]
    encoded = [tokenizer.apply_chat_template(one, return_dict=False) for one in (short, longer)]
    assert encoded[1][: len(encoded[0])] == encoded[0]


def test_the_demonstrations_follow_from_the_seed():
    one, two = (list(map(str, (draw_demo(random.Random(5)) for _ in range(3)))) for _ in range(2))
    assert one == two


def test_demonstrations_are_of_all_roles_and_never_held_out():
    rng, seen = random.Random(0), set()
    for _ in range(150):
        role, messages = draw_demo(rng)
        seen.add(role)
        text = " ".join(message["content"] for message in messages)
        assert not set(re.findall(r"\b[A-Z][a-z]+\b", text)) & set(words.HELD_OUT_NOUNS) - {"A"}
    assert seen == set(SHARES)


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_pass_the_gate_as_written_and_care_wins_them(family, pool):
    rng = random.Random(family)
    for _ in range(2):
        one = draw(rng, "Garden", family=family)
        report = gate.check(one.source, pool=pool, hint=one.hints[0])
        assert report.accepted, report.render()
        assert report.changes == []
        assert not held_out(family, one.size, one.turns)
    careful = draw(rng, "Garden", family=family, turns=FAMILIES[family].needs(FAMILIES[family].sizes[-1]) + 4)
    wins = {care: sum(play(careful, random.Random(i), care).won for i in range(40)) for care in (0.2, 1.0)}
    assert wins[1.0] > wins[0.2]


def test_the_held_out_games_are_always_the_same_and_of_their_own():
    one, two = held_out_games(), held_out_games()
    assert [game.source for game in one] == [game.source for game in two]
    assert len(one) == COUNT
    assert all(held_out(game.family, game.size, game.turns) for game in one)
    assert all(game.noun in words.HELD_OUT_NOUNS for game in one)


def test_its_recorded_metrics_are_those_of_a_model_that_can_learn():
    metrics = REPORT["metrics"]
    assert metrics["valid"] >= 0.6
    assert metrics["distinct"] >= 20
    assert metrics["hinted"] >= metrics["unhinted"] + 0.2
    assert metrics["spread"] > 0.5


def test_a_fresh_evaluation_agrees_with_the_recorded_one(model):
    """Smaller and from another seed: the tolerance is the stated one and the sampling error of its size."""
    found = evaluate(model, designs=48, plays=8, seed=11)
    for name, size in (
        ("valid", 48),
        ("unhinted", 40),
        ("hinted", 40),
        ("held_out_unhinted", 32),
        ("held_out_hinted", 32),
    ):
        error = 2.5 * (0.25 / size) ** 0.5
        assert abs(getattr(found, name) - REPORT["metrics"][name]) <= REPORT["tolerance"][name] + error, name
    assert found.hinted > found.unhinted + 0.1


def test_it_writes_every_character_of_its_programs(model, pool):
    drawn = design(model, pool, 12, seed=5)
    sources = [one.text for one in drawn if one.program is not None]
    assert len(sources) >= 4
    assert len(set(sources)) == len(sources)
    assert all(gate.extract_program(source).strip() == source.strip() for source in sources)
