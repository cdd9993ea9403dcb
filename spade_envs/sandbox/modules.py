"""What a program can see: proxies of allowed modules, builtins, injected names, and randomness of its own.

A proxy holds the public names of a module that are not modules themselves (`random._os` is a way out of the sandbox),
less those that evaluate text or follow attributes, and cannot be changed. `random` is different in every world (one
run of a program's text): its functions belong to a private generator, and a generator made without a seed draws it
from there, so that a world's whole course follows from the seed of its episode.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import io
import operator
import random as _random
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from spade_envs.sandbox import guards

_NOTHING: frozenset[str] = frozenset()
ALLOWED: dict[str, frozenset[str]] = {
    # module -> public names that are withheld
    "abc": _NOTHING,
    "array": _NOTHING,
    "ast": _NOTHING,
    "base64": frozenset({"main", "test", "encode", "decode"}),
    "binascii": _NOTHING,
    "bisect": _NOTHING,
    "calendar": frozenset({"main"}),
    "cmath": _NOTHING,
    "collections": _NOTHING,
    "collections.abc": _NOTHING,
    "contextlib": frozenset({"redirect_stdout", "redirect_stderr", "redirect_stdin", "chdir"}),
    "copy": _NOTHING,
    "dataclasses": frozenset({"make_dataclass"}),
    "datetime": _NOTHING,
    "decimal": _NOTHING,
    "difflib": _NOTHING,
    "enum": frozenset({"EnumMeta", "EnumType", "global_enum", "global_enum_repr", "global_flag_repr", "global_str"}),
    "fractions": _NOTHING,
    "functools": frozenset({"singledispatch", "singledispatchmethod", "update_wrapper", "wraps"}),
    "graphlib": _NOTHING,
    "hashlib": frozenset({"file_digest"}),
    "heapq": _NOTHING,
    "html": _NOTHING,
    "itertools": _NOTHING,
    "json": frozenset({"load", "dump"}),
    "math": _NOTHING,
    "numbers": _NOTHING,
    "operator": frozenset({"attrgetter", "methodcaller"}),
    "pprint": _NOTHING,
    "queue": _NOTHING,
    "random": _NOTHING,
    "re": _NOTHING,
    "secrets": _NOTHING,
    "statistics": _NOTHING,
    "string": frozenset({"Formatter"}),
    "struct": _NOTHING,
    "textwrap": _NOTHING,
    "time": frozenset({"sleep"}),
    "typing": frozenset({"get_type_hints", "ForwardRef"}),
    "unicodedata": _NOTHING,
    "uuid": frozenset({"uuid1", "getnode", "main"}),
    "zlib": _NOTHING,
}
SELECTED: dict[str, tuple[str, ...]] = {
    # module -> the only names that are offered
    "io": ("StringIO", "BytesIO"),
    "logging": ("getLogger", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    "sys": ("maxsize", "float_info", "int_info", "hash_info", "byteorder", "version", "version_info", "platform"),
    "traceback": ("format_exc", "format_exception", "print_exc"),
    "types": ("SimpleNamespace", "MappingProxyType", "NoneType", "GenericAlias", "UnionType", "EllipsisType"),
    "warnings": ("warn", "filterwarnings", "simplefilter"),
}
EXTRAS: dict[str, frozenset[str]] = {
    # optional modules, see Pool(extras=...): installed separately, and wider than the standard library's
    "numpy": frozenset(
        {
            *("load", "save", "savez", "savez_compressed", "loadtxt", "savetxt", "genfromtxt", "fromfile", "memmap"),
            *("fromregex", "DataSource", "open_memmap", "show_config", "info", "show_runtime", "frompyfunc"),
        }
    ),
    "math_verify": _NOTHING,
}
INJECTED_MODULES = (
    *("itertools", "math", "random", "re", "json", "collections", "functools", "string", "copy", "heapq"),
    *("operator", "statistics"),
)
INJECTED_NAMES: dict[str, tuple[str, ...]] = {
    "collections": ("deque", "defaultdict", "Counter", "OrderedDict", "namedtuple"),
    "itertools": ("combinations", "permutations", "product", "chain", "accumulate"),
    "functools": ("reduce", "lru_cache"),
    "copy": ("deepcopy",),
    "heapq": ("heappush", "heappop"),
    "typing": (
        *("Tuple", "Dict", "List", "Optional", "Union", "Any", "Set", "FrozenSet"),
        *("Callable", "Iterable", "Sequence", "Mapping"),
    ),
}
MAX_RECURSION = 10_000
"""Deepest recursion a program may ask for; a frame of Python 3.11 takes about half a kilobyte."""


class Proxy(types.ModuleType):
    """A module that shows chosen names only, and cannot be changed."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"module {self.__name__!r} cannot be changed by a program")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"module {self.__name__!r} cannot be changed by a program")


def proxy(name: str, contents: dict[str, Any]) -> Proxy:
    """A proxy module of that name with exactly these contents."""
    made = Proxy(name)
    made.__dict__.update(contents)
    return made


class Randomness:
    """The generator of the world that is running; `current` is set by the runner before each call."""

    current: _random.Random = _random.Random(0)


class PrivateRandom(_random.Random):
    """`random.Random`, but what would be seeded by the system draws its seed from the running world."""

    def __init__(self, x: Any = None) -> None:
        super().__init__(Randomness.current.getrandbits(64) if x is None else x)

    def seed(self, a: Any = None, version: int = 2) -> None:
        """Seed the generator, as `random.Random.seed` does."""
        super().seed(Randomness.current.getrandbits(64) if a is None else a, version)


PrivateRandom.__name__ = PrivateRandom.__qualname__ = "Random"
PrivateRandom.__module__ = "random"
_GENERATOR_FUNCTIONS = tuple(
    name for name in _random.__all__ if name not in ("Random", "SystemRandom") and hasattr(_random.Random, name)
)


def private_random(seed: int = 0) -> tuple[Proxy, _random.Random]:
    """A `random` module whose functions belong to one new generator, and that generator."""
    generator = PrivateRandom(seed)
    contents = {name: getattr(generator, name) for name in _GENERATOR_FUNCTIONS}
    contents["Random"] = PrivateRandom
    contents["SystemRandom"] = _random.SystemRandom
    return proxy("random", contents), generator


def shared_modules(extras: Iterable[str] = ()) -> dict[str, Proxy]:
    """Proxies of every allowed module, shared by the worlds of a worker (all but `random`)."""
    made = {name: proxy(name, _public(name, withheld)) for name, withheld in ALLOWED.items()}
    for name, names in SELECTED.items():
        real = importlib.import_module(name)
        made[name] = proxy(name, {key: getattr(real, key) for key in names if hasattr(real, key)})
    made["collections"].__dict__["abc"] = made["collections.abc"]
    made["functools"].__dict__["wraps"] = _wraps
    made["functools"].__dict__["update_wrapper"] = _update_wrapper
    made["operator"].__dict__["attrgetter"] = guards.attrgetter
    made["operator"].__dict__["methodcaller"] = guards.methodcaller
    made["time"].__dict__["sleep"] = _no_sleep
    made["logging"].__dict__["basicConfig"] = _ignore
    sink = _Sink()
    made["sys"].__dict__.update(stdout=sink, stderr=sink, exit=_exit, setrecursionlimit=_limit_recursion)
    made["sys"].__dict__["getrecursionlimit"] = sys.getrecursionlimit
    made["__future__"] = proxy("__future__", _public("__future__", _NOTHING))
    for name in extras:
        made[name] = proxy(name, _public(name, EXTRAS[name]))
    return made


def _public(name: str, withheld: frozenset[str]) -> dict[str, Any]:
    real = importlib.import_module(name)
    names = getattr(real, "__all__", None) or dir(real)
    found = {key: getattr(real, key, None) for key in names if not key.startswith("_") and key not in withheld}
    return {key: value for key, value in found.items() if not isinstance(value, types.ModuleType)}


def _wraps(wrapped: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
    return lambda wrapper: functools.update_wrapper(wrapper, wrapped)


def _update_wrapper(wrapper: Any, wrapped: Any, *_: Any, **__: Any) -> Any:
    return functools.update_wrapper(wrapper, wrapped)


def _no_sleep(seconds: float) -> None:
    """A game that waits would only cost time."""


def _ignore(*_: Any, **__: Any) -> None:
    """Accept and do nothing."""


def _exit(*arguments: Any) -> None:
    raise SystemExit(*arguments)


def _limit_recursion(limit: int) -> None:
    sys.setrecursionlimit(max(1000, min(int(limit), MAX_RECURSION)))


class _Sink:
    """A stream that takes text and keeps none."""

    def write(self, text: str) -> int:
        """Take text."""
        return len(text)

    def flush(self) -> None:
        """Do nothing."""


_BUILTINS = [
    "None",
    "False",
    "True",
    "Ellipsis",
    "NotImplemented",
    "__build_class__",
    "__debug__",
    "abs",
    "all",
    "any",
    "ascii",
    "bin",
    "bool",
    "bytearray",
    "bytes",
    "callable",
    "chr",
    "classmethod",
    "complex",
    "dict",
    "divmod",
    "enumerate",
    "filter",
    "float",
    "frozenset",
    "hash",
    "hex",
    "id",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "len",
    "list",
    "map",
    "max",
    "min",
    "next",
    "object",
    "oct",
    "ord",
    "pow",
    "property",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "slice",
    "sorted",
    "staticmethod",
    "str",
    "sum",
    "super",
    "tuple",
    "type",
    "zip",
    "format",
]
_EXCEPTIONS = [
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException) and not issubclass(value, BaseExceptionGroup)
]


def _print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
    """Print into a StringIO if one is given; anything else goes nowhere."""
    if isinstance(file, io.StringIO):
        print(*values, sep=sep, end=end, file=file)


def safe_builtins() -> dict[str, Any]:
    """The builtins of a guarded program, without `__import__`, which belongs to a world."""
    table = {name: getattr(builtins, name) for name in _BUILTINS + _EXCEPTIONS if hasattr(builtins, name)}
    table.update(
        print=_print,
        getattr=guards.safe_getattr,
        hasattr=guards.safe_hasattr,
        setattr=guards.safe_setattr,
        delattr=guards.safe_delattr,
        vars=guards.safe_vars,
        dir=guards.safe_dir,
    )
    return table


def importer(modules: dict[str, Proxy], own_random: Proxy, fallback: Callable[..., Any] | None) -> Callable[..., Any]:
    """The `__import__` of one world.

    `fallback` is the real one for programs that run unguarded; they, too, get the private `random`.
    """

    def find(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> types.ModuleType:
        if name == "random" and not level:
            return own_random
        if fallback is not None:
            return fallback(name, globals, locals, fromlist, level)
        if level or name not in modules:
            raise ImportError(f"import of {name!r} is not allowed")
        return modules[name] if fromlist else modules[name.partition(".")[0]]

    return find


def injected(modules: dict[str, Proxy]) -> dict[str, Any]:
    """The names that programs use without importing them, all but `random`."""
    names: dict[str, Any] = {name: modules[name] for name in INJECTED_MODULES if name != "random"}
    for module, members in INJECTED_NAMES.items():
        names.update({member: getattr(modules[module], member) for member in members})
    if "numpy" in modules:
        names["np"] = names["numpy"] = modules["numpy"]
    if "math_verify" in modules:
        names.update({name: getattr(modules["math_verify"], name) for name in ("parse", "verify")})
    return names


GUARD_NAMES: dict[str, Any] = {
    "_getattr_": guards.safe_getattr,
    "_write_": guards.writable,
    "_getitem_": operator.getitem,
    "_getiter_": iter,
}
