r"""The contract between a program and the runtime: what a program is, what it answers, what counts as a win.

A program is the source text of one class that ends in `Env`, with `reset` and `step`. Its identity is the SHA-256 of its
normalised text, so that the same program has the same id wherever it is met. This module only reads text: it neither
compiles nor runs anything, because even parsing hostile text can take long; that happens in a sealed worker.
"""

from __future__ import annotations

import hashlib
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from spade_envs.errors import ProgramError

CONTRACT_VERSION = 0
"""Counts changes of what an episode means; the `-v0` of every id."""
MAX_SOURCE_BYTES = 65536
"""Longest program, in bytes of UTF-8 after normalising."""
MAX_OBSERVATION = 65536
"""Longest observation, in characters."""
MAX_ACTION = 262144
"""Longest action, in characters; 8,192 tokens of an agent are about 40,000."""
MAX_NAME = 40
NAMESPACE = "spade"
TOOL_USE_BASE = "ToolUseBaseEnv"
WIN_THRESHOLD = 0.5

Kind = Literal["game", "tool_use"]
Outcome = Literal["won", "lost", "cut", "faulty", "timeout"]
FaultKind = Literal["faulty", "timeout", "died"]


def is_win(ret: float) -> bool:
    """Whether an episode's return counts as a win: more than 0.5, on the scale [-1, 1].

    The one place where a return becomes a win; partial credit up to a half is a loss.
    """
    return ret > WIN_THRESHOLD


def clip_return(reward: float) -> float:
    """The return of an episode that terminated: its last reward, clipped to [-1, 1]."""
    return max(-1.0, min(1.0, reward))


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a program answered to `reset` or `step`, after its types were checked."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """What a program did instead of answering.

    `faulty`: it raised, or answered with wrong types. `timeout`: it exceeded a deadline. `died`: its process ended, by
    its own doing or by that of another instance of the same program.
    """

    kind: FaultKind
    message: str


@dataclass(frozen=True)
class Program:
    """One program: its normalised source, and what follows from it."""

    source: str = field(repr=False)
    sha256: str
    class_name: str
    kind: Kind

    @property
    def name(self) -> str:
        """The class's name without `Env`, ASCII letters and digits only, at most 40; `Program` if nothing is left."""
        return re.sub(r"[^A-Za-z0-9]", "", self.class_name.removesuffix("Env"))[:MAX_NAME] or "Program"

    @property
    def id(self) -> str:
        """The Gymnasium id, `spade/<name>-<first 12 hex digits of the hash>-v0`."""
        return f"{NAMESPACE}/{self.name}-{self.sha256[:12]}-v{CONTRACT_VERSION}"

    @classmethod
    def from_source(cls, text: str) -> Program:
        """Read a program's text: normalise it, hash it, and find its class.

        Raises `ProgramError` where the text is too long, is not text, or has no class whose name ends in `Env`.
        """
        source = normalise_source(text)
        data = encode_source(source)
        class_name, kind = pick_class(source)
        return cls(source, hashlib.sha256(data).hexdigest(), class_name, kind)


def normalise_source(text: str) -> str:
    r"""The form of a source that is hashed and stored.

    No byte-order mark, `\n` line ends, no blanks at the ends of lines, no blank lines at either end, one `\n` last.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.rstrip() for line in text.split("\n")]
    return "\n".join(lines).strip("\n") + "\n"


def encode_source(source: str) -> bytes:
    """UTF-8 of a source, or `ProgramError` for lone surrogates and for more than `MAX_SOURCE_BYTES`."""
    try:
        data = source.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ProgramError(f"the source must be Unicode text, but character {error.start} is a lone surrogate") from None
    if len(data) > MAX_SOURCE_BYTES:
        raise ProgramError(f"a program may have at most {MAX_SOURCE_BYTES} bytes; this one has {len(data)}")
    return data


def pick_class(source: str) -> tuple[str, Kind]:
    """The name and kind of the program's class.

    It is the first module-level class whose name ends in `Env` and that no other such class derives from.
    """
    candidates = environment_classes(source)
    if not candidates:
        raise ProgramError(
            "a program must define one class whose name ends in Env, at the top level, with reset() and step(); "
            "none was found"
        )
    name = candidates[0]
    return name, "tool_use" if TOOL_USE_BASE in _ancestry(name, dict(_classes(source))) else "game"


def environment_classes(source: str) -> list[str]:
    """Names of the module-level `...Env` classes that no other of them derives from, in order of appearance."""
    classes = {name: bases for name, bases in _classes(source) if name.endswith("Env") and name != TOOL_USE_BASE}
    derived_from = {base for name, bases in classes.items() for base in bases if base != name}
    return [name for name in classes if name not in derived_from]


def _ancestry(name: str, classes: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for base in classes.get(waiting.pop(), []):
            if base not in found:
                found.add(base)
                waiting.append(base)
    return found


def _classes(source: str) -> Iterator[tuple[str, list[str]]]:
    """Module-level classes with the names in their parentheses.

    By tokens and not by `ast.parse`: some short texts keep the parser busy for seconds.
    """
    tokens = _tokens(source)
    depth, starts_line = 0, True
    for token in tokens:
        if token.type == tokenize.INDENT:
            depth += 1
        elif token.type == tokenize.DEDENT:
            depth -= 1
        elif token.type in (tokenize.COMMENT, tokenize.NL):
            continue
        elif starts_line and depth == 0 and token.string == "class":
            yield _class_header(tokens)
            starts_line = False
            continue
        starts_line = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)


def _class_header(tokens: Iterator[tokenize.TokenInfo]) -> tuple[str, list[str]]:
    name, bases = "", []
    for token in tokens:
        if token.string == ":" or token.type == tokenize.NEWLINE:
            break
        if token.type == tokenize.NAME:
            if name:
                bases.append(token.string)
            else:
                name = token.string
    return name, bases


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(source).readline)
    except (tokenize.TokenError, SyntaxError):
        return  # what was found before the error still names the program; the parse stage reports the error itself
