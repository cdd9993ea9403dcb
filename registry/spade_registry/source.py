"""The registry as a source of environments: what `gymnasium.make("spade/<id>")` asks.

Announced under the entry-point group `spade_envs.sources`. The file is opened read-only at the first question, once for
each process and file; a file that is not there is a source with nothing in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from spade_envs.sources import Record
from spade_registry.registry import Registry
from spade_registry.store import default_path

_open: dict[tuple[int, str, int, int], Registry] = {}


def source() -> RegistrySource:
    """The source of the user's registry; see `spade_registry.store.default_path`."""
    return RegistrySource(default_path())


class RegistrySource:
    """A registry file as a `spade_envs.sources.Source`."""

    name = "registry"

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).expanduser().absolute()

    @property
    def location(self) -> str:
        """The file."""
        return str(self._path) + ("" if self._path.exists() else ", which does not exist yet")

    def get(self, query: str) -> Record | None:
        """See `Registry.get`."""
        registry = self._registry()
        return None if registry is None else registry.get(query)

    def suggest(self, query: str, n: int = 5) -> list[str]:
        """See `Registry.suggest`."""
        registry = self._registry()
        return [] if registry is None else registry.suggest(query, n)

    def ids(self) -> Iterator[str]:
        """Ids of accepted environments."""
        registry = self._registry()
        return iter(()) if registry is None else registry.ids()

    def _registry(self) -> Registry | None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        # A connection must not cross a fork, and a file that was replaced is another file.
        key = (os.getpid(), str(self._path), found.st_dev, found.st_ino)
        if key not in _open:
            _open[key] = Registry.open(self._path, readonly=True)
        return _open[key]
