"""The starter programs: small games of our own, two or more for each skill, registered like any other environment.

Each program is a plain file under `programs/` that imports nothing of ours; `index.toml` holds what the program does
not say itself: title, skill, turn limit and hint.
"""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any

from spade_envs.contract import Program
from spade_envs.errors import SpadeError
from spade_envs.sources import ProgramSource, Record

LICENSE = "Apache-2.0"
NAME = "starters"


@functools.cache
def source() -> ProgramSource:
    """The starters as a source of environments; announced under the entry-point group `spade_envs.sources`.

    Raises `SpadeError` where the index and the program files of this installation do not belong together.
    """
    return ProgramSource(NAME, "the programs that come with spade-envs", records())


@functools.cache
def records() -> tuple[Record, ...]:
    """One record for each starter, in the order of the index; `metadata` has `title` and `file`."""
    folder = resources.files(__name__)
    entries = tomllib.loads(folder.joinpath("index.toml").read_text(encoding="utf-8"))["program"]
    return tuple(_record(entry, folder.joinpath("programs", entry["file"])) for entry in entries)


def _record(entry: dict[str, Any], file: Any) -> Record:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        problem = f"the starter {entry['file']} is missing from this installation; install spade-envs again"
        raise SpadeError(problem) from None
    return Record(
        program=Program.from_source(text),
        max_turns=entry["max_turns"],
        skill=entry["skill"],
        hint=entry["hint"],
        license=LICENSE,
        metadata={"title": entry["title"], "file": entry["file"]},
    )
