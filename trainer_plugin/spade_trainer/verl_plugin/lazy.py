"""Post-import hooks: a part of the plugin is imported right after the module of verl that it extends.

verl imports plugins at the end of `import verl`, in every process, before most of it is loaded. Importing the trainer
or an engine there would make each small worker pay for all of verl, so each part names the module it waits for. A
failure is remembered and printed: verl itself swallows the exceptions of plugins.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """One part of the plugin."""

    name: str
    module: str
    """Our module; importing it registers the part."""
    after: str
    """The module of verl that it extends."""


failures: dict[str, str] = {}
"""Module of ours -> why it could not be loaded in this process."""
_waiting: dict[str, list[Part]] = {}


def after_import(part: Part) -> None:
    """Load the part once `part.after` has been imported; at once if it already has."""
    module = sys.modules.get(part.after)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        load(part)
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(part.after, []).append(part)


def load(part: Part) -> None:
    """Import the part; a failure is reported, not raised, because the import of verl must go on."""
    try:
        importlib.import_module(part.module)
    except Exception as error:
        failures[part.module] = f"{type(error).__name__}: {error}"
        logger.exception("the part `%s` of the spade plugin could not be loaded", part.name)


def try_import(part: Part) -> str:
    """Import what the part extends and the part, and return `loaded` or the reason why not."""
    try:
        importlib.import_module(part.after)
        importlib.import_module(part.module)
    except Exception as error:
        return f"not loaded: {type(error).__name__}: {error}"
    return f"not loaded: {failures[part.module]}" if part.module in failures else "loaded"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds awaited modules by the usual means, and adds the parts to the end of their execution."""

    def __init__(self) -> None:
        self._busy: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _waiting or fullname in self._busy:
            return None
        self._busy.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader):
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for part in _waiting.pop(module.__name__, []):
            load(part)
