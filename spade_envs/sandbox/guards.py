"""Guards that stay in a running program, where the object decides and not the name.

Most attributes are judged by name before the program runs (policy.py), at no cost. What remains for run time:
`str.format`, which follows attributes named in its text; `getattr` and its kin with names made at run time; and
assignment to an attribute of something other than `self`. They are good manners and not a wall: the sealed process is.
"""

from __future__ import annotations

import string
import types
from _string import formatter_field_name_split
from collections.abc import Callable, Mapping
from typing import Any

from RestrictedPython.transformer import INSPECT_ATTRIBUTES

FORBIDDEN = frozenset(INSPECT_ATTRIBUTES) | {"mro", "gi_running", "cr_running", "ag_running", "f_lineno", "tb_lasti"}
"""Attributes that lead from a value to the interpreter's frames and code, or to all classes."""
OPERATORS = frozenset(
    [f"__{side}{name}__" for side in ("", "r", "i") for name in
     ["add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul"]]
    + [f"__{name}__" for name in
       ["init", "new", "str", "repr", "eq", "ne", "lt", "le", "gt", "ge", "hash", "len", "contains", "iter", "next", "reversed", "getitem", "setitem", "delitem", "missing", "call", "bool", "int", "float", "complex", "index", "abs", "neg", "pos", "invert", "round", "trunc", "floor", "ceil", "enter", "exit", "post_init", "format", "init_subclass", "class_getitem", "set_name", "get", "set", "delete", "getattr", "setattr", "delattr", "copy", "deepcopy", "length_hint", "bytes", "sizeof", "dir", "instancecheck", "subclasscheck"]]
)  # fmt: skip
"""Special methods that a class may define, and that may be called by name."""
READABLE = frozenset(
    [
        "__class__",
        "__name__",
        "__qualname__",
        "__doc__",
        "__members__",
        "__annotations__",
        "__dataclass_fields__",
        "__slots__",
        "__version__",
        "__author__",
        "__match_args__",
        "__debug__",
        "__hash__",
        "__cause__",
        "__context__",
        "__notes__",
        "__args__",
        "__origin__",
        "__all__",
    ]
)
"""Special attributes that may be read."""
GUARDED = frozenset({"format", "format_map", "obj"})
_ABSENT = object()
PROGRAM_MODULE = "spade_program"
"""`__name__` of a program's own module."""


def allowed_attribute(name: str) -> bool:
    """Whether the static rules let a program read an attribute of this name."""
    if name in FORBIDDEN or name.endswith("__roles__"):
        return False
    if name.startswith("__") and name.endswith("__") and len(name) > 4:
        return name in OPERATORS or name in READABLE
    return True


def safe_getattr(obj: Any, name: str, default: Any = _ABSENT) -> Any:
    """`getattr` under the static rules; `str.format` and `format_map` come back guarded."""
    if type(name) is not str:
        raise TypeError("an attribute's name must be a str")
    if name == "__dict__" and not isinstance(obj, (type, types.ModuleType, types.FunctionType)):
        return obj.__dict__
    if not allowed_attribute(name):
        raise AttributeError(f"attribute {name!r} is not allowed")
    if name in GUARDED:
        if name == "obj" and isinstance(obj, AttributeError):
            raise AttributeError("attribute 'obj' of an exception is not allowed")
        if name != "obj" and isinstance(obj, str):
            return _guarded_format(str.__str__(obj), name)
        if name != "obj" and isinstance(obj, type) and issubclass(obj, str):
            raise AttributeError(f"{name!r} must be called on a string, not on the class str")
    return getattr(obj, name) if default is _ABSENT else getattr(obj, name, default)


def safe_hasattr(obj: Any, name: str) -> bool:
    """`hasattr` under the static rules."""
    try:
        safe_getattr(obj, name)
    except AttributeError:
        return False
    return True


def safe_setattr(obj: Any, name: str, value: Any) -> None:
    """`setattr` for the program's own objects and ordinary names."""
    if type(name) is not str or (name.startswith("__") and name.endswith("__")):
        raise AttributeError(f"attribute {name!r} cannot be set")
    setattr(writable(obj), name, value)


def safe_delattr(obj: Any, name: str) -> None:
    """`delattr` for the program's own objects and ordinary names."""
    if type(name) is not str or (name.startswith("__") and name.endswith("__")):
        raise AttributeError(f"attribute {name!r} cannot be deleted")
    delattr(writable(obj), name)


def writable(obj: Any) -> Any:
    """`obj`, unless it is a module or a class of a library: those are shared by all episodes."""
    if isinstance(obj, types.ModuleType):
        raise AttributeError(f"module {obj.__name__!r} cannot be changed by a program")
    if isinstance(obj, type) and obj.__module__ != PROGRAM_MODULE:
        raise AttributeError(f"class {obj.__name__!r} belongs to a library and cannot be changed by a program")
    return obj


def safe_vars(obj: Any) -> dict[str, Any]:
    """A copy of an instance's attributes."""
    if isinstance(obj, (type, types.ModuleType, types.FunctionType)):
        raise TypeError("vars() is offered for instances only")
    return {key: value for key, value in vars(obj).items() if allowed_attribute(key)}


def safe_dir(*objects: Any) -> list[str]:
    """The names `dir` gives, less the special ones."""
    return [name for name in dir(*objects) if not name.startswith("__")]


def attrgetter(*paths: str) -> Callable[[Any], Any]:
    """`operator.attrgetter` under the static rules."""

    def get(obj: Any) -> Any:
        found = []
        for path in paths:
            value = obj
            for part in path.split("."):
                value = safe_getattr(value, part)
            found.append(value)
        return found[0] if len(found) == 1 else tuple(found)

    return get


def methodcaller(name: str, /, *arguments: Any, **keywords: Any) -> Callable[[Any], Any]:
    """`operator.methodcaller` under the static rules."""
    return lambda obj: safe_getattr(obj, name)(*arguments, **keywords)


class _GuardedFormatter(string.Formatter):
    """Formats like `str.format`, and follows attributes under the static rules."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        first, rest = formatter_field_name_split(field_name)
        obj = self.get_value(first, args, kwargs)
        for is_attribute, key in rest:
            obj = safe_getattr(obj, key) if is_attribute else obj[key]
        return obj, first


def _guarded_format(template: str, method: str) -> Callable[..., str]:
    formatter = _GuardedFormatter()
    if method == "format":
        return lambda *args, **kwargs: formatter.vformat(template, args, kwargs)

    def format_map(mapping: Mapping[str, Any]) -> str:
        return formatter.vformat(template, (), mapping)

    return format_map
