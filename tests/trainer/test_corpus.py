"""The corpus: every format in, documents out, sampled uniformly and reproducibly."""

import json

import numpy as np
import pytest

from spade_trainer.corpus import Corpus, CorpusError, Document, open_corpus


def rng(seed=0):
    return np.random.default_rng(seed)


def test_the_shipped_corpus_has_distinct_documents():
    corpus = open_corpus()
    assert len(corpus) >= 1
    assert len({document.sha256 for document in corpus.documents}) == len(corpus)
    assert all(document.title and document.text for document in corpus.documents)


def test_json_lines_with_either_field(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"text": " a b ", "title": "T"}\n\n{"orig_doc": "c", "license": "MIT"}\n{"text": ""}\n')
    corpus = open_corpus(path)
    assert corpus.documents == [Document("a b", "T", "c.jsonl"), Document("c", None, "c.jsonl", "MIT")]


def test_parquet_and_folder(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"text": ["one", "two"]}), tmp_path / "c.parquet")
    assert [document.text for document in open_corpus(tmp_path / "c.parquet").documents] == ["one", "two"]
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("first")
    (folder / "deep" / "b.md").write_text("second")
    (folder / "c.py").write_text("not a document")
    assert [(d.title, d.text) for d in open_corpus(folder).documents] == [("a", "first"), ("b", "second")]


def test_sampling_is_seeded_uniform_and_without_repeats():
    corpus = Corpus([Document(str(i)) for i in range(10)], "test")
    drawn = corpus.sample(10, rng())
    assert {document.text for document in drawn} == set("0123456789")
    assert drawn == corpus.sample(10, rng())
    assert drawn != corpus.sample(10, rng(1))
    assert len(corpus.sample(23, rng())) == 23
    counts = np.zeros(10)
    source = rng(2)
    for _ in range(3000):
        counts[int(corpus.sample(1, source)[0].text)] += 1
    assert abs(counts - 300).max() < 75, "five standard deviations"


def test_documents_are_cut_at_words():
    document = Document("one  two\nthree four")
    assert document.shortened(3).text == "one  two\nthree"
    assert document.shortened(9) is document


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.jsonl", "{broken", "line 1: not a JSON object"),
        ("c.jsonl", json.dumps({"body": "x"}), "needs its text in `text` or `orig_doc`; got body"),
        ("c.jsonl", "[1]", "got list"),
        ("c.jsonl", "", "no document with text"),
        ("c.csv", "text", "a corpus is a .jsonl or .parquet file"),
        ("c.parquet", "text", "not a parquet file"),
    ],
)
def test_what_cannot_be_read_says_where(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(CorpusError, match=message):
        open_corpus(path)
    with pytest.raises(CorpusError, match=r"does not exist|cannot be read"):
        open_corpus(tmp_path / f"missing-{name}")
