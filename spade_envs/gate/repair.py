r"""Mending what a designer gets wrong by slip and not by thought.

Three things: stray Markdown fences; single braces in an f-string or a `.format` template where a literal brace was
meant (`\boxed{answer}`); and imports of common names of the standard library that were forgotten. A program that
parses and whose names are all defined comes back as it was, character by character; repairing twice changes nothing.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from spade_envs.contract import TOOL_USE_BASE
from spade_envs.sandbox.modules import ALLOWED, INJECTED_MODULES, INJECTED_NAMES, SELECTED

_FENCE_LINE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*[\w+.-]*[ \t]*$", re.MULTILINE)
_LITERAL = re.compile(r"""\#[^\n]* | (?P<prefix>(?<![A-Za-z0-9_])[A-Za-z]{0,2})(?P<quote>\"{3}|'{3}|"|')""", re.VERBOSE)
_NAMES: dict[str, str] = {
    name: module
    for module, names in {
        "abc": "ABC abstractmethod",
        "bisect": "bisect bisect_left bisect_right insort",
        "collections": "ChainMap",
        "contextlib": "contextmanager suppress",
        "dataclasses": "dataclass field asdict astuple replace",
        "datetime": "datetime timedelta date",
        "decimal": "Decimal",
        "enum": "Enum IntEnum Flag IntFlag StrEnum auto",
        "fractions": "Fraction",
        "functools": "partial wraps cache cached_property total_ordering",
        "itertools": "groupby islice cycle zip_longest combinations_with_replacement starmap takewhile count",
        "math": "sqrt ceil floor gcd isclose hypot factorial comb inf",
        "random": "randint choice shuffle sample randrange choices",
        "statistics": "mean median stdev mode",
        "string": "ascii_lowercase ascii_uppercase ascii_letters digits punctuation",
        "textwrap": "dedent indent",
        "types": "SimpleNamespace",
        "typing": "NamedTuple TypedDict Literal Iterator Generator Deque DefaultDict Type Protocol ClassVar Final "
        "TypeVar Generic Hashable Collection Container MutableMapping NoReturn Self Iterable cast",
    }.items()
    for name in names.split()
}


@dataclass(frozen=True)
class Repair:
    """A repaired source, and in words what was changed; no change means that nothing was needed, or nothing helped."""

    source: str
    changes: list[str] = field(default_factory=list)


def repair(source: str) -> Repair:
    """Mend a program's text; see the module's text for what is mended."""
    changes: list[str] = []
    text = source
    if _tree(text) is None:
        text, changes = _until_it_parses(text)
    tree = _tree(text)
    if tree is None:
        return Repair(source)
    text, braces = _name_braces(text, tree)
    tree = _tree(text)
    if tree is None:
        return Repair(source)
    text, imports = _missing_imports(text, tree)
    return Repair(text, changes + braces + imports)


def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _until_it_parses(text: str) -> tuple[str, list[str]]:
    changes: list[str] = []
    for step in (_strip_fences, _double_braces):
        text, done = step(text)
        changes += done
        if _tree(text) is not None:
            break
    return text, changes


def _strip_fences(text: str) -> tuple[str, list[str]]:
    lines = text.split("\n")
    kept = [line for line in lines if not _FENCE_LINE.match(line)]
    removed = len(lines) - len(kept)
    return "\n".join(kept), [f"removed {removed} stray Markdown fence{'s' if removed > 1 else ''}"] if removed else []


def _double_braces(text: str) -> tuple[str, list[str]]:
    """Double the braces of f-strings around what is no expression."""
    pieces: list[str] = []
    changed: list[int] = []
    position = 0
    for start, end, body_start, body_end in _f_strings(text):
        body = text[body_start:body_end]
        mended = _mend_body(body)
        if mended != body:
            changed.append(text.count("\n", 0, start) + 1)
        pieces += [text[position:body_start], mended, text[body_end:end]]
        position = end
    pieces.append(text[position:])
    lines = ", ".join(map(str, sorted(set(changed))))
    return "".join(pieces), [f"doubled single braces in the f-string on line {lines}"] if changed else []


def _f_strings(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Start, end, and start and end of the body of each f-string, by a scan that knows comments and other strings."""
    position = 0
    while found := _LITERAL.search(text, position):
        quote = found.group("quote")
        if quote is None:
            position = found.end()
            continue
        prefix = found.group("prefix").lower()
        end = _closing(text, found.end(), quote)
        if "f" in prefix:
            yield found.start(), end, found.end(), max(found.end(), end - len(quote))
        position = end


def _closing(text: str, start: int, quote: str) -> int:
    position = start
    while position < len(text):
        if text[position] == "\\":
            position += 2
        elif text.startswith(quote, position):
            return position + len(quote)
        elif len(quote) == 1 and text[position] == "\n":
            return position
        else:
            position += 1
    return len(text)


def _mend_body(body: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(body):
        character = body[position]
        if character in "{}" and body.startswith(character * 2, position):
            out.append(character * 2)
            position += 2
        elif character == "{":
            end = _group_end(body, position)
            group = body[position : end + 1] if end is not None else "{"
            if end is not None and _is_field(group[1:-1]):
                out.append(group)
            else:
                out.append("{{" + _mend_body(group[1:-1]) + "}}" if end is not None else "{{")
            position += len(group)
        elif character == "}":
            out.append("}}")
            position += 1
        else:
            out.append(character)
            position += 1
    return "".join(out)


def _group_end(body: str, start: int) -> int | None:
    depth = 0
    for position in range(start, len(body)):
        depth += {"{": 1, "}": -1}.get(body[position], 0)
        if depth == 0:
            return position
    return None


def _is_field(inner: str) -> bool:
    """Whether the text between braces is a replacement field: an expression, perhaps with `!r` and a format."""
    if not inner.strip() or "\\" in inner:
        return False
    probe = re.sub(r"\\.", "", inner)
    quote = '"""' if "'" in probe else "'''"
    return _tree(f"f{quote}{{{inner}}}{quote}") is not None


def _bound(tree: ast.Module) -> set[str]:
    """Every name that the program could find: bound anywhere in it, injected, or a builtin."""
    names = set(dir(builtins)) | set(INJECTED_MODULES) | {TOOL_USE_BASE, "np", "numpy", "parse", "verify"}
    names |= {name for group in INJECTED_NAMES.values() for name in group}
    names |= {"__name__", "__file__", "__doc__", "__class__"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return names


def _has_star_import(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names) for node in ast.walk(tree))


def _name_braces(text: str, tree: ast.Module) -> tuple[str, list[str]]:
    r"""Double the braces of `\boxed{word}` in templates where `word` can only raise a NameError or a KeyError."""
    if "boxed" not in text or _has_star_import(tree):
        return text, []
    bound = _bound(tree)
    edits: dict[tuple[int, int], set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            words = {
                part.value.id
                for part in node.values
                if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name)
            }
            _note(edits, text, node, words - bound)
        elif isinstance(node, ast.Call) and _is_format(node):
            known = {keyword.arg for keyword in node.keywords}
            literal = node.func.value  # type: ignore[attr-defined]
            fields = set(re.findall(r"boxed\{([A-Za-z_]\w*)\}", literal.value))
            _note(edits, text, literal, fields - known)
    changes = []
    for (start, end), words in sorted(edits.items(), reverse=True):
        pattern = re.compile(r"(?<=boxed)(\{(?:" + "|".join(sorted(words)) + r")\})")
        mended = pattern.sub(r"{\1}", text[start:end])
        if mended != text[start:end]:
            changes.append(f"doubled single braces in the template on line {text.count(chr(10), 0, start) + 1}")
            text = text[:start] + mended + text[end:]
    return text, sorted(set(changes))


def _is_format(node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "format"
        and isinstance(node.func.value, ast.Constant)
        and isinstance(node.func.value.value, str)
        and all(keyword.arg is not None for keyword in node.keywords)
    )


def _note(edits: dict[tuple[int, int], set[str]], text: str, node: ast.expr, words: set[str]) -> None:
    if words and node.end_lineno is not None and node.end_col_offset is not None:
        start, end = _offset(text, node.lineno, node.col_offset), _offset(text, node.end_lineno, node.end_col_offset)
        edits.setdefault((start, end), set()).update(words)


def _offset(text: str, line: int, column: int) -> int:
    """Index of a position that `ast` gives as a line from 1 and a column in bytes of UTF-8."""
    lines = text.split("\n")
    before = sum(len(one) + 1 for one in lines[: line - 1])
    return before + len(lines[line - 1].encode("utf-8")[:column].decode("utf-8", "ignore"))


def _missing_imports(text: str, tree: ast.Module) -> tuple[str, list[str]]:
    if _has_star_import(tree):
        return text, []
    bound = _bound(tree)
    loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    missing = sorted(loaded - bound)
    used_as_module = {
        node.value.id for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    lines = []
    for name in missing:
        if name in used_as_module and name in (set(ALLOWED) | set(SELECTED)):
            lines.append(f"import {name}")
        elif name in _NAMES:
            lines.append(f"from {_NAMES[name]} import {name}")
    if not lines:
        return text, []
    at = _after_header(tree)
    rows = text.split("\n")
    return "\n".join(rows[:at] + lines + rows[at:]), [f"added `{line}`" for line in lines]


def _after_header(tree: ast.Module) -> int:
    """How many lines the docstring and the imports from `__future__` take."""
    last = 0
    for index, node in enumerate(tree.body):
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not (docstring or future):
            break
        last = node.end_lineno or last
    return last
