"""The protocol on both sides: whatever bytes come, they are refused or understood, and nothing hangs or breaks."""

import math
import os
import socket
import threading

import msgspec
import pytest
from env_samples import GUESS
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_envs.contract import Fault
from spade_envs.sandbox import Pool
from spade_envs.sandbox.host import Worker, WorkerLost
from spade_envs.sandbox.pool import Loaded
from spade_envs.sandbox.protocol import (
    HEADER,
    MAX_FRAME,
    Answer,
    Broken,
    Step,
    Text,
    decode_items,
    decode_load_report,
    decode_request,
    encode,
    frame,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


class FakeWorker(Worker):
    """The host's side with a peer of the test's own instead of a process."""

    def __init__(self, connection):
        ours, self._end = os.pipe()
        super().__init__(2**22 + 1, connection, ours)

    def kill(self):
        if self.alive:
            self.alive = False
            self._socket.close()
            os.close(self._handle)
            os.close(self._end)


def answered(payload, count=1, seconds=0.3):
    """What the host makes of bytes that a worker sends as its answer."""
    ours, theirs = socket.socketpair()
    worker = FakeWorker(ours)

    def reply():
        with theirs:
            theirs.recv(1 << 16)
            theirs.sendall(payload)

    thread = threading.Thread(target=reply)
    thread.start()
    try:
        return worker.batch(Step([(1, "x")] * count), count, seconds)
    finally:
        thread.join()
        worker.kill()


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_the_host_survives_any_bytes(payload):
    with pytest.raises(WorkerLost) as caught:
        answered(payload)
    assert caught.value.kind in ("died", "timeout")


@given(JSON)
@settings(max_examples=200, deadline=None)
def test_the_host_takes_well_formed_messages_of_exactly_its_types_only(value):
    payload = msgspec.msgpack.encode(value)
    try:
        items = answered(frame(payload))
    except WorkerLost:
        return
    assert all(type(item) in (Answer, Broken, Text) for item in items)


GOOD = encode([Answer("hello", 0.5, False, False, {"a": 1})])
BAD = {
    "a truncated frame": frame(GOOD)[:-3],
    "a header only": frame(GOOD)[:HEADER],
    "an oversized length": (MAX_FRAME + 1).to_bytes(HEADER, "little") + b"x" * 100,
    "trailing bytes": frame(GOOD) + b"x",
    "two answers for one question": frame(encode([Text("a"), Text("b")])),
    "no answer": frame(encode([])),
    "an unknown tag": frame(msgspec.msgpack.encode([[9, "x", 1.0, True, False, {}]])),
    "too many fields": frame(msgspec.msgpack.encode([[0, "x", 1.0, True, False, {}, 1]])),
    "a flag that is a number": frame(msgspec.msgpack.encode([[0, "x", 1.0, 1, False, {}]])),
    "a reward that is text": frame(msgspec.msgpack.encode([[0, "x", "1.0", True, False, {}]])),
    "info that is a list": frame(msgspec.msgpack.encode([[0, "x", 1.0, True, False, []]])),
    "keys that are numbers": frame(msgspec.msgpack.encode([[0, "x", 1.0, True, False, {1: 2}]])),
    "deep nesting": frame(b"\x91" * 5000 + b"\xc0"),
    "an array that claims four billion items": frame(b"\xdd\xff\xff\xff\xff"),
    "text that is not UTF-8": frame(b"\x91\x96\x00\xa2\xff\xfe\xca\x3f\x80\x00\x00\xc2\xc2\x80"),
}


@pytest.mark.parametrize("name", BAD)
def test_the_host_ends_a_worker_that_breaks_the_protocol(name):
    with pytest.raises(WorkerLost):
        answered(BAD[name])


def test_the_host_understands_a_good_answer():
    assert answered(frame(GOOD)) == [Answer("hello", 0.5, False, False, {"a": 1})]


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_forged_reward_that_is_not_finite_is_a_fault(reward):
    with Pool() as pool:
        loaded = Loaded(pool, GUESS)
        assert isinstance(loaded._result(Answer("x", reward, True, False, {})), Fault)
        assert isinstance(loaded._result(Answer("x" * 70_000, 1.0, True, False, {})), Fault)
        assert isinstance(loaded._result(Text("x")), Fault)


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_decoders_refuse_or_understand(payload):
    for decode in (decode_items, decode_load_report, decode_request):
        try:
            decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError, UnicodeDecodeError):
            continue


@pytest.mark.parametrize(
    "payload", [b"\xff" * 8, frame(b"\xc1"), frame(b""), (MAX_FRAME + 1).to_bytes(4, "little"), b"\x05\x00"]
)
def test_a_worker_that_gets_nonsense_ends_and_the_next_one_works(payload):
    """The sealed side, for real: nonsense on its socket ends the process, and nothing else."""
    with Pool() as pool:
        loaded = pool.load(GUESS)
        ids = loaded.make(1)
        loaded.reset(ids, [1])
        loaded._worker._socket.sendall(payload)
        answer = loaded.step(ids, ["\\boxed{1}"])[0]
        assert isinstance(answer, Fault)
        assert not isinstance(loaded.reset(ids, [1])[0], Fault)


@given(st.text(max_size=50) | st.text(alphabet=st.characters(categories=["Cs"]), max_size=3))
@settings(max_examples=60, deadline=None)
def test_any_text_can_be_an_action(text):
    loaded = _echo()
    ids = loaded.make(1)
    loaded.reset(ids, [1])
    answer = loaded.step(ids, [text])[0]
    loaded.close(ids)
    assert answer.observation == text.encode("utf-8", "replace").decode()


_kept = []


def _echo():
    from env_samples import failing

    if not _kept:
        _kept.append(Pool())
    return _kept[0].load(failing("step", "pass"))
