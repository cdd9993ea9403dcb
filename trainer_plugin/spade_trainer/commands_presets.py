"""The command `spade-envs presets`: what `selfplay --preset` accepts. Reads files only; needs no extra."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table

from spade_trainer import presets as shipped


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects with `name` and `description`.")
def presets(as_json: bool) -> None:
    """List the presets that `selfplay --preset` accepts."""
    rows = [{"name": name, "description": shipped.describe(name)} for name in shipped.names()]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(row["name"], row["description"])
    Console().print(table)
