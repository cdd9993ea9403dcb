"""The corpus that ships with the trainer: enough documents, of every skill, each different from the others."""

import json
from collections import Counter
from importlib import resources
from itertools import combinations

import pytest

SKILLS = {
    "Mathematical Reasoning",
    "Logical Deduction",
    "Spatial Reasoning",
    "Pattern Recognition",
    "Optimization",
    "Causal Inference",
}


@pytest.fixture(scope="module")
def documents():
    text = resources.files("spade_trainer").joinpath("data", "corpus.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_every_skill_has_at_least_36_documents(documents):
    counts = Counter(document["skill"] for document in documents)
    assert set(counts) == SKILLS
    assert min(counts.values()) >= 36
    assert len(documents) >= 216


def test_fields_and_lengths(documents):
    for number, document in enumerate(documents, 1):
        assert set(document) == {"id", "title", "skill", "text"}
        assert document["id"] == f"doc-{number:03d}"
        assert 1 <= len(document["title"].split()) <= 4, document["title"]
        assert 60 <= len(document["text"].split()) <= 140, document["id"]


def test_titles_differ(documents):
    assert max(Counter(document["title"].lower() for document in documents).values()) == 1


def test_no_two_documents_share_much_wording(documents):
    """Word triples are shared by chance only: near-copies would share most of theirs."""
    triples = []
    for document in documents:
        words = document["text"].lower().split()
        triples.append(set(zip(words, words[1:], words[2:], strict=False)))
    worst = max(len(one & two) / min(len(one), len(two)) for one, two in combinations(triples, 2))
    assert worst < 0.1
