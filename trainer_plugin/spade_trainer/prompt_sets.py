"""The prompts of one command: a variant that comes with the package, in which a folder of one's own replaces templates.

A folder holds `NAME.j2` files, each a whole template of the form that `prompts.py` describes; names that it does not
hold come from the variant. The version of a template is a hash of the text that was used, whichever of the two it
came from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, TemplateError

from spade_envs.errors import SpadeError
from spade_trainer.prompts import BLOCKS, TEMPLATES, VERSION_DIGITS, Message, variants

DEFAULT = "default"
NAMES: Mapping[str, str] = {
    "designer_game": "a game program; single-turn with max_turns = 1, else multi-turn",
    "designer_tool_use": "a tool-use program, in one of four task variants",
    "designer_repair": "what a rejected program is sent back with",
    "hint_game": "the hint of a game program",
    "hint_tool_use": "the hint of a tool-use program",
    "player": "the player of a game",
    "player_tool_use": "the player of a tool-use program",
}


class PromptSet:
    """Templates by name.

    Args:
        variant: `default`, or another variant of the package.
        directory: a folder whose templates take the place of the variant's.
    """

    def __init__(self, variant: str = DEFAULT, directory: Path | None = None):
        if variant not in variants():
            raise SpadeError(f"there is no prompt variant `{variant}`; the variants are {', '.join(variants())}")
        self.variant = variant
        self.directory = directory
        if directory is not None:
            _check(directory)
        folders = [*([directory] if directory else []), TEMPLATES / variant]
        self._environment = Environment(
            loader=FileSystemLoader(folders), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )

    def names(self) -> list[str]:
        """Return the names of the templates that this set holds."""
        return [name for name in NAMES if self._path(name) is not None]

    def source(self, name: str) -> str:
        """Return a template's text. Raises `SpadeError` for one that the set does not hold."""
        path = self._path(name)
        if path is None:
            raise SpadeError(
                f"there is no prompt `{name}` in the variant `{self.variant}`; it holds {', '.join(self.names())}"
            )
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SpadeError(f"the prompt {path} cannot be read as UTF-8 text: {error}") from error

    def version(self, name: str) -> str:
        """Return the first hex digits of the SHA-256 of the template's text, as `prompts.version` does."""
        return hashlib.sha256(self.source(name).encode()).hexdigest()[:VERSION_DIGITS]

    def render(self, name: str, **variables: Any) -> list[Message]:
        """Return the chat messages of a template; an empty block gives no message.

        Raises `SpadeError` for a template that is missing, malformed, or uses a variable that does not exist.
        """
        self.source(name)
        try:
            template = self._environment.get_template(f"{name}.j2")
            found = [(block, _block(template, block, variables)) for block in BLOCKS if block in template.blocks]
        except TemplateError as error:
            raise SpadeError(f"the prompt {self._path(name)} cannot be used: {error}") from error
        return [{"role": role, "content": text} for role, text in found if text]

    def check(self, *names: str) -> None:
        """Raise `SpadeError` unless every named template exists and can be parsed, before anything depends on it."""
        for name in names:
            try:
                self._environment.parse(self.source(name))
            except TemplateError as error:
                raise SpadeError(f"the prompt {self._path(name)} cannot be used: {error}") from error

    def _path(self, name: str) -> Path | None:
        folders = [*([self.directory] if self.directory else []), TEMPLATES / self.variant]
        if name not in NAMES:
            return None
        return next((path for folder in folders if (path := folder / f"{name}.j2").is_file()), None)


def _check(directory: Path) -> None:
    """Refuse a folder that would change nothing: a misspelt name is the likely reason."""
    if not directory.is_dir():
        raise SpadeError(f"{directory} is not a folder of prompt templates")
    found = sorted(path.stem for path in directory.glob("*.j2"))
    unknown = [name for name in found if name not in NAMES]
    if unknown or not found:
        said = f"holds {', '.join(f'{name}.j2' for name in unknown)}" if unknown else "holds no .j2 file"
        raise SpadeError(f"{directory} {said}; the names of templates are {', '.join(NAMES)}")


def _block(template: Template, block: str, variables: Mapping[str, Any]) -> str:
    return "".join(template.blocks[block](template.new_context(dict(variables)))).strip("\n")
