"""Hostile programs reach nothing, hang nothing, and leave nothing behind: with both layers, and with the seal alone."""

import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from spade_envs.contract import Fault, Program
from spade_envs.errors import SpadeError
from spade_envs.sandbox import Limits, Pool

CASES = sorted((Path(__file__).parents[1] / "cases" / "hostile").glob("*.py"))
CANARY = Path("/tmp/spade-canary")
LIMITS = Limits(step_seconds=1.0, reset_seconds=1.0, load_seconds=1.0)
LONGEST = 30.0
"""Seconds after which a case has hung the host, however busy the machine is."""
OWN_PROCESS = {"a30_frame_walk", "a41_attrgetter", "a42_typing_eval"}
"""Cases about reaching objects of their own process: the policy refuses them; behind the seal they gain nothing."""
NEXT = Program.from_source("""
class NextEnv:
    def reset(self, seed=None):
        return "ready", {}

    def step(self, action):
        return action, 1.0, True, False, {}
""")


@pytest.fixture(scope="module", autouse=True)
def bait():
    """A listener and a folder that everyone may write to: what the cases try to reach."""
    CANARY.mkdir(exist_ok=True)
    CANARY.chmod(0o777)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 48765))
        listener.listen(64)
        listener.settimeout(0.01)
        yield listener
    assert list(CANARY.iterdir()) == []


@pytest.fixture(scope="module", params=["policy and seal", "seal alone"])
def pool(request):
    with Pool(limits=LIMITS) as pool:
        pool.guarded = request.param == "policy and seal"
        yield pool


def attempt(pool, source):
    """What comes of a program: its answer, or the words with which it was refused."""
    try:
        loaded = pool.load(Program.from_source(source))
        ids = loaded.make(1)
        answer = loaded.reset(ids, [0])[0]
        for _ in range(2):
            if not isinstance(answer, Fault):
                answer = loaded.step(ids, ["go"])[0]
        loaded.close(ids)
        return answer.message if isinstance(answer, Fault) else answer.observation
    except SpadeError as error:
        return str(error)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_hostile_program_only_loses(path, pool, bait):
    begin = time.monotonic()
    said = attempt(pool, path.read_text())
    assert time.monotonic() - begin < LONGEST
    if pool.guarded or path.stem not in OWN_PROCESS:
        assert not said.startswith("PWNED"), said
    with pytest.raises(TimeoutError):
        bait.accept()
    assert list(CANARY.iterdir()) == []
    loaded = pool.load(NEXT)
    ids = loaded.make(1)
    loaded.reset(ids, [0])
    assert loaded.step(ids, ["hello"])[0].observation == "hello"
    loaded.close(ids)


def descendants():
    """Living processes below this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found, waiting = set(), [os.getpid()]
    while waiting:
        parent = waiting.pop()
        children = {child for child, of in parents.items() if of == parent} - found
        found |= children
        waiting += children
    return found


def resident_kib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def test_no_process_is_left_and_the_hosts_memory_stays_flat():
    quick = [path.read_text() for path in CASES if path.stem[:3] not in ("a08", "a10", "a11", "a38", "a49", "a14")]
    before = descendants()
    with Pool(limits=LIMITS) as pool:
        for source in quick:
            attempt(pool, source)
        size = resident_kib()
        for _ in range(3):
            for source in quick:
                attempt(pool, source)
        assert resident_kib() - size < 8 * 1024
    deadline = time.monotonic() + 10
    while descendants() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert descendants() - before == set()


def test_as_an_unprivileged_user_the_same_holds():
    """The whole of this file's first test, in a process without privileges."""
    if os.getuid() != 0:
        pytest.skip("this process is unprivileged already: the other tests have shown it")
    script = textwrap.dedent("""
        import ctypes, os, sys
        # Of all that root may do, only reading any file is kept: this Python may be installed where nobody else reads.
        libc, read_files = ctypes.CDLL(None), 2
        libc.prctl(8, 1, 0, 0, 0)
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[1 << read_files] * 3)
        assert libc.capset(header, data) == 0
        assert libc.prctl(47, 2, read_files, 0, 0) == 0
        sys.path[:0] = sys.argv[1:2]
        from test_hostile import CASES, OWN_PROCESS, LIMITS, attempt
        from spade_envs.sandbox import Pool, status
        print(status()["available"], status()["layers"])
        for guarded in (True, False):
            with Pool(limits=LIMITS) as pool:
                pool.guarded = guarded
                for path in CASES:
                    said = attempt(pool, path.read_text())
                    if said.startswith("PWNED") and (guarded or path.stem not in OWN_PROCESS):
                        print("REACHED", path.stem, said)
        print("done")
    """)
    done = subprocess.run(
        [sys.executable, "-B", "-c", script, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd="/",
        check=False,
    )
    assert done.stdout.startswith("True"), done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("done"), done.stdout + done.stderr
    assert "REACHED" not in done.stdout


EXPLORING = {
    "environment variables through frames": "import sys\nx = sys._getframe(1)",
    "builtins through a function's globals": "def f():\n    pass\nx = f.__globals__",
    "a class's subclasses": "x = ().__class__.__base__.__subclasses__()",
    "a format string that walks attributes": "t = '{0.__class__.__init__.__globals__}'\nx = t.format(object())",
    "a traceback's frame": "try:\n    1 / 0\nexcept Exception as e:\n    x = e.__traceback__.tb_frame",
    "a generator's frame": "def g():\n    yield 1\nx = g().gi_frame",
    "a coroutine": "async def f():\n    pass",
    "eval": "x = eval('1 + 1')",
    "exec under another name": "e = exec\ne('x = 1')",
    "getattr with a name made at run time": "x = getattr(getattr([], '__cla' + 'ss__'), '__ba' + 'se__')",
    "a module's private import": "import random\nx = random._os",
    "the loader of a module": "import json\nx = json.__loader__",
    "a metaclass": "class M(type):\n    pass\nclass A(metaclass=M):\n    pass",
    "pickle": "import pickle",
    "the garbage collector": "import gc",
    "the import machinery": "import importlib",
    "a code object": "def f():\n    pass\nx = f.__code__.replace(co_consts=())",
    "a guard's own name": "_getattr_ = lambda o, n: None",
    "builtins as an attribute": "import math\nx = math.__builtins__",
    "memory by id": "import ctypes",
    "the exception's object": "try:\n    ''.nothing\nexcept AttributeError as e:\n    n = 'ob' + 'j'\n    x = getattr(e, n)",
    "reduce": "x = object().__reduce_ex__(2)",
    "a class attribute of the library": "import random\nrandom.Random.random = lambda self: 0.5",
    "a builtin type": "str.upper = lambda self: 'x'",
    "globals": "x = globals()",
    "a match pattern on a private name": "match 1:\n    case int(__class__=c):\n        x = c.__base__",
}


@pytest.mark.parametrize("name", EXPLORING)
def test_the_policy_refuses_ways_into_the_interpreter(name):
    lines = "\n        ".join(EXPLORING[name].split("\n"))
    source = f"""
class TryEnv:
    def reset(self, seed=None):
        return "ready", {{}}

    def step(self, action):
        {lines}
        return "PWNED", 0.0, True, False, {{}}
"""
    with Pool(limits=LIMITS) as pool:
        said = attempt(pool, source)
    assert "PWNED" not in said
    assert any(word in said for word in ("not allowed", "reserved", "no attribute", "cannot be", "is not")), said


FORGING = {
    "answers on the socket": "import os\nfor fd in range(3, 32):\n    try:\n        os.write(fd, b'\\x04\\x00\\x00\\x00PWNED')\n    except OSError:\n        pass",
    "a frame that never ends": "import os\nos.write(3, b'\\xff\\xff\\xff\\x7f' + b'x' * 65536)",
    "closing the socket": "import os\nos.close(3)",
    "an answer in advance": "import os, msgspec\np = msgspec.msgpack.encode([[0, 'PWNED', 1.0, True, False, {}]])\nos.write(3, len(p).to_bytes(4, 'little') + p)",
    "signals to the host": "import os\nfor s in (9, 15, 19):\n    os.kill(os.getppid(), s)",
    "stopping itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "sleeping": "import time\nsys = __import__('sys')\nwhile True:\n    sys.modules.get('time') and time.sleep(1)",
    "executable memory": "import mmap\nmmap.mmap(-1, 4096, prot=7)",
    "a new namespace": "import ctypes\nif ctypes.CDLL(None).unshare(0x10000000) == 0:\n    raise SystemExit('PWNED')",
    "tracing the host": "import ctypes, os\nif ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0:\n    raise SystemExit('PWNED')",
}


@pytest.mark.parametrize("name", FORGING)
def test_behind_the_seal_a_program_cannot_forge_signal_or_stay(name):
    lines = "\n        ".join(FORGING[name].split("\n"))
    source = f"""
class TryEnv:
    def reset(self, seed=None):
        return "ready", {{}}

    def step(self, action):
        {lines}
        return "ended", 0.0, False, False, {{}}
"""
    begin = time.monotonic()
    with Pool(limits=LIMITS) as pool:
        pool.guarded = False
        said = attempt(pool, source)
        assert attempt(pool, NEXT.source) == "go"
    assert "SystemExit: PWNED" not in said
    assert time.monotonic() - begin < LONGEST
