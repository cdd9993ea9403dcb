"""Demonstrations of the warm start: conversations of the designer, of the hint writer and of the player.

Everything is rendered by `spade_trainer.prompts` in the variant `nano`, exactly as in a run, and drawn from one seed. The
player's demonstrations without a hint come from players of very different care, most of them weak: the form is taught, the
skill is left to be learned. With a hint that names the strategy the player is careful; with one that only names the format
it is not, so that what a hint says matters.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import lru_cache

from spade_trainer.corpus import Document, open_corpus
from spade_trainer.nano import words
from spade_trainer.nano.families import FAMILIES
from spade_trainer.nano.players import play
from spade_trainer.nano.programs import Design, draw
from spade_trainer.prompts import Message, render

SKILLS = sorted({family.skill for family in FAMILIES.values()})
SHARES = {"designer": 0.27, "hint": 0.07, "player": 0.66}
HINTED_CARE = 1.0
WEAK_CARE = (0.1, 0.8)
FILLER = [
    "the",
    "a",
    "of",
    "in",
    "and",
    "on",
    "with",
    "water",
    "light",
    "old",
    "long",
    "small",
    "day",
    "stone",
    "way",
    "under",
    "over",
    "first",
    "each",
    "other",
    "wind",
    "house",
    "time",
]


def draw_demo(rng: random.Random) -> tuple[str, list[Message]]:
    """Draw one conversation and the role it teaches."""
    role = rng.choices(list(SHARES), list(SHARES.values()))[0]
    make = {"designer": designer_demo, "hint": hint_demo, "player": player_demo}[role]
    return role, make(rng)


def designer_demo(rng: random.Random) -> list[Message]:
    """A prompt with a title, sometimes with seeds of the memory, and the program that answers it."""
    (shown, noun), skill = document(rng), rng.choice(SKILLS)
    seeds, design = [], None
    if rng.random() < 0.5:
        parents = [draw(rng, rng.choice(words.TRAIN_NOUNS), skill=skill) for _ in range(rng.choice((1, 1, 2)))]
        rates = [_win_rate(parent, rng) for parent in parents]
        seeds = [
            {"observation": _opening(p, rng), "win_rate": r, "regret": 0.2, "source": p.source, "hint": None}
            for p, r in zip(parents, rates, strict=True)
        ]
        if rng.random() < 0.6:
            design = mutate(parents[0], rates[0], noun, rng)
    design = design or draw(rng, noun, skill=skill)
    negatives = [{"name": rng.choice(words.TRAIN_NOUNS), "reason": rng.choice(("too easy", "too hard"))}]
    messages = render(
        "designer_game",
        variant="nano",
        skill=skill,
        document=shown if rng.random() < 0.96 else None,
        seeds=seeds,
        negatives=negatives if rng.random() < 0.3 else [],
        max_turns=8,
    )
    return [*messages, {"role": "assistant", "content": design.source}]


def mutate(parent: Design, rate: float, noun: str, rng: random.Random) -> Design:
    """Vary a program: mostly towards the edge of what is won half of the time, sometimes anywhere."""
    family = FAMILIES[parent.family]
    harder = rate > 0.5 if rng.random() < 0.7 else rng.random() < 0.5
    place = family.sizes.index(parent.size)
    size, turns = parent.size, parent.turns
    if rng.random() < 0.5:
        place += 1 if harder else -1
        size = family.sizes[min(max(place, 0), len(family.sizes) - 1)]
    else:
        turns = max(2, turns + (-1 if harder else 1))
    return draw(rng, noun, family=parent.family, size=size, turns=turns)


def hint_demo(rng: random.Random) -> list[Message]:
    """A program and a hint that names its strategy and its format."""
    design = draw(rng, rng.choice(words.TRAIN_NOUNS))
    messages = render("hint_game", variant="nano", source=design.source, skill=design.skill)
    return [*messages, {"role": "assistant", "content": rng.choice(design.hints)}]


def player_demo(rng: random.Random) -> list[Message]:
    """A play: without a hint by somebody of any care, with a hint by somebody who follows it."""
    design = draw(rng, rng.choice(words.TRAIN_NOUNS))
    kind = rng.random()
    if kind < 0.5:
        hint, care = None, rng.uniform(*WEAK_CARE)
    elif kind < 0.93:
        hint, care = rng.choice(design.hints), HINTED_CARE
    else:
        hint, care = f"Write \\boxed{{{design.verbs[-1]} X}}.", rng.uniform(*WEAK_CARE)
    messages = render("player", variant="nano", hint=hint)
    episode = play(design, rng, care)
    for observation, action in zip(episode.observations, episode.actions, strict=False):
        messages += [{"role": "user", "content": observation}, {"role": "assistant", "content": action}]
    return messages


def document(rng: random.Random, nouns: Sequence[str] = words.TRAIN_NOUNS) -> tuple[Document, str]:
    """Draw a document and the noun that its program is named after: one of the shipped corpus, or an invented title."""
    if nouns is words.TRAIN_NOUNS and rng.random() < 0.5:
        shipped, candidates = rng.choice(training_documents())
        return shipped, rng.choice(candidates)
    noun = rng.choice(nouns)
    text = " ".join(rng.choices(FILLER, k=6)).capitalize()
    if rng.random() < 0.3:
        pair = [noun, rng.choice(nouns)]
        rng.shuffle(pair)
        return Document(text, " ".join(pair)), noun
    return Document(text, words.title(noun, rng)), noun


@lru_cache
def training_documents() -> list[tuple[Document, list[str]]]:
    """Every second document of the shipped corpus, each with the nouns of its title; the other half stays unseen."""
    documents = open_corpus().documents[::2]
    found = [(one, re.findall(r"\b[A-Z][a-z]{2,}\b", (one.title or "").title())) for one in documents]
    return [(one, nouns) for one, nouns in found if nouns]


def _win_rate(design: Design, rng: random.Random) -> float:
    return sum(play(design, rng, 0.5).won for _ in range(6)) / 6


@lru_cache(maxsize=4096)
def _instance(source: str, noun: str) -> type:
    namespace: dict[str, object] = {"random": random, "re": re}
    exec(compile(source, noun, "exec"), namespace)
    return namespace[f"{noun}Env"]  # type: ignore[return-value]


def _opening(design: Design, rng: random.Random) -> str:
    return str(_instance(design.source, design.noun)().reset(rng.randrange(2**31))[0])
