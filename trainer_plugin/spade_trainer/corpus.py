"""The corpus: documents that ground designs, sampled uniformly, one fresh document per designer prompt.

Grounding is what keeps designs different from one another. A corpus is JSON Lines with the text in `text` or
`orig_doc`, parquet with a `text` column, a folder of `.txt` and `.md` files, the documents of a registry, or the small
corpus that comes with the package. Whatever the source, it is read once and held as a list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spade_envs.errors import SpadeError

SHIPPED = Path(__file__).parent / "data" / "corpus.jsonl"
TEXT_FIELDS = ("text", "orig_doc")
TEXT_FILES = (".txt", ".md")


class CorpusError(SpadeError):
    """A corpus that cannot be read."""


@dataclass(frozen=True)
class Document:
    """One document."""

    text: str
    title: str | None = None
    source: str | None = None
    """Where it came from: a file's name, or what the corpus says."""
    license: str | None = None

    @property
    def sha256(self) -> str:
        """Identity of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def shortened(self, max_words: int) -> Document:
        """Return the document cut after `max_words` words; the layout of what is kept stays as it is."""
        position = 0
        for count, word in enumerate(self.text.split(), start=1):
            position = self.text.index(word, position) + len(word)
            if count == max_words:
                return Document(self.text[:position], self.title, self.source, self.license)
        return self


class Corpus:
    """A list of documents that is sampled without replacement within one draw."""

    def __init__(self, documents: Sequence[Document], name: str):
        if not documents:
            raise CorpusError(f"the corpus {name} holds no document with text")
        self.documents = list(documents)
        self.name = name

    def __len__(self) -> int:
        return len(self.documents)

    def sample(self, n: int, rng: np.random.Generator, *, max_words: int | None = None) -> list[Document]:
        """Return `n` documents, uniformly; none twice while there are enough of them."""
        indices: list[int] = []
        while len(indices) < n:
            indices.extend(rng.permutation(len(self))[: n - len(indices)].tolist())
        chosen = [self.documents[i] for i in indices]
        return chosen if max_words is None else [document.shortened(max_words) for document in chosen]


def open_corpus(path: str | Path | None = None, *, registry: Any = None) -> Corpus:
    """Read a corpus.

    Args:
        path: a `.jsonl`, `.json` or `.parquet` file, a folder, the word `registry`, or None for the shipped corpus.
        registry: the open registry, for its documents.

    Raises `CorpusError` for a path that does not exist, cannot be read, or holds no text.
    """
    if path == "registry":
        documents = [Document(row.text, row.title, row.source, row.license) for row in registry.documents()]
        return Corpus(documents, f"of the registry {registry.path}")
    source = SHIPPED if path is None else Path(path).expanduser()
    try:
        return Corpus(list(_read(source)), str(source))
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"the corpus {source} cannot be read: {error}") from error


def _read(path: Path) -> Iterator[Document]:
    if path.is_dir():
        yield from _read_folder(path)
    elif path.suffix in (".jsonl", ".json"):
        yield from _read_json_lines(path)
    elif path.suffix == ".parquet":
        yield from _read_parquet(path)
    else:
        raise CorpusError(
            f"a corpus is a .jsonl or .parquet file, a folder of {' and '.join(TEXT_FILES)} files, or `registry`; "
            f"got {path}{'' if path.exists() else ', which does not exist'}"
        )


def _read_folder(path: Path) -> Iterator[Document]:
    for file in sorted(path.rglob("*")):
        if file.suffix in TEXT_FILES and file.is_file():
            text = file.read_text(encoding="utf-8").strip()
            if text:
                yield Document(text, file.stem, str(file.relative_to(path)))


def _read_json_lines(path: Path) -> Iterator[Document]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise CorpusError(f"{path}, line {number}: not a JSON object ({error.msg})") from error
            yield from _document(row, f"{path}, line {number}", path.name)


def _read_parquet(path: Path) -> Iterator[Document]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise CorpusError("reading parquet needs pyarrow: pip install 'spade-envs[train]'") from error
    try:
        table = parquet.read_table(path)
    except ValueError as error:
        raise CorpusError(f"{path} is not a parquet file that can be read: {error}") from error
    for number, row in enumerate(table.to_pylist(), start=1):
        yield from _document(row, f"{path}, row {number}", path.name)


def _document(row: Any, where: str, source: str) -> Iterator[Document]:
    """Yield the document of a row; an empty text yields nothing, a missing one is an error."""
    name = next((name for name in TEXT_FIELDS if isinstance(row, dict) and isinstance(row.get(name), str)), None)
    if name is None:
        found = ", ".join(row) if isinstance(row, dict) else type(row).__name__
        raise CorpusError(f"{where}: a row needs its text in `{'` or `'.join(TEXT_FIELDS)}`; got {found}")
    text = row[name].strip()
    if text:
        yield Document(text, row.get("title"), row.get("source") or row.get("id") or source, row.get("license"))
