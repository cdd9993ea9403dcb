"""What `list`, `show`, `stats` and `verify` say about environments, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from spade_envs.contract import Program
from spade_envs.errors import ProgramError
from spade_envs.sources import Record
from spade_registry import difficulty
from spade_registry.registry import Registry
from spade_registry.schema import BAND

if TYPE_CHECKING:
    from spade_envs.sandbox import Pool

ANY_STATUS = ("accepted", "retired", "rejected")


def _dicts(registry: Registry, query: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
    cursor = registry.connection().execute(query, tuple(values))
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def listing(registry: Registry, *, status: str | None, run: int | None = None) -> list[dict[str, Any]]:
    """One row an environment, in order of arrival, with its figures in `run`, or its newest ones."""
    join = "LEFT JOIN standings AS s ON s.environment = e.id AND s.latest = 1"
    if run is not None:
        join = "JOIN standings AS s ON s.environment = e.id AND s.run = ?2"
    return _dicts(
        registry,
        "SELECT e.env_id AS id, e.skill, e.kind, e.status, e.status_reason AS reason, s.win_rate, s.win_rate_hinted, "
        f"s.regret, s.learnability, s.n, 'registry' AS source FROM environments AS e {join} "
        "WHERE (?1 IS NULL OR e.status = ?1) ORDER BY e.id",
        (status,) if run is None else (status, run),
    )


def facts(registry: Registry, query: str, transcripts: int = 1) -> dict[str, Any]:
    """Everything that a registry knows about one environment."""
    record = registry.get(query, statuses=ANY_STATUS)
    assert record is not None
    key = record.program.id
    row = _dicts(registry, "SELECT * FROM environments WHERE env_id = ?", (key,))[0]
    number = row["id"]
    return {
        **{"id": key, "sha256": row["sha256"], "kind": row["kind"], "skill": row["skill"], "status": row["status"]},
        **{"reason": row["status_reason"], "max_turns": row["max_turns"], "license": row["license"]},
        "duplicate_of": _one(registry, "SELECT env_id FROM environments WHERE id = ?", row["duplicate_of"]),
        "created_at": row["created_at"],
        "opening": row["observation"],
        "hint": row["hint"],
        "origins": _origins(registry, number),
        "checks": _dicts(
            registry,
            "SELECT stage, passed, message, warnings, seconds FROM checks WHERE environment = ? ORDER BY id",
            (number,),
        ),
        "difficulty": [asdict(one) for one in difficulty.of_environment(registry.connection(), number)],
        "measurements": [asdict(one) for one in registry.measurements(key)] if row["status"] != "rejected" else [],
        "transcripts": _dicts(
            registry,
            "SELECT run, step, policy, seed, hint IS NOT NULL AS hinted, outcome, return, transcript FROM plays "
            "WHERE environment = ? AND transcript IS NOT NULL ORDER BY id DESC LIMIT ?",
            (number, transcripts),
        ),
        "program": record.program.source,
    }


def _one(registry: Registry, query: str, value: Any) -> Any:
    found = registry.connection().execute(query, (value,)).fetchone()
    return found[0] if found else None


def _origins(registry: Registry, environment: int) -> list[dict[str, Any]]:
    origins = _dicts(
        registry,
        "SELECT o.id, o.run, o.step, o.attempt, o.designer, o.checkpoint, d.title AS document, o.prompt_version, "
        "o.import_source, o.import_checksum FROM origins AS o LEFT JOIN documents AS d ON d.id = o.document "
        "WHERE o.environment = ? ORDER BY o.id",
        (environment,),
    )
    for origin in origins:
        parents = _dicts(
            registry,
            "SELECT e.env_id FROM parents AS p JOIN environments AS e ON e.id = p.environment WHERE p.origin = ?",
            (origin.pop("id"),),
        )
        origin["parents"] = [parent["env_id"] for parent in parents]
    return origins


def ancestry(registry: Registry, key: str) -> list[str]:
    """The environments and documents that an environment descends from, as an indented tree; one line each."""
    lines: list[str] = []
    seen: set[str] = set()

    def tell(one: str, depth: int) -> None:
        rows = _dicts(
            registry, "SELECT DISTINCT document, run, step, designer, parent FROM lineage WHERE env_id = ?", (one,)
        )
        source = next((row for row in rows if row["run"] is not None), rows[0] if rows else {})
        notes = [
            f"{name} {source[name]}" for name in ("run", "step", "designer", "document") if source.get(name) is not None
        ]
        lines.append("  " * depth + one + (f"  ({', '.join(notes)})" if notes else ""))
        if one in seen:
            return
        seen.add(one)
        for parent in sorted({row["parent"] for row in rows if row["parent"]}):
            tell(parent, depth + 1)

    tell(key, 0)
    return lines


def facts_of_record(record: Record) -> dict[str, Any]:
    """The same for an environment of another source, which knows less."""
    program = record.program
    return {
        **{"id": program.id, "sha256": program.sha256, "kind": program.kind, "skill": record.skill},
        **{"status": "accepted", "max_turns": record.max_turns, "license": record.license, "hint": record.hint},
        "program": program.source,
    }


def rendered(facts: Mapping[str, Any]) -> str:
    """Facts as text for people."""
    simple = (
        "id",
        "sha256",
        "kind",
        "skill",
        "status",
        "reason",
        "max_turns",
        "license",
        "duplicate_of",
        "created_at",
        "hint",
    )
    lines = [f"{name.replace('_', ' '):<14}{facts[name]}" for name in simple if facts.get(name) is not None]
    for title in ("origins", "checks", "difficulty", "measurements"):
        rows = facts.get(title) or []
        if rows:
            lines += ["", title]
            lines += ["  " + _inline(row) for row in rows]
    for play in facts.get("transcripts") or []:
        arm = "hinted" if play["hinted"] else "unhinted"
        lines += [
            "",
            f"transcript (run {play['run']}, step {play['step']}, seed {play['seed']}, {arm}, {play['outcome']})",
        ]
        lines += _conversation(play["transcript"])
    if facts.get("opening"):
        lines += ["", "opening", *("  " + line for line in str(facts["opening"]).splitlines())]
    if facts.get("program"):
        lines += ["", "program", "", str(facts["program"]).rstrip()]
    return "\n".join(lines)


def _inline(row: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in row.items() if value not in (None, "", []) and name != "environment"}
    return ", ".join(
        f"{name.replace('_', ' ')} {value:.3f}" if isinstance(value, float) else f"{name.replace('_', ' ')} {value}"
        for name, value in shown.items()
    )


def _conversation(transcript: str) -> list[str]:
    try:
        messages = json.loads(transcript)
        return [f"  [{one['role']}] {one['content']}" for one in messages]
    except (ValueError, TypeError, KeyError):
        return ["  " + line for line in transcript.splitlines()]


def statistics(registry: Registry, run: int | None) -> list[dict[str, Any]]:
    """One row a skill, and one for all: numbers by status, plays, mean figures, and the share that is learnable."""
    join = "s.latest = 1" if run is None else "s.run = ?3"
    where = (
        "" if run is None else "WHERE EXISTS (SELECT 1 FROM origins AS o WHERE o.environment = e.id AND o.run = ?3) "
    )
    plays = "(SELECT count(*) FROM plays AS p WHERE p.environment = e.id" + (")" if run is None else " AND p.run = ?3)")
    query = (
        "SELECT {skill} AS skill, sum(e.status = 'accepted') AS accepted, sum(e.status = 'rejected') AS rejected, "
        f"sum(e.status = 'retired') AS retired, sum({plays}) AS plays, avg(s.win_rate) AS win_rate, "
        "avg(s.win_rate_hinted) AS win_rate_hinted, avg(s.regret) AS regret, "
        "avg(s.win_rate BETWEEN ?1 AND ?2) AS learnable "
        f"FROM environments AS e LEFT JOIN standings AS s ON s.environment = e.id AND {join} {where}"
    )
    values = BAND if run is None else (*BAND, run)
    by_skill = _dicts(registry, query.format(skill="coalesce(e.skill, '(unknown)')") + "GROUP BY 1 ORDER BY 1", values)
    return by_skill + _dicts(registry, query.format(skill="'all'"), values)


def problem(record: Record, pool: Pool) -> str | None:
    """What is wrong with a stored environment today, or None."""
    from spade_envs import gate

    try:
        again = Program.from_source(record.program.source)
    except ProgramError as error:
        return str(error)
    if again.sha256 != record.program.sha256:
        return f"the source does not have the hash under which it is stored, but {again.sha256[:12]}"
    report = gate.check(again, pool=pool, hint=record.hint)
    if report.failure is not None:
        return ": ".join(report.failure)
    if report.changes:
        return "it only passes after a repair: " + "; ".join(report.changes)
    return None
