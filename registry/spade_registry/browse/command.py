"""The command `spade-envs browse`."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from spade_registry.browse.server import serve
from spade_registry.commands import registry_option
from spade_registry.registry import Registry


@click.command()
@registry_option
@click.option("--port", type=click.IntRange(1, 65535), default=8009, show_default=True, help="Port on 127.0.0.1.")
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the default browser.")
def browse(registry: Path | None, port: int, open_browser: bool) -> None:
    """Browse the registry in a web browser: facets, canned queries, and a page for each environment. Read-only."""

    def started(address: str) -> None:
        click.echo(f"browsing {store.path} at {address} (Ctrl-C ends it)")
        if open_browser:
            webbrowser.open(address)

    with Registry.open(registry, readonly=True) as store:
        serve(store, port, started)
