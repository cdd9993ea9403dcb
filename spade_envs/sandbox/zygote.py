"""The zygote: a small, single-threaded process that has everything loaded, and forks sealed workers on request.

Run as a script, with an empty environment and without the `site` module. It never imports the package's `__init__`
(which brings Gymnasium and numpy): it enters the package as a bare namespace, so that a worker stays small.
Arguments: the control socket's descriptor, and a JSON object {path, extras}.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import types
from typing import Any, NoReturn

WORKER_SOCKET = 3


def _enter_package() -> None:
    """Make `spade_envs` importable as a namespace, without running its `__init__`."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name, path in (("spade_envs", ""), ("spade_envs.sandbox", "sandbox"), ("spade_envs.gate", "gate")):
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(folder, path)]
        sys.modules[name] = package


def _preload() -> None:
    """Load what CPython loads on first use: a sealed worker cannot open files."""
    import _strptime  # noqa: F401
    import linecache  # noqa: F401
    import tracemalloc  # noqa: F401  # warnings
    import warnings

    warnings.simplefilter("ignore")
    for codec in ("rot13", "hex", "base64", "cp1252", "latin-1", "utf-16-be"):
        import codecs

        codecs.lookup(codec)


def _child(request: dict[str, Any], socket_fd: int, program: bytes, layers: list[str], run: Any) -> NoReturn:
    """Seal this process, then serve; a process that cannot be sealed runs nothing."""
    from spade_envs.sandbox import worker

    try:
        try:
            run.layers = layers + _seal(request, socket_fd, program)
        except BaseException as error:  # not sealed: say why, run nothing
            worker.refuse(f"{type(error).__name__}: {error}")
        worker.serve(run)
    finally:
        os._exit(70)


def _seal(request: dict[str, Any], socket_fd: int, program: bytes) -> list[str]:
    """Give up everything but computing, in the order that each step needs; the names of what is active."""
    from spade_envs.sandbox import seal

    if socket_fd != WORKER_SOCKET:
        os.dup2(socket_fd, WORKER_SOCKET)
    os.closerange(WORKER_SOCKET + 1, 65536)
    is_root = seal.drop_root(seal.worker_uid(request["index"], request["mapped"]))
    seal.die_with_parent()
    if os.getppid() != request["zygote"]:
        os._exit(0)
    seal.undumpable()
    seal.limit_resources(request["memory"], request["cpu"])
    seal.no_new_privileges()
    seal.seccomp(program)
    return [*(["uid"] if is_root else []), "rlimits", "no_new_privs", "seccomp"]


def main(control_fd: int, settings: dict[str, Any]) -> NoReturn:
    """Load, announce readiness, then fork a worker for each request until the host goes away."""
    sys.path[:] = settings["path"]
    _enter_package()
    from spade_envs.gate import repair  # noqa: F401  # all of it before files are out of reach
    from spade_envs.sandbox import runner, seal, worker  # noqa: F401

    control = socket.socket(fileno=control_fd)
    run = runner.Runner(extras=tuple(settings["extras"]))
    _preload()
    program = seal.seccomp_program()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the workers
    mapped = seal.mapped_ids()
    layers = seal.leave_namespaces()
    seal.no_new_privileges()
    if seal.landlock():
        layers.append("landlock")
    gc.collect()
    gc.freeze()
    control.send(b"ready")
    os.dup2(0, 2)
    os.chdir("/")
    while True:
        message = control.recv(65536)
        if not message:
            os._exit(0)
        request = {**json.loads(message), "zygote": os.getpid(), "mapped": mapped}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        pid = os.fork()
        if pid == 0:
            _child(request, theirs.fileno(), program, layers, run)
        handle = os.pidfd_open(pid)
        socket.send_fds(control, [json.dumps(pid).encode()], [ours.fileno(), handle])
        ours.close()
        theirs.close()
        os.close(handle)


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
