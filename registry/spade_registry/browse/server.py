"""Datasette over one registry, read-only, on the loopback interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasette.app import Datasette
from datasette.plugins import pm

from spade_registry import schema
from spade_registry.browse.metadata import metadata
from spade_registry.browse.plugin import BrowsePlugin
from spade_registry.registry import Registry

HOST = "127.0.0.1"
PLUGIN = "spade_registry"
TEMPLATES = Path(__file__).parent / "templates"
SETTINGS = {"default_page_size": 50, "sql_time_limit_ms": 5000, "truncate_cells_html": 4000, "allow_download": False}


def application(registry: Registry) -> Datasette:
    """Datasette for an open registry; `.app()` gives the ASGI application.

    Only one registry is browsed in a process at a time: Datasette's plugins are global.
    """
    if pm.get_plugin(PLUGIN) is not None:
        pm.unregister(name=PLUGIN)
    pm.register(BrowsePlugin(registry), name=PLUGIN)
    described = schema.describe(registry.connection())
    return Datasette(
        [str(registry.path)],
        metadata=metadata(registry.path.stem, described),
        settings=SETTINGS,
        template_dir=str(TEMPLATES),
    )


def serve(registry: Registry, port: int, on_start: Any = None) -> None:
    """Serve until interrupted, on the loopback interface only."""
    import uvicorn

    app = application(registry)
    if on_start is not None:
        on_start(f"http://{HOST}:{port}/{registry.path.stem}")
    uvicorn.run(app.app(), host=HOST, port=port, log_level="warning", lifespan="on")
