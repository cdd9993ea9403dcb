"""Layer 1 lets ordinary programs be: each feature behaves in the sandbox as in plain Python, each forbidden one is refused."""

import builtins
import collections
import copy
import functools
import heapq
import itertools
import json
import math
import operator
import random
import re
import statistics
import string
import typing

import pytest

from spade_envs.contract import Fault, Program
from spade_envs.errors import PolicyViolation, ProgramError
from spade_envs.sandbox import Pool

# Each piece of code sets `result`; what it is in plain Python is what it must be in the sandbox.
FEATURES = {
    "private attributes": "class A:\n    def __init__(self):\n        self._x = 3\nresult = A()._x",
    "double underscores, mangled": "class A:\n    def __init__(self):\n        self.__x = 3\n    def get(self):\n        return self.__x\nresult = A().get()",
    "augmented assignment on attributes": "class A:\n    pass\na = A()\na.x = 1\na.x += 4\nresult = a.x",
    "augmented assignment on items": "d = {'a': 1}\nd['a'] += 2\nd['a'] *= 5\nresult = d",
    "annotations": "x: int = 3\ny: 'list[int]'\ndef f(a: int, *b: str) -> None: ...\nresult = (x, f(1))",
    "annotations from the future": "from __future__ import annotations\ndef f(a: Nowhere) -> Nothing: return a\nresult = f(2)",
    "dataclasses": "from dataclasses import dataclass, field\n@dataclass(order=True)\nclass P:\n    x: int\n    y: list = field(default_factory=list)\nresult = (repr(P(1)), P(1) < P(2))",
    "frozen dataclass with slots": "from dataclasses import dataclass, replace\n@dataclass(frozen=True, slots=True)\nclass P:\n    x: int = 1\nresult = replace(P(), x=5).x",
    "NamedTuple": "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    y: int = 2\nresult = P(1)._asdict()",
    "namedtuple": "P = namedtuple('P', 'x y')\nresult = P(1, 2)._replace(x=5)",
    "enum": "from enum import Enum, auto\nclass C(Enum):\n    A = auto()\n    B = auto()\nresult = [c.name for c in C] + [C.A.value]",
    "match on values": "def f(x):\n    match x:\n        case 0 | 1: return 'low'\n        case [a, *rest]: return (a, rest)\n        case {'k': v, **more}: return (v, more)\n        case str() as s if s: return s.upper()\n        case _: return None\nresult = [f(1), f([1, 2, 3]), f({'k': 5, 'z': 1}), f('ab'), f(None)]",
    "match on classes": "class P:\n    __match_args__ = ('x',)\n    def __init__(self, x): self.x = x\nmatch P(4):\n    case P(x): result = x",
    "super": "class A:\n    def f(self): return 1\nclass B(A):\n    def f(self): return super().f() + 1\nresult = B().f()",
    "multiple inheritance": "class A:\n    def f(self): return 'a'\nclass B:\n    def g(self): return 'b'\nclass C(A, B): pass\nresult = C().f() + C().g()",
    "properties": "class A:\n    def __init__(self): self._x = 2\n    @property\n    def x(self): return self._x\n    @x.setter\n    def x(self, v): self._x = v\na = A()\na.x = 9\nresult = a.x",
    "static and class methods": "class A:\n    n = 3\n    @staticmethod\n    def f(x): return x\n    @classmethod\n    def g(cls): return cls.n\nresult = (A.f(1), A.g())",
    "operators of a class": "class V:\n    def __init__(self, x): self.x = x\n    def __add__(self, o): return V(self.x + o.x)\n    def __mul__(self, k): return V(self.x * k)\n    __rmul__ = __mul__\n    def __eq__(self, o): return self.x == o.x\n    def __hash__(self): return hash(self.x)\n    def __repr__(self): return f'V({self.x})'\n    __str__ = __repr__\nresult = repr(3 * (V(1) + V(2)))",
    "containers of a class": "class B:\n    def __init__(self): self.d = {}\n    def __getitem__(self, k): return self.d[k]\n    def __setitem__(self, k, v): self.d[k] = v\n    def __len__(self): return len(self.d)\n    def __contains__(self, k): return k in self.d\n    def __iter__(self): return iter(self.d)\nb = B()\nb['x'] = 1\nresult = (len(b), 'x' in b, list(b), b['x'])",
    "context managers": "class M:\n    def __enter__(self): return 5\n    def __exit__(self, *a): return True\nwith M() as m:\n    raise ValueError\nresult = m",
    "f-strings": "x, n = 3.14159, 'pi'\nresult = f'{n!r:>6} {x:.2f} {x=:.1f} {{literal}} {\"a\" + \"b\"}'",
    "str.format": "result = 'a {0} {b:>4} {c[k]} {d[1]} {{}}'.format(1, b=2, c={'k': 3}, d=[4, 5])",
    "str.format with a variable template": "t = '{} and {x}'\nresult = t.format(1, x=2)",
    "format_map": "result = '{a}-{b}'.format_map({'a': 1, 'b': 2})",
    "percent formatting": "result = '%05.1f %s %(x)s' % {'x': 1} if False else '%d %s' % (1, 'a')",
    "nonlocal": "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n        return n\n    g()\n    return g()\nresult = f()",
    "global": "n = 0\ndef f():\n    global n\n    n += 2\nf()\nresult = n",
    "generators": "def g(n):\n    for i in range(n):\n        x = yield i\n        if x: yield x\nit = g(3)\nnext(it)\nresult = [it.send(9), *it]",
    "yield from": "def g():\n    yield from range(2)\n    return 5\ndef h():\n    x = yield from g()\n    yield x\nresult = list(h())",
    "comprehensions": "result = ([x * y for x in range(3) for y in range(3) if x != y], {k: v for k, v in zip('ab', range(2))}, {x % 2 for x in range(5)}, sum(x for x in range(4)))",
    "walrus": "result = [y for x in range(5) if (y := x * x) > 3]",
    "lambdas and closures": "fs = [lambda x, i=i: x + i for i in range(3)]\nresult = [f(10) for f in fs]",
    "star arguments": "def f(a, /, b, *c, d=4, **e): return (a, b, c, d, e)\nresult = f(1, 2, 3, d=5, z=6)",
    "unpacking": "a, (b, *c), d = 1, [2, 3, 4], 5\nresult = [a, b, c, d, *[6], {**{'x': 1}, 'y': 2}]",
    "sorting": "result = (sorted('bca', reverse=True), max([1, 5, 2]), min('zax'), sorted([(2, 'b'), (1, 'a')], key=lambda p: p[1]))",
    "slices": "x = list(range(10))\nx[2:5] = [0]\ndel x[0]\nresult = (x[::-2], 'hello'[1:-1])",
    "try, except, else, finally": "log = []\ntry:\n    int('x')\nexcept (ValueError, TypeError) as e:\n    log.append(str(e))\nelse:\n    log.append('no')\nfinally:\n    log.append('end')\nresult = log",
    "own exceptions": "class E(Exception):\n    def __init__(self, n): super().__init__(f'n={n}'); self.n = n\ntry:\n    raise E(3) from ValueError('x')\nexcept E as e:\n    result = (str(e), e.n, type(e.__cause__).__name__)",
    "assert": "try:\n    assert 1 == 2, 'no'\nexcept AssertionError as e:\n    result = str(e)",
    "while, else, break, continue": "n, out = 0, []\nwhile n < 6:\n    n += 1\n    if n == 2: continue\n    if n == 5: break\n    out.append(n)\nelse:\n    out.append('else')\nresult = out",
    "regular expressions": "import re\nm = re.search(r'\\\\boxed\\{(?P<x>\\d+)\\}', 'a \\\\boxed{42}')\nresult = (m.group('x'), re.sub(r'\\s+', ' ', 'a  b'), re.findall(r'\\d', 'a1b2'), re.split('[,;]', 'a,b;c'))",
    "json": "result = json.loads(json.dumps({'a': [1, None, True]}, indent=1))",
    "collections": "d = defaultdict(list)\nd['a'].append(1)\nresult = (dict(d), Counter('abca').most_common(1), list(deque([1, 2, 3], maxlen=2)), list(OrderedDict(a=1)))",
    "itertools": "result = (list(combinations('abc', 2)), list(permutations('ab')), list(product([0, 1], repeat=2)), list(chain([1], [2])), list(accumulate([1, 2, 3])))",
    "heapq": "h = []\nheappush(h, (2, 'b'))\nheappush(h, (1, 'a'))\nresult = heappop(h)",
    "functools": "@lru_cache(maxsize=None)\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nresult = (fib(30), reduce(lambda a, b: a * b, [1, 2, 3]))",
    "math": "result = (math.gcd(12, 18), round(math.sqrt(2), 3), math.inf > 1, math.factorial(5), math.comb(5, 2))",
    "copies": "a = [[1], 2]\nb = deepcopy(a)\nb[0].append(3)\nresult = (a, b, copy.copy(a))",
    "typing names without an import": "def f(x: Optional[List[int]] = None, y: Dict[str, Tuple[int, ...]] = {}) -> Union[int, Any]: return 1\nresult = f()",
    "a seeded generator": "r = random.Random(7)\nresult = (r.randint(1, 100), r.choice('abc'), r.sample(range(10), 3), r.shuffle([1]) is None)",
    "isinstance, type, hasattr, getattr": "class A:\n    x = 1\na = A()\nsetattr(a, 'y', 2)\nresult = (isinstance(a, A), type(a).__name__, hasattr(a, 'z'), getattr(a, 'z', 5), getattr(a, 'y'), a.__class__.__name__)",
    "vars and dir": "class A:\n    def __init__(self): self.x = 1\nresult = (vars(A()), [n for n in dir(A()) if not n.startswith('_')])",
    "bytes and bits": "result = (bytes([1, 2]).hex(), 'é'.encode(), bytearray(b'ab'), bin(5), 6 & 3, 6 ^ 3, ~6, 1 << 4)",
    "strings": "result = ('a,b'.split(','), ' x '.strip(), 'ab'.zfill(4), 'Hello'.swapcase(), 'x'.join('abc'), 'abc'.translate(str.maketrans('a', 'z')), ord('a'), chr(98))",
    "numbers": "result = (7 // 2, -7 % 3, divmod(7, 2), 2 ** 10, round(2.5), abs(-3), int('ff', 16), float('1e3'), complex(1, 2).imag, pow(3, 4, 5))",
    "sets": "a, b = {1, 2, 3}, {2, 3, 4}\nresult = (a & b, a | b, a - b, a ^ b, a <= {1, 2, 3}, frozenset(a))",
    "zip, enumerate, map, filter, any, all": "result = (list(zip('ab', [1, 2])), list(enumerate('a', 1)), list(map(str, [1])), list(filter(None, [0, 1])), any([0, 1]), all([]), list(reversed([1, 2])))",
    "abstract classes": "from abc import ABC, abstractmethod\nclass A(ABC):\n    @abstractmethod\n    def f(self): ...\nclass B(A):\n    def f(self): return 3\nresult = B().f()",
    "class attributes": "class A:\n    TABLE = {k: k * 2 for k in range(3)}\n    NAMES = ['a', 'b']\nresult = (A.TABLE, A.NAMES[0])",
    "nested functions and classes": "def f():\n    class In:\n        v = 2\n        def get(self): return self.v\n    return In().get()\nresult = f()",
    "slots": "class A:\n    __slots__ = ('x',)\n    def __init__(self): self.x = 1\nresult = A().x",
    "callable instances": "class A:\n    def __call__(self, x): return x + 1\nresult = A()(1)",
    "fractions and decimals": "from fractions import Fraction\nfrom decimal import Decimal\nresult = (str(Fraction(1, 3) + 1), str(Decimal('0.1') + Decimal('0.2')))",
    "dates": "import datetime\nresult = str(datetime.date(2024, 2, 28) + datetime.timedelta(days=2))",
    "statistics and string": "result = (statistics.mean([1, 2, 3]), string.ascii_lowercase[:3])",
    "print goes nowhere and harms nothing": "print('hello', end='')\nresult = 1",
    "deleting": "d = {'a': 1, 'b': 2}\ndel d['a']\nx = 1\ndel x\nresult = d",
    "decorators with arguments": "def times(n):\n    def wrap(f):\n        @functools.wraps(f)\n        def inner(*a): return f(*a) * n\n        return inner\n    return wrap\n@times(3)\ndef f(x): return x\nresult = (f(2), f.__name__)",
    "iterators of one's own": "class C:\n    def __init__(self): self.n = 0\n    def __iter__(self): return self\n    def __next__(self):\n        self.n += 1\n        if self.n > 3: raise StopIteration\n        return self.n\nresult = list(C())",
    "conditional expressions and chains": "x = 5\nresult = ('a' if 1 < x <= 5 else 'b', x and 0 or 7, not x)",
    "star expressions in an index": "d = {(1, 2): 'x'}\nresult = d[1, 2]",
    "ellipsis and pass": "def f(): ...\nresult = (f(), ... is Ellipsis)",
    "unicode names": "größe = 3\nresult = größe",
    "a shadowed builtin": "input = 'my action'\nopen = 3\nresult = (input, open)",
}
PLAIN = {
    name: value
    for module in (itertools, math, random, re, json, collections, functools, string, copy, heapq, operator, statistics)
    for name, value in [(module.__name__, module)]
}
PLAIN |= {name: getattr(collections, name) for name in ("deque", "defaultdict", "Counter", "OrderedDict", "namedtuple")}
PLAIN |= {name: getattr(itertools, name) for name in ("combinations", "permutations", "product", "chain", "accumulate")}
PLAIN |= {"reduce": functools.reduce, "lru_cache": functools.lru_cache, "deepcopy": copy.deepcopy}
PLAIN |= {"heappush": heapq.heappush, "heappop": heapq.heappop}
PLAIN |= {
    name: getattr(typing, name) for name in ("Tuple", "Dict", "List", "Optional", "Union", "Any", "Set", "Callable")
}


@pytest.fixture(scope="module")
def pool():
    with Pool() as pool:
        yield pool


def in_the_sandbox(pool, code):
    """`repr(result)` of code that runs at module level of a program."""
    future = "from __future__ import annotations\n"
    head = future if code.startswith(future) else ""
    source = f"""{head}{code.removeprefix(future)}


class ShowEnv:
    def reset(self, seed=None):
        return repr(result), {{}}

    def step(self, action):
        return "", 0.0, True, False, {{}}
"""
    loaded = pool.load(Program.from_source(source))
    ids = loaded.make(1)
    answer = loaded.reset(ids, [0])[0]
    loaded.close(ids)
    assert not isinstance(answer, Fault), answer.message
    return answer.observation


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_behaves_as_in_plain_python(name, pool):
    namespace = {**PLAIN, "__builtins__": builtins, "__name__": "spade_program"}
    import sys
    import types

    sys.modules["spade_program"] = types.ModuleType("spade_program")
    try:
        exec(compile(FEATURES[name], "<plain>", "exec", dont_inherit=True), namespace)
    finally:
        del sys.modules["spade_program"]
    assert in_the_sandbox(pool, FEATURES[name]) == repr(namespace["result"])


FORBIDDEN = {
    "import os": ("x = 1\nimport os", 2, "os"),
    "from subprocess": ("from subprocess import run", 1, "subprocess"),
    "a private name of a module": ("from random import _inst", 1, "private"),
    "a relative import": ("from . import x", 1, "relative"),
    "open": ("x = 1\ny = 2\nopen('f')", 3, "open"),
    "eval": ("eval('1')", 1, "eval"),
    "exec": ("exec('1')", 1, "exec"),
    "compile": ("compile('1', 'x', 'eval')", 1, "compile"),
    "input": ("input()", 1, "input"),
    "__import__": ("__import__('os')", 1, "__import__"),
    "globals": ("globals()", 1, "globals"),
    "subclasses": ("x = ().__class__.__bases__", 1, "__bases__"),
    "globals of a function": ("def f(): pass\nf.__globals__", 2, "__globals__"),
    "code of a function": ("def f(): pass\nf.__code__", 2, "__code__"),
    "frames": ("def g(): yield\ng().gi_frame", 2, "gi_frame"),
    "tracebacks": ("try:\n    1/0\nexcept Exception as e:\n    e.__traceback__", 4, "__traceback__"),
    "async": ("async def f(): pass", 1, "async def"),
    "a metaclass": ("class M(type): pass\nclass A(metaclass=M): pass", 2, "metaclass"),
    "a guard's name": ("_getattr_ = 1", 1, "reserved"),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_is_forbidden_is_refused_with_its_line(name, pool):
    code, line, word = FORBIDDEN[name]
    with pytest.raises(PolicyViolation) as caught:
        in_the_sandbox(pool, code)
    assert any(at == line and word in message for at, message in caught.value.violations), caught.value.violations


def test_a_syntax_error_names_line_and_column(pool):
    with pytest.raises(ProgramError, match=r"line 2, column \d+"):
        in_the_sandbox(pool, "x = 1\ny = = 2")
