"""The sealed side: reads requests, runs the program, writes answers.

Nothing here is trusted by the host once the program has run; whatever this process sends is checked again there.
"""

from __future__ import annotations

import os
import time
from typing import Any, NoReturn

from spade_envs.sandbox import runner
from spade_envs.sandbox.protocol import (
    HEADER,
    MAX_FRAME,
    Close,
    Inspect,
    Item,
    Load,
    LoadReport,
    Mend,
    Reset,
    Solution,
    Step,
    decode_request,
    encode,
    frame,
)

SOCKET = 3
FLUSH_SECONDS = 0.02
"""A batch that takes longer shows what it has, so that the host sees progress."""
FLUSH_WEIGHT = 512 << 10
FLUSH_ITEMS = 1024
_READ = 65536


_rest = b""
"""Bytes that came with the last request and belong to the next: the host does not wait after a `Close`."""


def read_exactly(size: int, start: bytes = b"") -> bytes:
    """At least `size` bytes from the host; the worker ends when the host has gone."""
    while len(start) < size:
        more = os.read(SOCKET, _READ)
        if not more:
            os._exit(0)
        start += more
    return start


def read_request() -> Any:
    """The next request; a frame that is too long or malformed ends the worker."""
    global _rest
    data = read_exactly(HEADER, _rest)
    size = int.from_bytes(data[:HEADER], "little")
    if size > MAX_FRAME:
        os._exit(65)
    end = HEADER + size
    data = read_exactly(end, data)
    _rest = data[end:]
    return decode_request(data[HEADER:end])


def send(payload: bytes) -> None:
    """Write one frame."""
    data = memoryview(frame(payload))
    while data:
        data = data[os.write(SOCKET, data) :]


def refuse(reason: str) -> NoReturn:
    """Answer the first request with why this process could not be sealed, and end."""
    read_request()
    send(encode(LoadReport("seal", reason, [], [], None, False)))
    os._exit(1)


def answer_batch(run: runner.Runner, request: Reset | Step | Solution | Inspect | Mend) -> None:
    """Answer every item of a batch, in one frame unless it takes long or grows large."""
    calls = {Reset: run.reset, Step: run.step, Solution: run.solution, Inspect: run.inspect, Mend: run.mend}
    call: Any = calls[type(request)]
    items: list[Item] = []
    run.weight, since = 0, time.perf_counter()
    for arguments in request.items:
        items.append(call(*arguments) if type(arguments) is tuple else call(arguments))
        if run.weight > FLUSH_WEIGHT or len(items) >= FLUSH_ITEMS or time.perf_counter() - since > FLUSH_SECONDS:
            send(runner.encoded(items))
            items = []
            run.weight, since = 0, time.perf_counter()
    if items:
        send(runner.encoded(items))


def serve(run: runner.Runner) -> NoReturn:
    """Answer requests until the host goes away."""
    while True:
        request = read_request()
        if type(request) is Load:
            send(encode(run.load(request)))
        elif type(request) is Close:
            for identifier in request.items:
                run.close(identifier)
        else:
            answer_batch(run, request)
