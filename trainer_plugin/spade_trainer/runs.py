"""The runs of commands: what was asked identifies a run, so that the same command finds it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def identity(config: Mapping[str, Any]) -> str:
    """Return the hash that tells runs of different settings apart. `config` must be JSON-able."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]
