"""The environments that a replay can draw, kept in memory and brought up to date by what was measured since.

A training run draws once a step and measures a few environments between two draws, so reading everything again would
cost the more the larger the registry is.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

import numpy as np

from spade_registry.replay import Candidates


class Measured(NamedTuple):
    """An accepted environment as it stands."""

    number: int
    """Its row."""
    slot: int
    """Row of the first of its near-duplicates, which share a slot."""
    measurement: int
    """The larger, the newer."""
    id: str
    skill: str | None
    regret: float | None
    win_rate: float | None


def measured(connection: sqlite3.Connection, after: int) -> list[Measured]:
    """What was measured after a measurement, in order of arrival."""
    # CROSS JOIN: SQLite keeps the order of the tables, and starts at the few standings instead of at all environments.
    rows = connection.execute(
        "SELECT e.id, coalesce(e.duplicate_of, e.id), s.measurement, e.env_id, e.skill, s.regret, s.win_rate "
        "FROM standings AS s CROSS JOIN environments AS e ON e.id = s.environment "
        "WHERE s.latest = 1 AND s.measurement > ? AND e.status = 'accepted' ORDER BY e.id",
        (after,),
    )
    return [Measured(*row) for row in rows]


class CandidateCache:
    """The candidates of one connection, in order of arrival; of near-duplicates the first that can be drawn."""

    def __init__(self) -> None:
        self._found = Candidates()
        self._place: dict[int, int] = {}
        self._slots: dict[int, int] = {}
        self._newest = 0
        self._seen: tuple[int, int] | None = None

    def forget(self) -> None:
        """Read everything at the next call: something has gone."""
        self._seen = None

    def load(self, connection: sqlite3.Connection) -> Candidates:
        """The candidates as they are now; the same object where nothing has changed."""
        version = connection.execute("PRAGMA data_version").fetchone()[0]  # moves when another connection commits
        seen = version, connection.total_changes
        if seen == self._seen:
            return self._found
        alone = self._seen is not None and version == self._seen[0]
        if not (alone and self._extend(measured(connection, self._newest))):
            self._replace(measured(connection, 0))
        self._seen = seen
        return self._found

    def _extend(self, rows: list[Measured]) -> bool:
        """Take in what was measured since; False where the order of the candidates would change."""
        last = max(self._place, default=0)
        if any(row.win_rate is None or (row.number not in self._place and row.number <= last) for row in rows):
            return False
        if rows:
            old = self._found
            new = self._first_of_slots([row for row in rows if row.number not in self._place])
            added = _candidates(new)
            self._found = Candidates(
                old.ids + added.ids,
                old.skills + added.skills,
                np.concatenate([old.regret, added.regret]),
                np.concatenate([old.win_rate, added.win_rate]),
            )
            self._place |= {row.number: len(old.ids) + at for at, row in enumerate(new)}
            self._update(rows)
        return True

    def _update(self, rows: list[Measured]) -> None:
        for row in rows:
            place = self._place.get(row.number)
            if place is not None:
                self._found.regret[place], self._found.win_rate[place] = row.regret or 0.0, row.win_rate
        self._newest = max(self._newest, *(row.measurement for row in rows))

    def _replace(self, rows: list[Measured]) -> None:
        self._slots = {}
        first = self._first_of_slots([row for row in rows if row.win_rate is not None])
        self._found = _candidates(first)
        self._place = {row.number: at for at, row in enumerate(first)}
        self._newest = max((row.measurement for row in rows), default=0)

    def _first_of_slots(self, rows: list[Measured]) -> list[Measured]:
        return [row for row in rows if self._slots.setdefault(row.slot, row.number) == row.number]


def _candidates(rows: list[Measured]) -> Candidates:
    return Candidates(
        [row.id for row in rows],
        [row.skill or "" for row in rows],
        np.array([row.regret or 0.0 for row in rows], dtype=np.float64),
        np.array([row.win_rate for row in rows], dtype=np.float64),
    )
