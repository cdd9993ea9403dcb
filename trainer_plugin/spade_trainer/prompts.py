"""Prompts are templates: data in, chat messages out, with a version that says which text was used.

A template file holds one Jinja block per message, `system` and `user`; an empty block gives no message. Files live
under `templates/<variant>/<name>.j2`: `default` is written for instruction-tuned models, `nano` for the tiny model of
this project, which knows no English. The version is a hash of the template's text and is stored with every program
and hint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateNotFound

from spade_envs.errors import SpadeError

TEMPLATES = Path(__file__).parent / "templates"
BLOCKS = ("system", "user")
VERSION_DIGITS = 10


class Message(TypedDict):
    """One chat message, as chat templates take them."""

    role: str
    content: str


def render(name: str, *, variant: str = "default", **variables: Any) -> list[Message]:
    """Return the chat messages of the template `name` with `variables` filled in.

    Raises `SpadeError` for an unknown template and `jinja2.UndefinedError` for a missing variable.
    """
    template = _environment().get_template(_file(name, variant))
    messages: list[Message] = []
    for block in BLOCKS:
        if block in template.blocks:
            text = "".join(template.blocks[block](template.new_context(variables))).strip("\n")
            if text:
                messages.append({"role": block, "content": text})
    return messages


def version(name: str, variant: str = "default") -> str:
    """Return the first hex digits of the SHA-256 of the template's text: the identity of a prompt."""
    text = (TEMPLATES / _file(name, variant)).read_bytes()
    return hashlib.sha256(text).hexdigest()[:VERSION_DIGITS]


def variants() -> Sequence[str]:
    """Return the names of the installed template variants."""
    return sorted(path.name for path in TEMPLATES.iterdir() if any(path.glob("*.j2")) and path.is_dir())


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def _file(name: str, variant: str) -> str:
    path = f"{variant}/{name}.j2"
    try:
        _environment().get_template(path)
    except TemplateNotFound:
        raise SpadeError(
            f"no prompt template `{name}` in the variant `{variant}`: looked for {TEMPLATES / path}; "
            f"the variants are {', '.join(variants())}"
        ) from None
    return path
