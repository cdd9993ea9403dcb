"""A sqlite-utils plugin: `sqlite-utils spade-frontier FILE`, `spade-show`, `spade-lineage`, `spade-play`.

For people who browse a registry with sqlite-utils; announced under its entry-point group `sqlite_utils`.
"""

from __future__ import annotations

import click
from sqlite_utils import hookimpl


@hookimpl
def register_commands(cli: click.Group) -> None:
    """Add the commands to sqlite-utils."""
    # Nothing of ours is imported before a command runs: sqlite-utils loads its plugins at every start.
    file = click.argument("file", type=click.Path(exists=True, dir_okay=False))
    environment = click.argument("environment")

    @cli.command(name="spade-frontier")
    @file
    @click.option("-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most this many.")
    @click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
    @click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values with a header line.")
    def frontier(file: str, limit: int, as_json: bool, as_csv: bool) -> None:
        """Show what is learnable in a registry FILE, the best first."""
        _run(_frontier, file, limit, as_json, as_csv)

    @cli.command(name="spade-show")
    @file
    @environment
    @click.option("--with-hint", is_flag=True, help="Print the hint, which a player must not see.")
    def show(file: str, environment: str, with_hint: bool) -> None:
        """Show one ENVIRONMENT of a registry FILE."""
        _run(_show, file, environment, with_hint)

    @cli.command(name="spade-lineage")
    @file
    @environment
    def lineage(file: str, environment: str) -> None:
        """Show from which environments and documents an ENVIRONMENT of a registry FILE descends."""
        _run(_lineage, file, environment)

    @cli.command(name="spade-play")
    @file
    @environment
    @click.option("--seed", type=int, default=None, help="Seed of the episode; drawn and shown when absent.")
    @click.option("--hint", is_flag=True, help="Show the environment's hint before the first turn.")
    def play(file: str, environment: str, seed: int | None, hint: bool) -> None:
        """Play an ENVIRONMENT of a registry FILE in the terminal."""
        _run(_play, file, environment, seed, hint)


def _run(function: object, *arguments: object) -> None:
    from spade_envs.errors import SpadeError

    try:
        function(*arguments)  # type: ignore[operator]
    except SpadeError as error:
        raise click.ClickException(str(error)) from error


def _frontier(file: str, limit: int, as_json: bool, as_csv: bool) -> None:
    from spade_registry.output import show_rows
    from spade_registry.registry import Registry

    with Registry.open(file, readonly=True) as registry:
        cursor = registry.connection().execute("SELECT * FROM frontier LIMIT ?", (limit,))
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    show_rows(rows, names, as_json=as_json, as_csv=as_csv)


def _show(file: str, environment: str, with_hint: bool) -> None:
    from spade_registry import details
    from spade_registry.registry import Registry

    with Registry.open(file, readonly=True) as registry:
        key = registry.find_id(environment, statuses=details.ANY_STATUS)
        found = details.facts(registry, key)
    if not with_hint:
        found["hint"] = "(kept back: --with-hint)" if found["hint"] else None
        found["transcripts"] = [one for one in found["transcripts"] if not one["hinted"]]
    click.echo(details.rendered(found))


def _lineage(file: str, environment: str) -> None:
    from spade_registry import details
    from spade_registry.registry import Registry

    with Registry.open(file, readonly=True) as registry:
        for line in details.ancestry(registry, registry.find_id(environment, statuses=details.ANY_STATUS)):
            click.echo(line)


def _play(file: str, environment: str, seed: int | None, hint: bool) -> None:
    from spade_envs.cli import play
    from spade_envs.sources import add_source
    from spade_registry.registry import Registry
    from spade_registry.source import RegistrySource

    with Registry.open(file, readonly=True) as registry:
        key = registry.find_id(environment)
    add_source(RegistrySource(file))
    play.callback(key, seed, hint, False)  # type: ignore[misc]
