"""Environments as an installed package: what a wheel of `spade-envs export` calls at run time.

Such a wheel holds `environments.json`, one file a program, and `checksums.sha256`. Its own module is three lines that
call `load`, and it announces them under the entry-point group `spade_envs.sources`.
"""

from __future__ import annotations

import functools
import hashlib
import json
from importlib import resources
from typing import Any

from spade_envs.contract import Program
from spade_envs.errors import SpadeError
from spade_envs.sources import ProgramSource, Record

INDEX = "environments.json"
CHECKSUMS = "checksums.sha256"
FORMAT = 1
"""Version of the package's layout."""


@functools.cache
def load(package: str) -> ProgramSource:
    """The environments of an installed package, by its module's name, as a source.

    Raises `SpadeError` where a file does not have the checksum it was packaged with, or the layout is a newer one.
    """
    folder = resources.files(package)
    index = json.loads(folder.joinpath(INDEX).read_text(encoding="utf-8"))
    if index["format"] > FORMAT:
        raise SpadeError(f"the package {package} has layout {index['format']}, newer than {FORMAT}: upgrade spade-envs")
    expected = checksums(folder.joinpath(CHECKSUMS).read_text(encoding="utf-8"))
    records = []
    for entry in index["environments"]:
        data = folder.joinpath(entry["file"]).read_bytes()
        if hashlib.sha256(data).hexdigest() != expected.get(entry["file"]):
            raise SpadeError(
                f"{entry['file']} of the package {package} was changed since it was packaged: install it again"
            )
        records.append(_record(entry, data.decode("utf-8"), package))
    return ProgramSource(package, f"the installed package {package}", records)


def _record(entry: dict[str, Any], source: str, package: str) -> Record:
    program = Program.from_source(source)
    known = {"package": package, "measurements": entry.get("measurements", [])}
    return Record(program, entry["max_turns"], entry["skill"], entry.get("hint"), entry["license"], known)


def checksums(text: str) -> dict[str, str]:
    """File name -> SHA-256 of a `sha256sum` file."""
    pairs = (line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {name.strip().removeprefix("*").removeprefix("./"): digest.lower() for digest, name in pairs}
