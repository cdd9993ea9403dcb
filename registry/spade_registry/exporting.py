"""`export`: environments as an ordinary wheel, which another project installs and needs only `spade-envs` for."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spade_envs.packages import CHECKSUMS, FORMAT, INDEX
from spade_envs.sources import Record, resolve
from spade_registry.registry import Registry
from spade_registry.store import RegistryError

MODULE = '''"""{count} environments, packaged by spade-envs. `gymnasium.make("spade/<id>")` finds them."""

from spade_envs.packages import load
from spade_envs.sources import ProgramSource


def source() -> ProgramSource:
    """The environments of this package."""
    return load(__name__)
'''
METADATA = """Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: {count} environments for spade-envs
License: {license}
Requires-Python: >=3.11
Requires-Dist: spade-envs>=0.1

Installed beside `spade-envs`, these environments are made with `gymnasium.make`:

{ids}
"""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of every file in the wheel: the same environments give the same bytes."""


def export(
    registry: Registry | None,
    queries: Sequence[str],
    folder: str | Path,
    *,
    name: str | None = None,
    version: str = "0.1.0",
    with_hints: bool = False,
) -> Path:
    """Write environments as a wheel and return its path.

    Args:
        registry: where they are looked up first; other sources come after it.
        queries: ids, hash prefixes or names; at least one.
        folder: where the wheel is put; made if it is not there.
        name: of the distribution; default: `spade-pack-` and the beginning of a hash over the environments.
        version: of the distribution.
        with_hints: whether hints go along. A project that trains on the environments should not have them by accident.

    Raises `SpadeError` for an unknown environment or an impossible name; nothing is written then.
    """
    if not queries:
        raise RegistryError("name at least one environment to export")
    records = {record.program.id: record for record in (_find(registry, query) for query in queries)}
    digest = hashlib.sha256("\n".join(sorted(records)).encode()).hexdigest()
    name = name or f"spade-pack-{digest[:8]}"
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", name):
        raise RegistryError(f"a package's name is lower-case letters and digits, in parts joined by -; {name!r} is not")
    if not re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?", version):
        raise RegistryError(f"a version looks like 1.2.0; {version!r} does not")
    files = _files(registry, list(records.values()), name, version, with_hints)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    return _write_wheel(target / f"{name.replace('-', '_')}-{version}-py3-none-any.whl", files, name, version)


def _find(registry: Registry | None, query: str) -> Record:
    found = registry.get(query) if registry is not None else None
    return found or resolve(query)


def _files(
    registry: Registry | None, records: Sequence[Record], name: str, version: str, with_hints: bool
) -> dict[str, bytes]:
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    entries, sums, files = [], [], {}
    for record in records:
        program = record.program
        file = f"programs/{program.id.removeprefix('spade/').removesuffix('-v0').replace('-', '_')}.py"
        data = program.source.encode("utf-8")
        files[f"{module}/{file}"] = data
        sums.append(f"{hashlib.sha256(data).hexdigest()}  {file}\n")
        entries.append(_entry(registry, record, file, with_hints))
    licenses = sorted({record.license for record in records if record.license}) or ["unknown"]
    index = {"format": FORMAT, "environments": entries}
    ids = "\n".join(f"- `{record.program.id}`" for record in records)
    values = {"name": name, "version": version, "count": len(records), "license": " AND ".join(licenses), "ids": ids}
    texts = {
        f"{module}/__init__.py": MODULE.format(**values),
        f"{module}/{INDEX}": json.dumps(index, indent=2, ensure_ascii=False) + "\n",
        f"{module}/{CHECKSUMS}": "".join(sums),
        f"{info}/METADATA": METADATA.format(**values),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: spade-envs\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[spade_envs.sources]\n{module} = {module}:source\n",
    }
    return files | {path: text.encode("utf-8") for path, text in texts.items()}


def _entry(registry: Registry | None, record: Record, file: str, with_hints: bool) -> dict[str, Any]:
    program = record.program
    known = registry is not None and registry.get(program.id) is not None
    measured = registry.measurements(program.id) if registry is not None and known else []
    kept = ("win_rate", "win_rate_hinted", "regret", "regret_se", "learnability", "n", "n_hinted", "step")
    return {
        **{"id": program.id, "file": file, "sha256": program.sha256, "kind": program.kind, "skill": record.skill},
        **{"max_turns": record.max_turns, "license": record.license},
        **({"hint": record.hint} if with_hints else {}),
        "measurements": [{name: asdict(one)[name] for name in kept} for one in measured],
    }


def _write_wheel(path: Path, files: Mapping[str, bytes], name: str, version: str) -> Path:
    """A wheel is a zip with a list of its files and their hashes (the wheel specification, "RECORD")."""
    record = f"{name.replace('-', '_')}-{version}.dist-info/RECORD"
    lines = [f"{file},sha256={_digest(data)},{len(data)}" for file, data in files.items()]
    partial = path.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in {**files, record: "\n".join([*lines, f"{record},,", ""]).encode()}.items():
            entry = zipfile.ZipInfo(file, EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    partial.replace(path)
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
