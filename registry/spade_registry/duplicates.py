"""Near-duplicates: programs that differ only in layout, comments, docstrings, annotations or the class's name.

58 % of designed programs keep the prompt's default class name and others rename it, so a name says nothing; constants
do: two programs with other numbers or texts are two environments.
"""

from __future__ import annotations

import ast
import hashlib


class _Normaliser(ast.NodeTransformer):
    """Drop what does not change behaviour, and number the module's classes in order of appearance."""

    def __init__(self, classes: dict[str, str]):
        self.classes = classes

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self.classes.get(node.name, node.name)
        return self._without_docstring(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self._without_docstring(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        plain = ast.Assign(targets=[node.target], value=node.value)
        return self.generic_visit(ast.copy_location(plain, node))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.classes.get(node.id, node.id)
        return node

    def _without_docstring(self, node: ast.ClassDef | ast.FunctionDef | ast.Module) -> ast.AST:
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)

    def visit_Module(self, node: ast.Module) -> ast.AST:
        return self._without_docstring(node)


def fingerprint(source: str) -> str | None:
    """SHA-256 of a program's normalised syntax tree, or None where the text does not parse.

    Meant for programs that the gate has accepted: it has parsed them under a deadline, in a sealed worker.
    """
    try:
        tree = ast.parse(source)
        classes = {node.name: f"Class{i}" for i, node in enumerate(_classes(tree))}
        text = ast.dump(_Normaliser(classes).visit(tree), annotate_fields=False)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("Env")]
