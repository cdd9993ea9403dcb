"""`import`: programs from elsewhere, through the gate, into a registry; one by one, in memory that stays flat."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from spade_envs import gate
from spade_envs.contract import Program
from spade_envs.errors import ProgramError
from spade_envs.sandbox import Pool
from spade_registry.pools import Found, read_pool
from spade_registry.registry import Registry
from spade_registry.rows import Check, NewEnvironment, Origin

WORKERS = 4
BATCH = 32
"""Programs that are written in one transaction."""


@dataclass
class Imported:
    """What came of an import."""

    counts: Counter[str] = field(default_factory=Counter)
    """accepted, rejected (kept with the reason), known (in the registry before) and refused (wrong checksum)."""
    problems: list[tuple[str, str]] = field(default_factory=list)
    """`(name, reason)` of the first programs that were rejected or refused."""

    def add(self, verdict: str, name: str, reason: str | None = None, keep: int = 50) -> None:
        """Count a program."""
        self.counts[verdict] += 1
        if reason and len(self.problems) < keep:
            self.problems.append((name, reason))


def import_pool(
    registry: Registry, path: str | Path, *, license: str | None = None, on_program: Callable[[], None] | None = None
) -> Imported:
    """Import a wheel, a folder, a file of programs or a pool; see `spade_registry.pools` for the formats.

    Every program passes the gate before it is accepted, and is stored as the gate has mended it; rejected ones are kept
    with the reason. A program whose checksum is not the stated one is refused by name, and the rest goes on. Importing
    twice changes nothing.

    Args:
        registry: where they go.
        path: what to import.
        license: SPDX identifier of programs that state none.
        on_program: called after each program.
    """
    return import_programs(
        registry, read_pool(Path(path)), origin=Path(path).name, license=license, on_program=on_program
    )


def import_programs(
    registry: Registry,
    programs: Iterable[Found],
    *,
    origin: str,
    license: str | None = None,
    on_program: Callable[[], None] | None = None,
) -> Imported:
    """Import programs that were read; see `import_pool`."""
    result = Imported()
    batch: list[NewEnvironment] = []
    with Pool(max_workers=2 * WORKERS) as pool, ThreadPoolExecutor(WORKERS) as threads:
        for found, judged in _judged(registry, programs, pool, threads):
            if judged is None:
                verdict = "known" if found.intact else "refused"
                reason = None if found.intact else _broken(found)
                result.add(verdict, found.name, reason)
            else:
                result.add("accepted" if judged.accepted else "rejected", found.name, _reason(judged))
                batch.append(_new(found, judged, origin, license))
            if len(batch) >= BATCH:
                registry.add_all(batch)
                batch.clear()
            if on_program is not None:
                on_program()
    registry.add_all(batch)
    return result


def _judged(
    registry: Registry, programs: Iterable[Found], pool: Pool, threads: ThreadPoolExecutor
) -> Iterator[tuple[Found, gate.GateReport | None]]:
    """Each program with its verdict, in order; None where it needs none. A bounded number is under way."""
    waiting: list[tuple[Found, Future[gate.GateReport] | None]] = []
    source = iter(programs)
    while True:
        for found in itertools.islice(source, 4 * WORKERS - len(waiting)):
            needed = found.intact and not _known(registry, found)
            waiting.append((found, threads.submit(_check, found, pool) if needed else None))
        if not waiting:
            return
        found, future = waiting.pop(0)
        yield found, None if future is None else future.result()


def _known(registry: Registry, found: Found) -> bool:
    try:
        program = Program.from_source(found.source)
    except ProgramError:
        return False
    record = registry.get(program.id)
    return record is not None and record.metadata["status"] == "accepted"


def _check(found: Found, pool: Pool) -> gate.GateReport:
    return gate.check(found.source, pool=pool)


def _broken(found: Found) -> str:
    if found.expected == "missing":
        return "the manifest names it, but the file is not there"
    return f"its SHA-256 is {found.checksum[:12]}..., but the pool states {str(found.expected)[:12]}..."


def _reason(report: gate.GateReport) -> str | None:
    return None if report.failure is None else ": ".join(report.failure)


def _new(found: Found, report: gate.GateReport, origin: str, license: str | None) -> NewEnvironment:
    return NewEnvironment(
        program=report.program if report.program is not None else report.source,
        skill=found.skill,
        status="accepted" if report.accepted else "rejected",
        status_reason=_reason(report),
        max_turns=found.max_turns or report.max_turns,
        hint=found.hint if report.accepted else None,
        hint_leak=_leak(found, report),
        origin=Origin(import_source=f"{origin}: {found.name}", import_checksum=found.checksum),
        checks=[Check(one.stage, one.passed, one.message or None, one.seconds, one.warnings) for one in report.stages],
        license=found.license or license,
        observation=report.observation,
    )


def _leak(found: Found, report: gate.GateReport) -> str | None:
    if not (report.accepted and found.hint and report.program is not None):
        return None
    return gate.hint_leaks(report.program, found.hint)
