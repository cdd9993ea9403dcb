"""The commands that move environments between registries, packages and pools: `export`, `import`, `merge`."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from spade_registry.commands import complete_ids, opened, registry_option
from spade_registry.exporting import export
from spade_registry.importing import Imported, import_pool
from spade_registry.merging import merge
from spade_registry.pools import count_pool
from spade_registry.registry import Registry
from spade_registry.schema import APPLICATION_ID

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


@click.command("export")
@click.argument("environments", nargs=-1, required=True, shell_complete=complete_ids)
@click.option(
    "--to", "folder", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the wheel."
)
@click.option("--name", default=None, help="Name of the package; default: spade-pack- and a hash over the ids.")
@click.option("--version", default="0.1.0", show_default=True, help="Version of the package.")
@click.option("--with-hints", is_flag=True, help="Put the hints into the package.")
@registry_option
@JSON
def export_command(
    environments: tuple[str, ...],
    folder: Path,
    name: str | None,
    version: str,
    with_hints: bool,
    registry: Path | None,
    as_json: bool,
) -> None:
    """Write ENVIRONMENTS as a wheel that another project installs, needing only spade-envs."""
    store = opened(registry)
    try:
        path = export(store, environments, folder, name=name, version=version, with_hints=with_hints)
    finally:
        if store is not None:
            store.close()
    click.echo(json.dumps({"wheel": str(path)}) if as_json else f"wrote {path}: pip install {path}")


@click.command("import")
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("--license", default=None, help="SPDX identifier for programs that state none.")
@registry_option
@JSON
def import_command(source: Path, license: str | None, registry: Path | None, as_json: bool) -> None:
    """Import SOURCE: a wheel of `export`, another registry, a folder of programs, a .py, .jsonl or .parquet file.

    Every program passes the gate before it is accepted; rejected ones are kept with the reason. Programs whose checksum
    is not the stated one are refused by name.
    """
    if source.is_file() and is_registry(source):
        _merge(source, registry, as_json)
        return
    with Registry.open(registry) as store, _progress(count_pool(source), "importing") as tick:
        result = import_pool(store, source, license=license, on_program=tick)
    _report(result, as_json)


@click.command("merge")
@click.argument("other", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@registry_option
@JSON
def merge_command(other: Path, registry: Path | None, as_json: bool) -> None:
    """Merge the registry file OTHER into this one: the same content is one row, plays and measurements add up once."""
    _merge(other, registry, as_json)


def _merge(other: Path, registry: Path | None, as_json: bool) -> None:
    with Registry.open(other, readonly=True) as source:
        total = sum(1 for _ in source.ids())
    with Registry.open(registry) as store, _progress(total, "merging") as tick:
        result = merge(store, other, on_program=tick)
    _report(result, as_json)


def is_registry(path: Path) -> bool:
    """Whether a file is a registry, of whatever version."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return bool(connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)
    except sqlite3.DatabaseError:
        return False


@contextmanager
def _progress(total: int | None, label: str) -> Iterator[Callable[[], None]]:
    hidden = not sys.stderr.isatty()
    with click.progressbar(length=total or 0, label=label, file=sys.stderr, hidden=hidden, show_pos=True) as bar:
        yield lambda: bar.update(1)


def _report(result: Imported, as_json: bool) -> None:
    counts = {name: result.counts[name] for name in ("accepted", "rejected", "known", "refused")}
    if as_json:
        problems = [{"name": name, "reason": reason} for name, reason in result.problems]
        click.echo(json.dumps({**counts, "problems": problems}, indent=2, ensure_ascii=False))
        return
    click.echo(", ".join(f"{count} {name}" for name, count in counts.items()))
    for name, reason in result.problems:
        click.echo(f"  {name}: {reason}")
