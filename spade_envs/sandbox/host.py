"""Layer 3: the host's side of a worker. It trusts nothing that comes back.

Frames are bounded before they are read, decoded into exact types, and checked again; a worker that breaks the protocol
is killed. Deadlines count the time in which the worker could run: a worker that uses a processor, or sleeps, is
overdue after the limit; one that waits for a busy machine is given more, up to `PATIENCE` times the limit.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from spade_envs.contract import FaultKind
from spade_envs.errors import SandboxError, SandboxUnavailable
from spade_envs.sandbox import seal
from spade_envs.sandbox.protocol import (
    HEADER,
    MAX_FRAME,
    Item,
    LoadReport,
    Request,
    decode_items,
    decode_load_report,
    encode,
    frame,
)

PATIENCE = 10.0
"""On a busy machine a call may last this many times its limit before it is ended all the same."""
SLICE_SECONDS = 0.05
"""How often a waiting host looks at the clocks."""
START_SECONDS = 60.0
MIN_CPU_SECONDS = 3600
_READ = 1 << 18
_CPU_CLOCK = 2  # CPUCLOCK_SCHED, <linux/posix-timers.h>


class WorkerLost(Exception):
    """The worker is gone; `kind` says how, `received` holds the answers that came before."""

    def __init__(self, kind: FaultKind, message: str, received: Sequence[Item] = ()) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message
        self.received = list(received)


class Zygote:
    """The process that forks workers. Thread-safe; one a pool."""

    def __init__(self, *, extras: tuple[str, ...] = (), hash_seed: int = 0) -> None:
        reason = seal.supported()
        if reason:
            raise SandboxUnavailable(unavailable(reason))
        self._lock = threading.Lock()
        self._count = int.from_bytes(os.urandom(3), "little")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = json.dumps({"path": _import_path(), "extras": list(extras)})
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-S", "-P", "-B", str(_script()), str(theirs.fileno()), settings],
                pass_fds=[theirs.fileno()],
                env={"PYTHONHASHSEED": str(hash_seed)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        self._control = ours
        self._await_readiness()

    def _await_readiness(self) -> None:
        errors = self._process.stderr
        assert errors is not None
        self._control.settimeout(START_SECONDS)
        try:
            ready = self._control.recv(16) == b"ready"
        except OSError:
            ready = False
        if not ready:
            self._process.kill()
            said = errors.read().decode("utf-8", "replace").strip().splitlines()
            errors.close()
            self._process.wait()
            self._control.close()
            raise SandboxUnavailable(unavailable(f"the zygote did not start: {said[-1] if said else 'no message'}"))
        errors.close()

    @property
    def alive(self) -> bool:
        """Whether it can still fork."""
        return self._process.poll() is None

    def spawn(self, memory: int) -> Worker:
        """A new sealed worker whose address space is limited to `memory` bytes."""
        with self._lock:
            self._count += 1
            request = {"index": self._count, "memory": memory, "cpu": MIN_CPU_SECONDS}
            try:
                self._control.send(json.dumps(request).encode())
                message, handles, _, _ = socket.recv_fds(self._control, 4096, 2)
            except OSError as error:
                raise SandboxError(f"the zygote does not answer ({error})") from error
        if len(handles) != 2:
            raise SandboxError("the zygote has ended; it is started again at the next load")
        return Worker(int(json.loads(message)), socket.socket(fileno=handles[0]), handles[1])

    def close(self) -> None:
        """End the zygote; its workers end with it."""
        self._control.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def unavailable(reason: str) -> str:
    """The message for a machine on which nothing untrusted is run."""
    return (
        f"untrusted programs cannot be run here: {reason}. "
        "Programs that you have read can be run in this process with trusted=True."
    )


def _script() -> Path:
    return Path(__file__).with_name("zygote.py")


def _import_path() -> list[str]:
    """Where the zygote finds the standard library and the few packages it needs."""
    places = [entry for entry in sys.path if entry]
    for name in ("msgspec", "RestrictedPython"):
        spec = importlib.util.find_spec(name)
        if spec and spec.origin:
            places.append(str(Path(spec.origin).parents[1]))
    return list(dict.fromkeys(places))


class Worker:
    """One sealed process. Not thread-safe: its owner holds a lock around each exchange."""

    def __init__(self, pid: int, connection: socket.socket, handle: int) -> None:
        self.pid = pid
        self.alive = True
        self.spent = 0.0  # seconds that long calls have taken
        self._socket = connection
        self._handle = handle
        self._clock = (~pid << 3) | _CPU_CLOCK
        self._buffer = b""
        interval = struct.pack("@ll", 0, int(SLICE_SECONDS * 1e6))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)

    def kill(self) -> None:
        """End the process at once; harmless when it has ended."""
        if not self.alive:
            return
        self.alive = False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        self._socket.close()
        os.close(self._handle)

    def __del__(self) -> None:
        self.kill()

    def tell(self, request: Request, seconds: float = 5.0) -> None:
        """Send a request that has no answer."""
        self._guarded(lambda: self._send(request, _Deadline(self, seconds)), [])

    def load(self, request: Request, seconds: float) -> LoadReport:
        """Send `Load` and read its report."""

        def exchange() -> LoadReport:
            deadline = _Deadline(self, seconds)
            self._send(request, deadline)
            return decode_load_report(self._receive(deadline))

        report: LoadReport = self._guarded(exchange, [])
        return report

    def batch(self, request: Request, count: int, seconds: float) -> list[Item]:
        """Send a batch and read `count` answers; each frame that arrives starts a new deadline of `seconds`."""
        received: list[Item] = []

        def exchange() -> list[Item]:
            deadline = _Deadline(self, seconds)
            self._send(request, deadline)
            while len(received) < count:
                items = decode_items(self._receive(deadline))
                if not items or len(received) + len(items) > count:
                    raise _Violation(f"{len(items)} answers where {count - len(received)} were due")
                received.extend(items)
                if len(received) < count:
                    deadline = _Deadline(self, seconds)
            if self._buffer:
                raise _Violation("bytes after the answers")
            return received

        return self._guarded(exchange, received)

    def _guarded(self, exchange: Callable[[], Any], received: list[Item]) -> Any:
        """Run an exchange; whatever goes wrong ends the worker."""
        start = time.monotonic()
        try:
            return exchange()
        except _Overdue as error:
            self.kill()
            raise WorkerLost("timeout", str(error), received) from None
        except OSError:
            self.kill()
            raise WorkerLost("died", "its process ended (out of memory, a crash, or an exit)", received) from None
        except (_Violation, msgspec.MsgspecError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            self.kill()
            raise WorkerLost("died", f"its process broke the protocol: {str(error)[:200]}", received) from None
        except BaseException:  # KeyboardInterrupt in the middle of a frame: the stream cannot be used again
            self.kill()
            raise
        finally:
            self.spent += time.monotonic() - start

    def _send(self, request: Request, deadline: _Deadline) -> None:
        data = memoryview(frame(encode(request)))
        while data:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                deadline.check()

    def _receive(self, deadline: _Deadline) -> bytes:
        """The payload of the next frame."""
        buffer = self._buffer
        while True:
            if len(buffer) >= HEADER:
                end = HEADER + int.from_bytes(buffer[:HEADER], "little")
                if end > HEADER + MAX_FRAME:
                    raise _Violation(f"a frame of {end - HEADER} bytes; at most {MAX_FRAME} are allowed")
                if len(buffer) >= end:
                    self._buffer = buffer[end:]
                    return buffer[HEADER:end]
            try:
                more = self._socket.recv(_READ)
            except BlockingIOError:
                deadline.check()
                continue
            if not more:
                raise ConnectionResetError
            if buffer:
                deadline.check()
            buffer = buffer + more if buffer else more

    def cpu_seconds(self) -> float:
        """Processor time that the process has used."""
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            return math.inf

    def waiting_seconds(self) -> float:
        """Time that the process was ready to run and had no processor; 0 where the kernel does not say."""
        try:
            with open(f"/proc/{self.pid}/schedstat", "rb") as file:
                return int(file.read().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0


class _Violation(Exception):
    """The worker sent something that the protocol does not know."""


class _Overdue(Exception):
    """A deadline has passed."""


class _Deadline:
    """When a call is overdue; it looks at the worker's clocks only when the call is slow."""

    __slots__ = ("_limit", "_start", "_waited", "_worker")

    def __init__(self, worker: Worker, seconds: float) -> None:
        self._worker = worker
        self._limit = seconds
        self._start = time.monotonic()
        self._waited: float | None = None

    def check(self) -> None:
        """Raise `_Overdue` if the time is up."""
        lasted = time.monotonic() - self._start
        if self._waited is None:
            self._waited = self._worker.waiting_seconds()
        if lasted < self._limit:
            return
        waited = self._worker.waiting_seconds() - self._waited
        if lasted - waited >= self._limit or lasted >= self._limit * PATIENCE:
            raise _Overdue(f"no answer within {self._limit:g} s")
