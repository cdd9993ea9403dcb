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
        raise ProgramError(
            f"the source must be Unicode text, but character {error.start} is a lone surrogate"
        ) from None
    if len(data) > MAX_SOURCE_BYTES:
        raise ProgramError(f"a program may have at most {MAX_SOURCE_BYTES} bytes; this one has {len(data)}")
    return data


@dataclass(frozen=True)
class ClassHeader:
    """A module-level class as its text shows it."""

    name: str
    bases: tuple[str, ...]
    methods: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether it defines `reset`, and `step` unless its base may bring it."""
        return "reset" in self.methods and ("step" in self.methods or TOOL_USE_BASE in self.bases)


def pick_class(source: str) -> tuple[str, Kind]:
    """The name and kind of the program's class.

    Candidates are the module-level classes whose name ends in `Env` and that no other candidate derives from; the
    first that defines `reset` and `step` itself is taken, or the first of all.
    """
    found = environment_classes(source)
    if not found:
        raise ProgramError(
            "a program must define one class whose name ends in Env, at the top level, with reset() and step(); "
            "none was found"
        )
    chosen = next((one for one in found if one.is_complete), found[0])
    bases = {one.name: list(one.bases) for one in class_headers(source)}
    return chosen.name, "tool_use" if TOOL_USE_BASE in _ancestry(chosen.name, bases) else "game"


def environment_classes(source: str) -> list[ClassHeader]:
    """The module-level `...Env` classes that no other of them derives from, in order of appearance."""
    classes = [one for one in class_headers(source) if one.name.endswith("Env") and one.name != TOOL_USE_BASE]
    derived_from = {base for one in classes for base in one.bases if base != one.name}
    return [one for one in classes if one.name not in derived_from]


def _ancestry(name: str, classes: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for base in classes.get(waiting.pop(), []):
            if base not in found:
                found.add(base)
                waiting.append(base)
    return found


def class_headers(source: str) -> list[ClassHeader]:
    """Every module-level class with its bases and methods.

    By tokens and not by `ast.parse`: a text that does not parse still has a name, for messages and for its file.
    """
    found: list[ClassHeader] = []
    tokens = _tokens(source)
    depth, starts_line, inside = 0, True, False
    for token in tokens:
        if token.type == tokenize.INDENT:
            depth += 1
        elif token.type == tokenize.DEDENT:
            depth -= 1
        elif token.type in (tokenize.COMMENT, tokenize.NL):
            continue
        elif starts_line and depth == 0:
            inside = token.string == "class"
            if inside:
                found.append(_class_header(tokens))
                starts_line = False
                continue
        elif starts_line and depth == 1 and inside and token.string == "def":
            last = found.pop()
            found.append(ClassHeader(last.name, last.bases, (*last.methods, next(tokens, token).string)))
        starts_line = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    return found


def _class_header(tokens: Iterator[tokenize.TokenInfo]) -> ClassHeader:
    names: list[str] = []
    for token in tokens:
        if token.string == ":" or token.type == tokenize.NEWLINE:
            break
        if token.type == tokenize.NAME:
            names.append(token.string)
    return ClassHeader(names[0] if names else "", tuple(names[1:]), ())


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(source).readline)
    except (tokenize.TokenError, SyntaxError):
        return  # what was found before the error still names the program; the parse stage reports the error itself
