"""`Registry`: one file with every environment, its hint, its origin and everything measured on it."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from spade_envs.contract import Program
from spade_envs.errors import UnknownEnvironment
from spade_envs.sources import Record
from spade_registry import queries
from spade_registry.candidates import CandidateCache
from spade_registry.measuring import update_standings, write_measurement
from spade_registry.memory import CAPACITY, Memory, choose
from spade_registry.replay import Sampler
from spade_registry.rows import Document, Measurement, NewEnvironment, Play, Ranked, Run, Step, digest, new_uuid, now
from spade_registry.store import (
    RegistryError,
    default_path,
    explained,
    open_readonly,
    open_writable,
    transaction,
)
from spade_registry.writing import write_environment, write_hint, write_plays

if TYPE_CHECKING:
    from typing import Self

    from spade_registry.importing import Imported

DISTRIBUTIONS = ("spade-envs", "gymnasium", "torch", "transformers", "verl", "vllm")
T = TypeVar("T")
RUN_STATES = ("running", "finished", "failed")


class Registry:
    """An open registry file. Several threads may share one; every process opens its own.

    A write is one transaction: when a method returns, what it wrote is on the disk, and when it raises, nothing is.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, *, readonly: bool) -> None:
        self.path = path
        self.readonly = readonly
        self._connection = connection
        self._lock = threading.RLock()
        self._candidates = CandidateCache()

    @classmethod
    def open(cls, path: str | Path | None = None, *, readonly: bool = False) -> Self:
        """Open a registry; create or migrate it where needed, unless `readonly`.

        Args:
            path: of the file; default: `$SPADE_REGISTRY`, else `registry.db` in the user's data directory.
            readonly: refuse to write, and never create or migrate a file.

        Raises `RegistryError` for a file that is not a registry, comes from a newer release, or cannot be written.
        """
        chosen = (Path(path).expanduser() if path is not None else default_path()).absolute()
        connection = open_readonly(chosen) if readonly else open_writable(chosen)
        return cls(connection, chosen, readonly=readonly)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, explained(self.path):
            yield self._connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if self.readonly:
            raise RegistryError(
                f"the registry {self.path} was opened read-only: open it without readonly=True to write"
            )
        with self._lock, explained(self.path), transaction(self._connection):
            yield self._connection

    def _paged(self, read: Callable[[sqlite3.Connection, int], list[tuple[int, T]]]) -> Iterator[T]:
        """Rows in order of their numbers, page by page, so that nothing is locked while the caller works on them."""
        after = 0
        while True:
            with self._reading() as connection:
                page = read(connection, after)
            if not page:
                return
            yield from (found for _, found in page)
            after = page[-1][0]

    # -- environments ------------------------------------------------------------------------------------------------

    def add(self, program: Program | str, **details: Any) -> str:
        """Store a program once and return its Gymnasium id; `details` are the other fields of `NewEnvironment`.

        A program that is there already keeps its row and gains another origin and hint. Raises `ProgramError` for a
        text that is no program, `TypeError` for a field that does not exist.
        """
        return self.add_all([NewEnvironment(program, **details)])[0]

    def add_all(self, environments: Iterable[NewEnvironment]) -> list[str]:
        """Store several programs in one transaction; their ids in order."""
        with self._writing() as connection:
            lookup = self._lookup(connection)
            return [write_environment(connection, new, lookup)[1] for new in environments]

    def add_hint(self, query: str, text: str, *, author: str | None = None, leak: str | None = None) -> None:
        """Store a hint of an environment and put it to use, unless `leak` says why it must not be shown."""
        with self._writing() as connection:
            write_hint(connection, self._row(connection, query), text, author=author, leak=leak)

    def retire(self, query: str, reason: str) -> str:
        """Take an environment out of use without deleting anything; returns its id.

        It stays playable by its exact id, and is no longer listed, sampled, or found by name.
        """
        with self._writing() as connection:
            row = self._row(connection, query)
            connection.execute(
                "UPDATE environments SET status = 'retired', status_reason = ? WHERE id = ?", (reason, row)
            )
            self._candidates.forget()
            return self._env_id(connection, row)

    def get(self, query: str, *, statuses: Collection[str] = queries.RESOLVABLE) -> Record | None:
        """The environment that an id, a hash prefix (4 digits or more) or an unambiguous name stands for, or None.

        Raises `AmbiguousEnvironment` where several fit.
        """
        with self._reading() as connection:
            row = queries.find(connection, query, tuple(statuses))
            return None if row is None else queries.get(connection, row)

    def find_id(self, query: str, *, statuses: Collection[str] = queries.RESOLVABLE) -> str:
        """The id that a query stands for. Raises `UnknownEnvironment`, which names near matches."""
        with self._reading() as connection:
            return self._env_id(connection, self._row(connection, query, tuple(statuses)))

    def suggest(self, query: str, n: int = 5) -> list[str]:
        """At most `n` ids whose names look like the query's, the nearest first."""
        with self._reading() as connection:
            return queries.near(connection, query, n)

    def ids(self, status: str = "accepted") -> Iterator[str]:
        """Ids in order of arrival."""
        return self._paged(lambda connection, after: queries.ids(connection, status, after))

    def records(self, status: str | None = "accepted", skill: str | None = None) -> Iterator[Record]:
        """Environments in order of arrival, of one status (None: all) and of one skill (None: all)."""
        return self._paged(lambda connection, after: queries.records(connection, status, skill, after))

    def search(self, query: str, n: int = 20, *, status: str | None = "accepted") -> list[Ranked]:
        """Full-text search over name, source, opening observation and hint, the best match first."""
        with self._reading() as connection:
            return queries.search(connection, query, n, status)

    def documents(self) -> Iterator[Document]:
        """Every corpus document that a design was grounded on."""
        return self._paged(queries.documents)

    def leaderboard(self, *, run: int | None = None, n: int = 20) -> list[Ranked]:
        """Accepted environments of the highest regret, in a run or as they stand now."""
        with self._reading() as connection:
            return queries.leaderboard(connection, run, n)

    def graveyard(self, *, run: int | None = None, n: int = 20) -> list[Ranked]:
        """Environments that teach nothing (rejected, faulty, too easy, too hard) with the reason, the newest first."""
        with self._reading() as connection:
            return queries.graveyard(connection, run, n)

    # -- plays and measurements --------------------------------------------------------------------------------------

    def record_plays(self, plays: Sequence[Play]) -> None:
        """Store a batch of plays. Raises `RegistryError`, and writes nothing, where one contradicts itself."""
        with self._writing() as connection:
            write_plays(connection, plays, self._lookup(connection))

    def plays(self, query: str, *, run: int | None = None) -> Iterator[Play]:
        """Plays of an environment in order of arrival, of one run or of all."""
        with self._reading() as connection:
            row = self._row(connection, query)
            env_id = self._env_id(connection, row)
        return self._paged(lambda connection, after: queries.plays(connection, row, env_id, run, after))

    def measure(self, query: str, run: int, step: int) -> Measurement:
        """Measure an environment from its plays at a step of a run; an earlier measurement of them is replaced."""
        with self._writing() as connection:
            row = self._row(connection, query)
            measured = write_measurement(connection, row, self._env_id(connection, row), run, step)
            update_standings(connection, [(row, run)])
            return measured

    def measurements(self, query: str, *, run: int | None = None) -> list[Measurement]:
        """Measurements of an environment in order of arrival, of one run or of all."""
        with self._reading() as connection:
            row = self._row(connection, query)
            return queries.measurements(connection, row, self._env_id(connection, row), run)

    def measured(self) -> int:
        """Number of environments that a replay can draw: accepted, measured, near-duplicates counted once."""
        with self._reading() as connection:
            return len(self._candidates.load(connection).ids)

    def memory(
        self,
        skill: str,
        seeds: int,
        negatives: int,
        rng: np.random.Generator,
        *,
        run: int | None = None,
        capacity: int = CAPACITY,
    ) -> Memory:
        """Examples and warnings for a designer's prompt; see `spade_registry.memory.choose`.

        Args:
            skill: that the prompt asks for.
            seeds: examples wanted.
            negatives: warnings wanted.
            rng: numpy generator that chooses among those that qualify.
            run: whose measurements count; None: the newest of each environment.
            capacity: environments that are remembered, the most recently measured ones.
        """
        with self._reading() as connection:
            found = queries.remembered(connection, skill, run, capacity)
        return choose(found, seeds, negatives, rng)

    def replay(self, **settings: Any) -> Sampler:
        """A sampler over the accepted environments that were measured; `settings` are those of `Sampler`."""

        def load() -> Any:
            with self._reading() as connection:
                return self._candidates.load(connection)

        return Sampler(load, **settings)

    def sample(self, n: int, *, seed: int = 0, **settings: Any) -> list[str]:
        """Draw `n` ids once; see `replay` for draws that remember one another."""
        return self.replay(seed=seed, **settings).sample(n)

    # -- runs --------------------------------------------------------------------------------------------------------

    def start_run(self, preset: str, configuration: Mapping[str, Any], directory: str | Path | None) -> int:
        """Begin a run and return its id.

        Its identity for `latest_run` is `configuration["hash"]`, or the hash of the whole configuration.
        """
        text = json.dumps(configuration, ensure_ascii=False, default=str)
        values = (
            *(new_uuid(), preset, text, str(configuration.get("hash") or digest(text))),
            *(json.dumps(_versions()), None if directory is None else str(directory), now()),
        )
        with self._writing() as connection:
            cursor = connection.execute(
                "INSERT INTO runs (uuid, preset, configuration, config_hash, versions, directory, state, started_at) "
                "VALUES (?, ?, ?, ?, ?, ?, 'running', ?)",
                values,
            )
            assert cursor.lastrowid is not None
            return cursor.lastrowid

    def update_run(self, run: int, *, configuration: Mapping[str, Any], directory: str | Path | None) -> None:
        """Complete what is known of a run since it was started."""
        text = json.dumps(configuration, ensure_ascii=False, default=str)
        with self._writing() as connection:
            self._require_run(connection, run)
            connection.execute(
                "UPDATE runs SET configuration = ?, directory = coalesce(?, directory) WHERE id = ?",
                (text, None if directory is None else str(directory), run),
            )

    def finish_run(self, run: int, state: str = "finished") -> None:
        """Set a run's final state: `finished` or `failed`; `running` opens it again."""
        if state not in RUN_STATES:
            raise RegistryError(f"the state of a run is one of {', '.join(RUN_STATES)}, not {state!r}")
        with self._writing() as connection:
            self._require_run(connection, run)
            ended = None if state == "running" else now()
            connection.execute("UPDATE runs SET state = ?, ended_at = ? WHERE id = ?", (state, ended, run))

    def run(self, run: int) -> Run:
        """A run by its id. Raises `RegistryError` where there is none."""
        with self._reading() as connection:
            return self._require_run(connection, run)

    def runs(self) -> list[Run]:
        """Every run, the oldest first."""
        with self._reading() as connection:
            return [queries.run(row) for row in connection.execute(f"SELECT {queries.RUN} FROM runs ORDER BY id")]

    def latest_run(self, preset: str, config_hash: str, state: str | None = None) -> Run | None:
        """The newest run of a preset and configuration, in a state (None: any)."""
        with self._reading() as connection:
            row = connection.execute(
                f"SELECT {queries.RUN} FROM runs WHERE preset = ?1 AND config_hash = ?2 AND (?3 IS NULL OR state = ?3) "
                "ORDER BY id DESC LIMIT 1",
                (preset, config_hash, state),
            ).fetchone()
            return None if row is None else queries.run(row)

    def steps(self, run: int, after: int = -1) -> list[Step]:
        """Stored steps of a run beyond `after`, in order."""
        with self._reading() as connection:
            return queries.steps(connection, run, after)

    def record_step(self, run: int, step: int, metrics: Mapping[str, float]) -> None:
        """Store the metrics of a step without anything else."""
        self.commit_round(run, step, metrics=metrics)

    def commit_round(
        self,
        run: int,
        step: int,
        *,
        environments: Iterable[NewEnvironment] = (),
        plays: Sequence[Play] = (),
        metrics: Mapping[str, float] | None = None,
    ) -> list[str]:
        """Store a finished step in one transaction: programs, plays, their measurements, and the metrics.

        Returns the ids of `environments`, in order. Raises `RegistryError` for a step that is stored already, or a
        measure that is not a number; nothing is written then.
        """
        text = json.dumps({name: _number(name, value) for name, value in (metrics or {}).items()})
        with self._writing() as connection:
            self._require_run(connection, run)
            if connection.execute("SELECT 1 FROM steps WHERE run = ? AND step = ?", (run, step)).fetchone():
                raise RegistryError(
                    f"step {step} of run {run} is stored already: roll the run back before repeating it"
                )
            lookup = self._lookup(connection)
            added = [write_environment(connection, new, lookup)[1] for new in environments]
            write_plays(connection, plays, lookup)
            played = {play.environment: lookup(play.environment) for play in plays}
            for env_id, row in played.items():
                write_measurement(connection, row, env_id, run, step)
            update_standings(connection, [(row, run) for row in played.values()])
            connection.execute(
                "INSERT INTO steps (run, step, metrics, created_at) VALUES (?, ?, ?, ?)", (run, step, text, now())
            )
        return added

    def rollback_run(self, run: int, step: int) -> None:
        """Take back everything that a run wrote after `step`, as if it had stopped there."""
        with self._writing() as connection:
            self._require_run(connection, run)
            _roll_back(connection, run, step)
            self._candidates.forget()

    # -- whole files -------------------------------------------------------------------------------------------------

    def export(self, queries: Sequence[str], folder: str | Path, **settings: Any) -> Path:
        """Write environments as a wheel; see `spade_registry.exporting.export`."""
        from spade_registry.exporting import export

        return export(self, queries, folder, **settings)

    def import_(self, path: str | Path, **settings: Any) -> Imported:
        """Import a pool of programs through the gate; see `spade_registry.importing.import_pool`."""
        from spade_registry.importing import import_pool

        return import_pool(self, path, **settings)

    def merge(self, other: str | Path, **settings: Any) -> Imported:
        """Merge another registry file into this one; see `spade_registry.merging.merge`."""
        from spade_registry.merging import merge

        return merge(self, other, **settings)

    def connection(self) -> sqlite3.Connection:
        """The SQLite connection, for queries that this class has no method for; its transactions are the caller's."""
        return self._connection

    # -- look-ups ----------------------------------------------------------------------------------------------------

    def _row(self, connection: sqlite3.Connection, query: str, statuses: Sequence[str] = queries.RESOLVABLE) -> int:
        row = queries.find(connection, query, statuses)
        if row is None:
            near = ", ".join(queries.near(connection, query, 5)) or "none"
            raise UnknownEnvironment(f"the registry {self.path} has no environment {query!r}. Near matches: {near}.")
        return row

    def _env_id(self, connection: sqlite3.Connection, row: int) -> str:
        return str(connection.execute("SELECT env_id FROM environments WHERE id = ?", (row,)).fetchone()[0])

    def _lookup(self, connection: sqlite3.Connection) -> Any:
        known: dict[str, int] = {}

        def lookup(env_id: str) -> int:
            if env_id not in known:
                known[env_id] = self._row(connection, env_id)
            return known[env_id]

        return lookup

    def _require_run(self, connection: sqlite3.Connection, run: int) -> Run:
        row = connection.execute(f"SELECT {queries.RUN} FROM runs WHERE id = ?", (run,)).fetchone()
        if row is None:
            raise RegistryError(f"the registry {self.path} has no run {run}: `sqlite-utils rows FILE runs` lists them")
        return queries.run(row)


def _roll_back(connection: sqlite3.Connection, run: int, step: int) -> None:
    later = (run, step)
    touched = connection.execute(
        "SELECT DISTINCT environment, run FROM measurements WHERE run = ? AND step > ?", later
    ).fetchall()
    for table in ("plays", "measurements", "steps"):
        connection.execute(f"DELETE FROM {table} WHERE run = ? AND step > ?", later)
    hinted = connection.execute("SELECT DISTINCT environment FROM hints WHERE run = ? AND step > ?", later).fetchall()
    designed = connection.execute(
        "SELECT DISTINCT environment FROM origins WHERE run = ? AND step > ?", later
    ).fetchall()
    connection.execute(
        "DELETE FROM hints WHERE run = ? AND step > ? AND NOT EXISTS (SELECT 1 FROM plays WHERE hint = hints.id)", later
    )
    connection.execute("DELETE FROM origins WHERE run = ? AND step > ?", later)
    # A program that only these steps wrote, and nobody else refers to, is as if it had never been.
    connection.executemany(
        "DELETE FROM environments WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM origins WHERE environment = ?1) "
        "AND NOT EXISTS (SELECT 1 FROM plays WHERE environment = ?1) "
        "AND NOT EXISTS (SELECT 1 FROM parents WHERE environment = ?1) "
        "AND NOT EXISTS (SELECT 1 FROM environments WHERE duplicate_of = ?1)",
        sorted(designed, reverse=True),
    )
    connection.executemany(
        "UPDATE environments SET hint = (SELECT text FROM hints WHERE environment = ?1 AND leak IS NULL "
        "ORDER BY id DESC LIMIT 1) WHERE id = ?1",
        hinted,
    )
    update_standings(connection, [(environment, of) for environment, of in touched])


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == float("inf"):
        raise RegistryError(f"the metric {name!r} must be a finite number, not {value!r}")
    return value


def _versions() -> dict[str, str]:
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
