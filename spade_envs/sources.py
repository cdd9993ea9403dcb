"""Where programs come from: sources announce themselves by entry point, and this module asks them all.

The core knows no registry by name. A distribution that has environments announces a zero-argument callable under the
entry-point group `spade_envs.sources`; it returns an object with the methods of `Source`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Protocol, runtime_checkable

from spade_envs.contract import NAMESPACE, Program
from spade_envs.errors import AmbiguousEnvironment, SpadeError, UnknownEnvironment

GROUP = "spade_envs.sources"
MIN_PREFIX = 4
"""Fewest hexadecimal digits that count as a prefix of a hash."""


@dataclass(frozen=True)
class Record:
    """A program with what its source knows about it."""

    program: Program
    max_turns: int | None = None
    skill: str | None = None
    hint: str | None = None
    license: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class Source(Protocol):
    """Something that finds programs: the starters, a registry file, an installed package."""

    @property
    def name(self) -> str:
        """A short name, for messages."""
        ...

    @property
    def location(self) -> str:
        """What is looked in (a file, a package), for messages."""
        ...

    def get(self, query: str) -> Record | None:
        """The record that a full id, an id without its namespace, a hash prefix or a name stands for, or None.

        Raises `AmbiguousEnvironment` where a prefix or a name fits several.
        """
        ...

    def suggest(self, query: str, n: int = 5) -> list[str]:
        """At most `n` ids that look like the query, the nearest first."""
        ...

    def ids(self) -> Iterator[str]:
        """Every id the source has."""
        ...


class ProgramSource:
    """A source over records in memory; the starters and exported packages are of this kind."""

    def __init__(self, name: str, location: str, records: Sequence[Record]) -> None:
        self.name = name
        self.location = location
        self._records: Mapping[str, Record] = {record.program.id: record for record in records}

    def get(self, query: str) -> Record | None:
        """Find a record; see `Source.get`."""
        found = [record for record in self._records.values() if matches(query, record.program)]
        if len({record.program.sha256 for record in found}) > 1:
            raise ambiguous(query, [record.program.id for record in found])
        return found[0] if found else None

    def suggest(self, query: str, n: int = 5) -> list[str]:
        """Ids near the query; see `Source.suggest`."""
        return nearest(query, list(self._records), n)

    def ids(self) -> Iterator[str]:
        """Every id, in the order given."""
        return iter(self._records)


def matches(query: str, program: Program) -> bool:
    """Whether a query (see `Source.get`) stands for this program."""
    bare = query.removeprefix(NAMESPACE + "/")
    if bare in (program.id.removeprefix(NAMESPACE + "/"), program.name, program.class_name):
        return True
    prefix = hash_prefix(bare)
    return prefix is not None and program.sha256.startswith(prefix)


def hash_prefix(query: str) -> str | None:
    """The hash digits in a query: bare (`3fa9`), after a name (`Maze-3fa9`), or in a full id; None if there are none."""
    found = re.fullmatch(rf"(?:{NAMESPACE}/)?(?:[A-Za-z0-9]+-)?([0-9a-f]{{{MIN_PREFIX},64}})(?:-v\d+)?", query)
    return found.group(1) if found else None


def ambiguous(query: str, ids: Sequence[str]) -> AmbiguousEnvironment:
    """The error for a query that fits several environments."""
    shown = ", ".join(sorted(ids)[:5]) + (", ..." if len(ids) > 5 else "")
    return AmbiguousEnvironment(f"{query!r} fits {len(ids)} environments: {shown}. Give more digits of the hash.")


def nearest(query: str, ids: Sequence[str], n: int = 5) -> list[str]:
    """At most `n` of `ids` by likeness of the name (the part before the hash), the nearest first."""
    import difflib

    wanted = _readable(query)
    by_name: dict[str, list[str]] = {}
    for identifier in ids:
        by_name.setdefault(_readable(identifier), []).append(identifier)
    close = difflib.get_close_matches(wanted, by_name, n=n, cutoff=0.4)
    return [identifier for name in close for identifier in by_name[name]][:n]


def _readable(query: str) -> str:
    return re.sub(r"-[0-9a-f]{4,64}(-v\d+)?$", "", query.removeprefix(NAMESPACE + "/")).lower()


@functools.cache
def _announced() -> tuple[metadata.EntryPoint, ...]:
    return tuple(metadata.entry_points(group=GROUP))


_added: list[Source] = []


def add_source(source: Source) -> None:
    """Add a source for this process, asked before the announced ones; for tests and notebooks."""
    _added.insert(0, source)


def remove_source(source: Source) -> None:
    """Take back `add_source`."""
    _added.remove(source)


def sources() -> list[Source]:
    """Every source: those added in this process, then the announced ones.

    Each announced callable is called anew, because what it looks in may change (a registry's path is a setting).
    A distribution without its own dependencies is left out.
    """
    found = list(_added)
    for entry in _announced():
        try:
            found.append(entry.load()())
        except ImportError:
            continue
    return found


def resolve(query: str) -> Record:
    """The one record that a query stands for, over all sources; see `Source.get` for the forms a query takes.

    The same program in several sources is one environment; the first source that has it answers.
    Raises `UnknownEnvironment`, which names every source and near matches, or `AmbiguousEnvironment`.
    """
    asked = sources()
    found: dict[str, Record] = {}
    for source in asked:
        record = source.get(query)
        if record is not None:
            if record.program.id == query:
                return record
            found.setdefault(record.program.sha256, record)
    if len(found) > 1:
        raise ambiguous(query, [record.program.id for record in found.values()])
    if not found:
        raise UnknownEnvironment(_unknown(query, asked))
    return next(iter(found.values()))


def _unknown(query: str, asked: Sequence[Source]) -> str:
    looked = "; ".join(f"{source.name} ({source.location})" for source in asked) or "no source at all"
    near: list[str] = []
    for source in asked:
        try:
            near += [identifier for identifier in source.suggest(query) if identifier not in near]
        except SpadeError:
            continue
    hint = f" Near matches: {', '.join(near[:5])}." if near else " There are no near matches."
    return f"no environment {query!r}. Looked in: {looked}.{hint}"
