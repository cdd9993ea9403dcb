"""The registry's commands: `spade-envs list`, `show`, `search`, `stats`, `retire`, `verify`, `path`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from spade_envs.sources import Record, resolve
from spade_envs.starters import records as starter_records
from spade_registry import details
from spade_registry.output import format_options, show_rows
from spade_registry.registry import Registry
from spade_registry.store import default_path

Command = TypeVar("Command", bound=Callable[..., Any])
LISTED = ("id", "skill", "kind", "status", "win_rate", "win_rate_hinted", "regret", "n", "source")
SORTS = ("regret", "win_rate", "learnability", "name", "added")


def registry_option(command: Command) -> Command:
    """Add `--registry FILE`."""
    return click.option(
        "--registry",
        type=click.Path(path_type=Path, dir_okay=False),
        default=None,
        help="Registry file; default: $SPADE_REGISTRY, else the user's data directory.",
    )(command)


def complete_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids that begin with what was typed, for the shell."""
    path = context.params.get("registry") or default_path()
    ids = [record.program.id for record in starter_records()]
    if Path(path).exists():
        with Registry.open(path, readonly=True) as registry:
            ids += registry.ids()
    bare = incomplete.removeprefix("spade/")
    return [CompletionItem(one) for one in ids if one.removeprefix("spade/").startswith(bare)][:50]


def environment_argument(command: Command) -> Command:
    """Add the argument ENVIRONMENT, completed by the shell."""
    return click.argument("environment", shell_complete=complete_ids)(command)


def opened(path: Path | None) -> Registry | None:
    """The registry for reading; None where the default one is not there yet. Raises `RegistryError` for a named one."""
    if path is None and not default_path().exists():
        return None
    return Registry.open(path, readonly=True)


@click.command("path")
def path_command() -> None:
    """Print the path of the registry that the other commands use."""
    click.echo(default_path())


@click.command("list")
@registry_option
@click.option("--skill", default=None, help="Only environments of this skill.")
@click.option("--kind", type=click.Choice(["game", "tool_use", "multi_agent"]), default=None, help="Only this kind.")
@click.option(
    "--status",
    type=click.Choice(["accepted", "rejected", "retired", "all"]),
    default="accepted",
    show_default=True,
    help="Only environments of this status.",
)
@click.option("--sort", type=click.Choice(SORTS), default="added", show_default=True, help="Order of the lines.")
@click.option("--run", type=int, default=None, help="Only environments that this run measured, with its figures.")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=None, help="At most this many lines.")
@format_options
def list_command(
    registry: Path | None,
    skill: str | None,
    kind: str | None,
    status: str,
    sort: str,
    run: int | None,
    limit: int | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """List environments with their figures: those of the registry, and the starters that it does not hold."""
    rows: list[dict[str, Any]] = []
    store = opened(registry)
    if store is not None:
        with store:
            rows = details.listing(store, status=None if status == "all" else status, run=run)
    if run is None and status in ("accepted", "all"):
        known = {row["id"] for row in rows}
        rows += [_starter_row(record) for record in starter_records() if record.program.id not in known]
    rows = [row for row in rows if skill in (None, row["skill"]) and kind in (None, row["kind"])]
    show_rows(_sorted(rows, sort)[:limit], LISTED, as_json=as_json, as_csv=as_csv)


def _starter_row(record: Record) -> dict[str, Any]:
    program = record.program
    return {"id": program.id, "skill": record.skill, "kind": program.kind, "status": "accepted", "source": "starters"}


def _sorted(rows: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    if sort == "added":
        return rows
    if sort == "name":
        return sorted(rows, key=lambda row: row["id"])
    return sorted(rows, key=lambda row: (row.get(sort) is None, -(row.get(sort) or 0.0)))


@click.command("show")
@environment_argument
@registry_option
@click.option("--with-hint", is_flag=True, help="Print the hint, which a player must not see.")
@click.option("--transcripts", type=click.IntRange(min=0), default=1, show_default=True, help="Transcripts to print.")
@click.option("--source/--no-source", default=True, help="Print the program.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def show_command(
    environment: str, registry: Path | None, with_hint: bool, transcripts: int, source: bool, as_json: bool
) -> None:
    """Show one ENVIRONMENT: where it comes from, what the gate and the players found, and the program."""
    facts = _facts(environment, registry, transcripts)
    if not with_hint:
        facts["hint"] = "(kept back: --with-hint)" if facts.get("hint") else None
        facts["transcripts"] = [one for one in facts.get("transcripts", []) if not one["hinted"]]
    if not source:
        facts.pop("program", None)
    click.echo(json.dumps(facts, indent=2, ensure_ascii=False) if as_json else details.rendered(facts))


def _facts(environment: str, registry: Path | None, transcripts: int) -> dict[str, Any]:
    store = opened(registry)
    if store is not None:
        with store:
            if registry is not None or store.get(environment, statuses=details.ANY_STATUS) is not None:
                return details.facts(store, store.find_id(environment, statuses=details.ANY_STATUS), transcripts)
    return details.facts_of_record(resolve(environment))


@click.command("search")
@click.argument("query")
@registry_option
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most this many.")
@format_options
def search_command(query: str, registry: Path | None, limit: int, as_json: bool, as_csv: bool) -> None:
    """Search names, programs, opening observations and hints for QUERY, the best match first."""
    with Registry.open(registry, readonly=True) as store:
        found = store.search(query, limit)
    rows = [
        {
            "id": one.id,
            "skill": one.skill,
            "win_rate": one.win_rate,
            "regret": one.regret,
            "opening": _line(one.observation),
        }
        for one in found
    ]
    show_rows(rows, ("id", "skill", "win_rate", "regret", "opening"), as_json=as_json, as_csv=as_csv)


def _line(text: str | None, limit: int = 80) -> str | None:
    return None if text is None else " ".join(text.split())[:limit]


@click.command("stats")
@registry_option
@click.option("--run", type=int, default=None, help="Only what this run wrote.")
@format_options
def stats_command(registry: Path | None, run: int | None, as_json: bool, as_csv: bool) -> None:
    """Count environments by skill and status, and say how hard they are."""
    with Registry.open(registry, readonly=True) as store:
        rows = details.statistics(store, run)
    columns = (
        "skill",
        "accepted",
        "rejected",
        "retired",
        "plays",
        "win_rate",
        "win_rate_hinted",
        "regret",
        "learnable",
    )
    show_rows(rows, columns, as_json=as_json, as_csv=as_csv)


@click.command("retire")
@environment_argument
@registry_option
@click.option("--reason", required=True, help="Why; it is stored.")
def retire_command(environment: str, registry: Path | None, reason: str) -> None:
    """Take ENVIRONMENT out of use. Nothing is deleted, and it stays playable by its exact id."""
    with Registry.open(registry) as store:
        click.echo(f"retired {store.retire(environment, reason)}")


@click.command("verify")
@click.argument("environments", nargs=-1, shell_complete=complete_ids)
@registry_option
@format_options
def verify_command(environments: tuple[str, ...], registry: Path | None, as_json: bool, as_csv: bool) -> None:
    """Put ENVIRONMENTS (default: all accepted ones) through the gate again and compare their hashes.

    Exit code 0 when all hold, 1 when one does not. The registry is not changed.
    """
    with Registry.open(registry, readonly=True) as store:
        found = (store.get(store.find_id(one)) for one in environments)
        chosen = [record for record in found if record] if environments else list(store.records())
        rows = list(_verified(chosen, quiet=as_json or as_csv))
    show_rows(rows, ("id", "ok", "problem"), as_json=as_json, as_csv=as_csv)
    sys.exit(0 if all(row["ok"] for row in rows) else 1)


def _verified(records: list[Record], *, quiet: bool) -> Iterator[dict[str, Any]]:
    from spade_envs.sandbox import Pool

    with (
        Pool() as pool,
        click.progressbar(
            records, label="verifying", file=sys.stderr, hidden=quiet or not sys.stderr.isatty()
        ) as progress,
    ):
        for record in progress:
            problem = details.problem(record, pool)
            yield {"id": record.program.id, "ok": problem is None, "problem": problem}
