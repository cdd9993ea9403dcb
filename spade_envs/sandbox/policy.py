"""Layer 1: the static policy. It refuses, with a line number, what no honest program needs.

It rests on RestrictedPython's transformer, whose list of allowed syntax is positive, but judges attribute names before
the program runs instead of guarding every access: ordinary programs run at plain speed. It keeps programs honest and
deterministic, and its messages are written for a designer to repair from. It is not the boundary; the sealed process
(seal.py) is.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from RestrictedPython.transformer import RestrictingNodeTransformer, copy_locations

from spade_envs.errors import PolicyViolation
from spade_envs.sandbox import guards
from spade_envs.sandbox.modules import ALLOWED, EXTRAS, GUARD_NAMES, SELECTED

FILENAME = "<program>"
_IO = "programs have no files"
FORBIDDEN_CALLS: dict[str, str] = {
    "open": _IO,
    "eval": "text cannot be evaluated; parse it yourself, or with ast.literal_eval",
    "exec": "text cannot be executed",
    "compile": "text cannot be compiled",
    "__import__": "use an import statement",
    "input": "there is no terminal; the agent's text is the argument of step",
    "globals": "keep state on self",
    "locals": "keep state on self",
    "breakpoint": "there is no debugger",
    "help": "there is no terminal",
    "exit": "end an episode by returning terminated=True",
    "quit": "end an episode by returning terminated=True",
    "memoryview": "use bytes or bytearray",
}
_CLASS_LEVEL = frozenset({"__slots__", "__hash__", "__all__", "__version__", "__author__", "__doc__", "__match_args__"})
_EXTRA_SPECIAL = frozenset({"_missing_", "_value_", "_name_", "_order_", "_ignore_", "_generate_next_value_", "_"})
_NAMES_READ = frozenset({"__name__", "__doc__", "__debug__", "__class__"})
_UNSAFE_TEMPLATE = re.compile(r"\{[^{}]*\.\s*(?:_|" + "|".join(sorted(guards.FORBIDDEN)) + ")")


class Policy(RestrictingNodeTransformer):
    """Walks a program once; collects violations, and inserts the few run-time guards."""

    def __init__(self, allowed_modules: frozenset[str], bound: frozenset[str]) -> None:
        super().__init__()
        self.allowed_modules = allowed_modules
        self.bound = bound
        self.violations: list[tuple[int, str]] = []

    def error(self, node: ast.AST, info: str) -> None:
        """Record a violation at the node's line."""
        self.violations.append((getattr(node, "lineno", 0), info))

    def warn(self, node: ast.AST, info: str) -> None:
        """RestrictedPython's warnings say nothing that a violation does not."""

    def not_allowed(self, node: ast.AST) -> None:
        """Refuse a kind of statement."""
        self.error(node, f"{_SYNTAX.get(type(node).__name__, type(node).__name__)} is not allowed")

    # names

    def check_name(self, node: ast.AST, name: str | None, allow_magic_methods: bool = False) -> None:
        """Refuse binding a name that the interpreter or the guards own."""
        if name is None or not name.strip("_") or name in _CLASS_LEVEL or name in _EXTRA_SPECIAL:
            return
        if allow_magic_methods and name in guards.OPERATORS:
            return
        if name in GUARD_NAMES:
            self.error(node, f"the name {name!r} is reserved")
        elif name.startswith("__") and name.endswith("__"):
            self.error(node, f"the special name {name!r} is not allowed")

    def visit_Name(self, node: ast.Name) -> Any:
        """Check a name, read or bound."""
        if isinstance(node.ctx, ast.Load):
            if node.id in FORBIDDEN_CALLS and node.id not in self.bound:
                self.error(node, f"{node.id}() is not allowed: {FORBIDDEN_CALLS[node.id]}")
            if node.id in _NAMES_READ:
                return node
        self.check_name(node, node.id, allow_magic_methods=True)  # `__rmul__ = __mul__` in a class
        return node

    def visit_arg(self, node: ast.arg) -> Any:
        """Check a parameter, positional-only ones included."""
        self.check_name(node, node.arg)
        return self.node_contents_visit(node)

    def check_function_argument_names(self, node: Any) -> None:
        """Nothing to do: `visit_arg` sees every parameter."""

    def _names(self, node: Any) -> Any:
        for name in node.names:
            self.check_name(node, name)
        return node

    visit_Global = visit_Nonlocal = _names  # noqa: N815  # ast's naming

    # attributes

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Judge an attribute by its name; guard the few that depend on the object."""
        name, base = node.attr, node.value
        own = isinstance(base, ast.Name) and base.id in ("self", "cls")
        if not (guards.allowed_attribute(name) or (name == "__dict__" and own)):
            self.error(node, f"the attribute {name!r} is not allowed")
        elif not isinstance(node.ctx, ast.Load) and name.startswith("__") and name.endswith("__"):
            self.error(node, f"the attribute {name!r} cannot be changed")
        visited: ast.Attribute = self.node_contents_visit(node)
        if isinstance(node.ctx, ast.Load):
            if name in guards.GUARDED and not _safe_template(base):
                return self._call(node, "_getattr_", [visited.value, ast.Constant(name)])
        elif not own:
            visited.value = self._call(node, "_write_", [visited.value])
        return visited

    def _call(self, at: ast.expr, function: str, arguments: list[ast.expr]) -> ast.Call:
        call = ast.Call(ast.Name(function, ast.Load()), arguments, [])
        copy_locations(call, at)
        return call

    # statements and expressions that ordinary programs use and the base class refuses or guards

    def _contents(self, node: Any) -> Any:
        return self.node_contents_visit(node)

    visit_Subscript = visit_Call = guard_iter = visit_Assign = visit_With = visit_AugAssign = _contents  # noqa: N815
    visit_AnnAssign = visit_Module = visit_Match = visit_match_case = visit_MatchValue = _contents  # noqa: N815
    visit_MatchSingleton = visit_MatchSequence = visit_MatchOr = visit_Delete = visit_withitem = _contents  # noqa: N815

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Check a function's name; methods may be the special ones that are allowed."""
        self.check_name(node, node.name, allow_magic_methods=True)
        return self.node_contents_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """Check a class's name; a metaclass may be ABCMeta only, by way of ABC."""
        self.check_name(node, node.name)
        for keyword in node.keywords:
            if keyword.arg is None or (keyword.arg == "metaclass" and not _is_abc_meta(keyword.value)):
                self.error(node, "a metaclass other than ABCMeta is not allowed")
        return self.node_contents_visit(node)

    def _capture(self, node: Any) -> Any:
        self.check_name(node, getattr(node, "name", None) or getattr(node, "rest", None))
        return self.node_contents_visit(node)

    visit_MatchAs = visit_MatchStar = visit_MatchMapping = _capture  # noqa: N815

    def visit_MatchClass(self, node: ast.MatchClass) -> Any:
        """Check the attributes that a class pattern reads."""
        for name in node.kwd_attrs:
            if not guards.allowed_attribute(name) or name in guards.GUARDED:
                self.error(node, f"the attribute {name!r} is not allowed in a class pattern")
        return self.node_contents_visit(node)

    # imports

    def visit_Import(self, node: ast.Import) -> Any:
        """Check the modules of an import statement."""
        for alias in node.names:
            self._module(node, alias.name)
            self.check_name(node, alias.asname)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        """Check the module of a from-import, and that its names are public."""
        if node.level:
            self.error(node, "a relative import is not allowed: a program is one file")
            return node
        self._module(node, node.module or "")
        for alias in node.names:
            if alias.name.startswith("_"):
                self.error(node, f"the private name {alias.name!r} of {node.module!r} cannot be imported")
            self.check_name(node, alias.asname)
        return node

    def _module(self, node: ast.AST, name: str) -> None:
        if name in self.allowed_modules:
            return
        if name.partition(".")[0] in EXTRAS:
            top = name.partition(".")[0]
            self.error(
                node, f"import of {name!r} is not allowed: it is not among the sandbox's extras ({top!r} is opt-in)"
            )
        else:
            offered = ", ".join(sorted(set(ALLOWED) | set(SELECTED)))
            self.error(node, f"import of {name!r} is not allowed; a program may import {offered}")


_SYNTAX = {
    "AsyncFunctionDef": "async def",
    "AsyncFor": "async for",
    "AsyncWith": "async with",
    "Await": "await",
    "TryStar": "except*",
    "TypeAlias": "a type statement",
}


def _is_abc_meta(value: ast.expr) -> bool:
    return (isinstance(value, ast.Name) and value.id == "ABCMeta") or (
        isinstance(value, ast.Attribute) and value.attr == "ABCMeta"
    )


def _safe_template(base: ast.expr) -> bool:
    """Whether `.format` is called on a literal that names no private attribute: then nothing needs a guard."""
    return isinstance(base, ast.Constant) and isinstance(base.value, str) and not _UNSAFE_TEMPLATE.search(base.value)


def allowed_modules(extras: tuple[str, ...] = ()) -> frozenset[str]:
    """Names that a program may import."""
    return frozenset(ALLOWED) | frozenset(SELECTED) | frozenset(extras) | {"__future__"}


def compile_program(source: str, *, guarded: bool = True, extras: tuple[str, ...] = ()) -> Any:
    """Compile a program's text.

    Raises `SyntaxError` for what Python refuses, `PolicyViolation` for what the policy refuses; with `guarded=False`
    (a program that its user trusts) only the former.
    """
    tree = ast.parse(source, FILENAME)
    if guarded:
        visitor = Policy(allowed_modules(extras), _bound_names(tree))
        tree = visitor.visit(tree)
        if visitor.violations:
            raise PolicyViolation(sorted(set(visitor.violations)))
        ast.fix_missing_locations(tree)
    return compile(tree, FILENAME, "exec", dont_inherit=True)


def _bound_names(tree: ast.AST) -> frozenset[str]:
    """Names that the program binds itself anywhere, and may therefore use whatever builtin they shadow."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
    return frozenset(names)
