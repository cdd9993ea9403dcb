"""Readers of what can be imported: each yields programs one by one, with what came beside them, and judges none.

Formats: a wheel of `export`; a folder of programs, bare or with `manifest.json`, `manifest.jsonl` and
`checksums.sha256`; JSON Lines and parquet with a column `code`. Names of skills come in several spellings.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spade_envs.packages import CHECKSUMS, INDEX, checksums
from spade_registry.store import RegistryError

SKILLS = (
    *("Mathematical Reasoning", "Logical Deduction", "Spatial Reasoning", "Pattern Recognition", "Optimization"),
    *("Causal Inference", "API Orchestration", "State Modification", "Data Retrieval", "Error Recovery"),
    *("Tool Selection", "Multi-Step Workflows"),
)
_BY_SLUG = {re.sub(r"[^a-z]+", "", skill.lower()): skill for skill in SKILLS}
PARQUET_BATCH = 64


@dataclass(frozen=True)
class Found:
    """A program as it was found."""

    name: str
    """File or row, for messages."""
    source: str
    checksum: str
    """SHA-256 of the file's bytes, or of the text's UTF-8."""
    expected: str | None = None
    """The checksum that the pool states for it."""
    skill: str | None = None
    hint: str | None = None
    max_turns: int | None = None
    license: str | None = None

    @property
    def intact(self) -> bool:
        """Whether it has the checksum that the pool states, if it states one."""
        return self.expected is None or self.expected.lower() == self.checksum


def skill_name(slug: str | None) -> str | None:
    """The skill's name for any of its spellings (`multi_step_workflows`, `multi-step workflows`), else the text."""
    if not slug:
        return None
    return _BY_SLUG.get(re.sub(r"[^a-z]+", "", slug.lower()), slug)


def read_pool(path: Path) -> Iterator[Found]:
    """Every program of a pool. Raises `RegistryError` for a path that is none of the formats."""
    if path.is_dir():
        return _folder(path)
    readers = {
        ".whl": _wheel,
        ".jsonl": _json_lines,
        ".parquet": _parquet,
        ".py": lambda one: iter([_file(one, {}, {})]),
    }
    if path.suffix not in readers:
        raise RegistryError(
            f"{path} cannot be imported: expected a wheel, a registry, a folder of .py files, or a .py, .jsonl or "
            ".parquet file"
        )
    return readers[path.suffix](path)


def count_pool(path: Path) -> int | None:
    """How many programs a pool has, where that can be told without reading them."""
    if path.is_dir():
        return len(_manifest(path)) or sum(1 for _ in path.rglob("*.py"))
    return None


def _folder(path: Path) -> Iterator[Found]:
    sums = _sums(path / CHECKSUMS)
    entries = _manifest(path)
    if not entries:
        entries = [{"path": str(file.relative_to(path))} for file in sorted(path.rglob("*.py"))]
    if not entries:
        raise RegistryError(f"the folder {path} holds no .py file and no manifest")
    for entry in entries:
        file = _located(path, entry)
        if file is None:
            named = entry.get("path_in_dataset") or entry.get("filename") or entry.get("path")
            yield Found(str(named), "", "", expected="missing")
        else:
            yield _file(file, entry, sums, path)


def _manifest(path: Path) -> list[dict[str, Any]]:
    """Entries of the folder's manifest, in either form; none where it has no manifest."""
    whole, lines = path / "manifest.json", path / "manifest.jsonl"
    try:
        if whole.exists():
            data = json.loads(whole.read_text(encoding="utf-8"))
            return [entry for entry in (data.get("games") or data.get("environments") or []) if isinstance(entry, dict)]
        if lines.exists():
            return [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (ValueError, AttributeError) as error:
        raise RegistryError(f"the manifest of {path} is not valid JSON: {error}") from error
    return []


def _located(folder: Path, entry: Mapping[str, Any]) -> Path | None:
    """The file of an entry, inside the folder; None where there is none."""
    root = folder.resolve()
    names = [entry.get(key) for key in ("path", "path_in_dataset", "filename", "file_name", "file")]
    for name in filter(None, names):
        for candidate in (folder / str(name), folder / "environments" / str(name), folder / Path(str(name)).name):
            resolved = candidate.resolve()
            if resolved.is_file() and resolved.is_relative_to(root):
                return candidate
    name = Path(str(next(filter(None, names), ""))).name
    return next((file for file in sorted(folder.rglob(name)) if file.is_file()), None) if name else None


def _file(file: Path, entry: Mapping[str, Any], sums: Mapping[str, str], folder: Path | None = None) -> Found:
    data = file.read_bytes()
    name = str(file.relative_to(folder)) if folder else file.name
    expected = sums.get(name) or sums.get(file.name) or entry.get("sha256")
    return _found(name, data.decode("utf-8", "replace"), hashlib.sha256(data).hexdigest(), entry, expected)


def _found(name: str, source: str, checksum: str, entry: Mapping[str, Any], expected: Any) -> Found:
    turns = entry.get("max_turns")
    return Found(
        name,
        source,
        checksum,
        str(expected) if expected else None,
        skill_name(entry.get("skill")),
        entry.get("hint") or None,
        turns if isinstance(turns, int) and turns > 0 else None,
        entry.get("license") or None,
    )


def _sums(path: Path) -> dict[str, str]:
    return checksums(path.read_text(encoding="utf-8")) if path.exists() else {}


def _wheel(path: Path) -> Iterator[Found]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            index = next((name for name in names if name.endswith("/" + INDEX)), None)
            if index is None:
                raise RegistryError(f"{path} is a wheel, but not one of `spade-envs export`: it has no {INDEX}")
            base = index.removesuffix(INDEX)
            sums = checksums(archive.read(base + CHECKSUMS).decode("utf-8"))
            for entry in json.loads(archive.read(index))["environments"]:
                data = archive.read(base + entry["file"])
                yield _found(
                    entry["file"],
                    data.decode("utf-8"),
                    hashlib.sha256(data).hexdigest(),
                    entry,
                    sums.get(entry["file"]),
                )
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise RegistryError(f"{path} is not an intact wheel of environments: {error}") from error


def _rows(rows: Iterable[Mapping[str, Any]], path: Path) -> Iterator[Found]:
    for number, row in enumerate(rows, start=1):
        code = row.get("code")
        if not isinstance(code, str):
            raise RegistryError(f"row {number} of {path} has no text in the column `code`")
        name = str(row.get("file_name") or row.get("game_id") or f"row {number}")
        yield _found(name, code, hashlib.sha256(code.encode("utf-8", "replace")).hexdigest(), row, row.get("sha256"))


def _json_lines(path: Path) -> Iterator[Found]:
    def rows() -> Iterator[Mapping[str, Any]]:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    try:
                        yield json.loads(line)
                    except ValueError as error:
                        raise RegistryError(f"line {number} of {path} is not valid JSON: {error}") from error

    return _rows(rows(), path)


def _parquet(path: Path) -> Iterator[Found]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise RegistryError("reading parquet needs pyarrow: pip install pyarrow") from None

    def rows() -> Iterator[Mapping[str, Any]]:
        for batch in parquet.ParquetFile(path).iter_batches(PARQUET_BATCH):
            yield from batch.to_pylist()

    return _rows(rows(), path)
