"""Pools: many sources, a cap, idle eviction, deaths that stay at home, one message a batch, threads and asyncio."""

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from env_samples import GUESS, failing

from spade_envs.contract import Fault, Program
from spade_envs.errors import ProgramError, SandboxError, SandboxUnavailable
from spade_envs.sandbox import Limits, Pool, seal, status
from spade_envs.sandbox.host import Worker


@pytest.fixture
def pool():
    with Pool(limits=Limits(step_seconds=1.0, reset_seconds=1.0, load_seconds=2.0)) as pool:
        yield pool


def another(number):
    return Program.from_source(GUESS.source.replace("A digit", f"Digit {number}"))


def test_one_worker_serves_all_instances_of_a_source_and_no_two_sources_share_one(pool):
    first, second = pool.load(GUESS), pool.load(another(1))
    assert pool.load(GUESS) is first
    ids = first.make(100)
    first.reset(ids, range(100))
    assert pool.live_workers == 2
    assert first.pid != second.pid


def test_a_batch_is_one_message_each_way(pool, monkeypatch):
    loaded = pool.load(GUESS)
    ids = loaded.make(64)
    loaded.reset(ids, range(64))
    sent, received = [], []
    send, receive = Worker._send, Worker._receive
    monkeypatch.setattr(Worker, "_send", lambda self, *a: (sent.append(1), send(self, *a))[1])
    monkeypatch.setattr(Worker, "_receive", lambda self, *a: (received.append(1), receive(self, *a))[1])
    assert len(loaded.step(ids, ["\\boxed{3}"] * 64)) == 64
    assert len(sent) == 1
    # A worker that was kept waiting for a processor flushes what it has, so that its host sees progress.
    assert len(received) <= 3


def test_the_cap_evicts_idle_workers_and_refuses_when_all_are_busy():
    with Pool(max_workers=2, limits=Limits(queue_seconds=0.2)) as pool:
        for number in range(6):
            loaded = pool.load(another(number))
            ids = loaded.make(1)
            assert not isinstance(loaded.reset(ids, [1])[0], Fault)
            loaded.close(ids)
            assert pool.live_workers <= 2
        busy = [pool.load(another(number)) for number in (7, 8)]
        held = [loaded.make(1) for loaded in busy]
        for loaded, ids in zip(busy, held, strict=True):
            loaded.reset(ids, [1])
        with pytest.raises(SandboxError, match="raise max_workers"):
            pool.load(another(9))
        busy[0].close(held[0])
        pool.load(another(9))


def test_an_evicted_program_is_loaded_again_when_it_is_needed():
    with Pool(max_workers=1) as pool:
        first = pool.load(GUESS)
        one = pool.load(another(1))
        ids = one.make(1)
        one.reset(ids, [1])
        one.close(ids)
        ids = first.make(1)
        assert not isinstance(first.reset(ids, [5])[0], Fault)


def test_idle_workers_are_ended():
    with Pool(limits=Limits(idle_seconds=0.2)) as pool:
        pool.load(GUESS)
        time.sleep(0.5)
        pool.load(another(1))
        assert pool.live_workers == 1


def test_a_death_affects_only_the_workers_own_instances(pool):
    victim, bystander = pool.load(GUESS), pool.load(another(1))
    mine, other = victim.make(2), bystander.make(1)
    victim.reset(mine, [1, 2])
    bystander.reset(other, [1])
    os.kill(victim.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    answers = victim.step(mine, ["a", "b"])
    while not isinstance(answers[0], Fault) and time.monotonic() < deadline:
        answers = victim.step(mine, ["a", "b"])
    assert [answer.kind for answer in answers] == ["died", "died"]
    assert not isinstance(bystander.step(other, ["a"])[0], Fault)
    assert not isinstance(victim.reset(mine, [1, 2])[0], Fault), "a reset starts a new worker"


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("raise ValueError('no such door')", "faulty", "line 13 in step: ValueError: no such door"),
        ("return 'x', 1.0, True, False", "faulty", "tuple of five"),
        ("return 5, 1.0, True, False, {}", "faulty", "observation must be a str, not int"),
        ("return 'x', '1', True, False, {}", "faulty", "reward must be a number, not str"),
        ("return 'x', float('nan'), True, False, {}", "faulty", "finite"),
        ("return 'x', 1.0, 1, False, {}", "faulty", "must be bool"),
        ("return 'x', 1.0, True, False, {'a': object()}", "faulty", "JSON cannot hold"),
        ("return 'x' * 100000, 1.0, True, False, {}", "faulty", "at most 65536"),
        ("return '\\ud800', 1.0, True, False, {}", "faulty", "lone surrogate"),
    ],
)
def test_a_failing_step_is_a_fault_of_its_kind_and_the_next_reset_works(pool, code, kind, message):
    loaded = pool.load(failing("step", code))
    ids = loaded.make(2)
    loaded.reset(ids, [1, 2])
    answers = loaded.step(ids, ["12", "13"])
    assert answers[0].observation == "12"
    assert (answers[1].kind, message in answers[1].message) == (kind, True), answers[1]
    assert loaded.reset(ids, [1, 2])[1].observation == "ready"


def test_a_step_that_hangs_takes_the_batch_of_its_worker_with_it_and_nothing_else(pool):
    loaded, other = pool.load(failing("step", "while True: pass")), pool.load(GUESS)
    ids, mine = loaded.make(2), other.make(1)
    loaded.reset(ids, [1, 2])
    other.reset(mine, [1])
    assert {answer.kind for answer in loaded.step(ids, ["12", "13"])} == {"timeout"}
    assert not isinstance(other.step(mine, ["x"])[0], Fault)
    assert loaded.reset(ids, [1, 2])[1].observation == "ready"


def test_a_failing_reset_and_a_missing_one(pool):
    loaded = pool.load(failing("reset", "return None"))
    ids = loaded.make(2)
    answers = loaded.reset(ids, [1, 13])
    assert answers[0].observation == "ready"
    assert "reset() must return (str, dict)" in answers[1].message
    assert "reset() comes first" in loaded.step(loaded.make(1), ["x"])[0].message


def test_wrong_calls_of_the_host_are_told(pool):
    loaded = pool.load(GUESS)
    ids = loaded.make(1)
    with pytest.raises(ValueError, match="one seed for each"):
        loaded.reset(ids, [1, 2])
    with pytest.raises(ValueError, match="at least 0"):
        loaded.reset(ids, [-1])
    with pytest.raises(ValueError, match="at most 262144"):
        loaded.step(ids, ["x" * 300_000])
    loaded.close(ids)
    with pytest.raises(SandboxError, match="not open"):
        loaded.reset(ids, [1])
    with pytest.raises(ProgramError, match="cannot be loaded"):
        pool.load(
            Program.from_source("class AEnv:\n    x = 1 / 0\n    def reset(self): pass\n    def step(self, a): pass")
        )


def test_threads_share_a_pool(pool):
    problems = []

    def work(number):
        try:
            loaded = pool.load(another(number % 3))
            ids = loaded.make(4)
            for round_ in range(20):
                answers = loaded.reset(ids, [number * 100 + round_] * 4)
                assert len({answer.observation for answer in answers}) == 1
                loaded.step(ids, ["\\boxed{1}"] * 4)
            loaded.close(ids)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_asyncio_callers_share_a_pool(pool):
    async def play(seed):
        loaded = await asyncio.to_thread(pool.load, GUESS)
        ids = loaded.make(1)
        await asyncio.to_thread(loaded.reset, ids, [seed])
        return (await asyncio.to_thread(loaded.step, ids, ["\\boxed{1}"]))[0]

    async def both():
        return await asyncio.gather(*(play(seed) for seed in (3, 3, 3)))

    one, two, three = asyncio.run(both())
    assert one == two == three


def test_on_a_loaded_machine_an_innocent_program_is_not_killed():
    """Four times as many busy processes as cores: a call that needs 0.2 s of processor time outlasts its 0.5 s."""
    slow = failing("step", "sum(i * i for i in range(3_000_000))")
    children = []
    for _ in range(4 * (os.cpu_count() or 1)):
        pid = os.fork()
        if pid == 0:
            end = time.monotonic() + 20
            while time.monotonic() < end:
                pass
            os._exit(0)
        children.append(pid)
    try:
        with Pool(limits=Limits(step_seconds=0.8, load_seconds=5.0)) as pool:
            loaded = pool.load(slow)
            ids = loaded.make(1)
            loaded.reset(ids, [1])
            answers = [loaded.step(ids, ["13"])[0] for _ in range(3)]
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert not [answer for answer in answers if isinstance(answer, Fault)]


def test_a_total_budget_ends_a_program_that_is_slow_in_every_call():
    limits = Limits(step_seconds=1.0, total_seconds=0.5)
    with Pool(limits=limits) as pool:
        loaded = pool.load(failing("step", "sum(range(5_000_000))"))
        ids = loaded.make(1)
        loaded.reset(ids, [1])
        answers = [loaded.step(ids, ["13"])[0] for _ in range(40)]
    kinds = [answer.kind for answer in answers if isinstance(answer, Fault)]
    assert kinds
    assert kinds[0] == "timeout"


def test_without_seccomp_nothing_untrusted_runs_but_trusted_programs_do(monkeypatch):
    monkeypatch.setattr(seal, "supported", lambda: "this kernel has no seccomp filters")
    with Pool() as pool, pytest.raises(SandboxUnavailable, match=r"no seccomp filters.*trusted=True"):
        pool.load(GUESS)
    assert status()["available"] is False
    with Pool(trusted=True) as pool:
        loaded = pool.load(GUESS)
        ids = loaded.make(1)
        assert loaded.reset(ids, [1])[0].observation.startswith("A digit")


def test_the_status_names_what_is_active():
    found = status()
    assert found["available"] is True
    assert {"seccomp", "no_new_privs"} <= {layer.split(":")[0].split(" ")[0] for layer in found["layers"]}, found[
        "layers"
    ]


def test_both_machine_architectures_have_a_table_of_system_calls():
    for machine in ("x86_64", "aarch64"):
        table = seal.SYSTEM_CALLS[machine]
        assert {"read", "write", "exit_group", "mmap", "brk"} <= set(table)
        assert not {"open", "openat", "socket", "clone", "execve", "fork", "ptrace", "kill"} & set(table)
        assert len(set(table.values())) == len(table)


def test_the_security_page_counts_the_system_calls():
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    x86, arm = (len(seal.SYSTEM_CALLS[machine]) for machine in ("x86_64", "aarch64"))
    assert f"allows {x86} system calls on x86-64 and {arm} on aarch64" in page
