"""How the commands print: a table on a terminal, tab-separated lines in a pipe, JSON or CSV when asked."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def format_options(command: Command) -> Command:
    """Add `--json` and `--csv`; the command receives `as_json` and `as_csv`."""
    command = click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values with a header line.")(command)
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(command)


def show_rows(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool, as_csv: bool, title: str = ""
) -> None:
    """Print rows; unknown values are empty, or null in JSON."""
    if as_json:
        click.echo(
            json.dumps([{name: row.get(name) for name in columns} for row in rows], indent=2, ensure_ascii=False)
        )
    elif as_csv:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([["" if row.get(name) is None else row[name] for name in columns] for row in rows])
        click.echo(text.getvalue(), nl=False)
    elif sys.stdout.isatty():
        _table(rows, columns, title)
    else:
        for row in rows:
            click.echo("\t".join(cell(row.get(name)) for name in columns))


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for name in columns:
        numeric = any(isinstance(row.get(name), int | float) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left", no_wrap=name == "id")
    for row in rows:
        table.add_row(*(cell(row.get(name)) for name in columns))
    Console(soft_wrap=True).print(table)


def cell(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else " ".join(str(value).split())
