"""Eight processes write plays while a ninth browses and writers are killed: nothing acknowledged is lost."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time

from registry_samples import filled, plays, source

from spade_registry import Registry

WRITERS = 8
SECONDS = 8.0
WRITER = textwrap.dedent("""
    import sys
    from spade_registry import Play, Registry
    path, environment, policy, acknowledged = sys.argv[1:]
    registry = Registry.open(path)
    with open(acknowledged, "a", buffering=1) as log:
        batch = sum(1 for _ in open(acknowledged))
        while True:
            seeds = [batch * 8 + i for i in range(8)]
            registry.record_plays([Play(environment, None, None, policy, s, False, 1.0, "won") for s in seeds])
            log.write(f"{batch}\\n")
            batch += 1
""")


def start(path, environment, tmp_path, number):
    log = tmp_path / f"writer{number}.txt"
    log.touch()
    words = [sys.executable, "-c", WRITER, str(path), environment, f"writer{number}", str(log)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)


def test_no_acknowledged_play_is_lost_and_no_reader_is_locked_out(path, tmp_path):
    with Registry.open(path) as registry:
        environment = registry.add(source())
    writers = [start(path, environment, tmp_path, number) for number in range(WRITERS)]
    rng, reads, deadline = random.Random(0), 0, time.monotonic() + SECONDS
    next_kill = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0) as reader:  # locked would raise at once
            count = reader.execute("SELECT count(*) FROM plays").fetchone()[0]
        reader.close()
        assert count % 8 == 0, "a batch is written whole or not at all"
        reads += 1
        if time.monotonic() > next_kill:
            victim = rng.randrange(WRITERS)
            writers[victim].send_signal(signal.SIGKILL)
            writers[victim].wait()
            writers[victim] = start(path, environment, tmp_path, victim)
            next_kill += 0.5
        time.sleep(0.002)
    for writer in writers:
        assert writer.poll() is None, writer.stderr.read()
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    with Registry.open(path) as registry:
        connection = registry.connection()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        total = 0
        for number in range(WRITERS):
            acknowledged = len((tmp_path / f"writer{number}.txt").read_text().splitlines())
            found = connection.execute(
                "SELECT count(DISTINCT seed) FROM plays WHERE policy = ?", (f"writer{number}",)
            ).fetchone()[0]
            assert found >= 8 * acknowledged
            total += acknowledged
    assert total > WRITERS
    assert reads > 50


def test_threads_share_a_registry(registry):
    ids, run = filled(registry, [("wl", "ww")] * 4)
    problems = []

    def work(number):
        try:
            for step in range(10):
                registry.record_plays(plays(ids[number], run, 100 + step, "wl"))
                assert registry.get(ids[number]) is not None
                registry.leaderboard()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert registry.connection().execute("SELECT count(*) FROM plays WHERE step >= 100").fetchone() == (80,)


def test_a_forked_process_opens_the_source_anew(path, monkeypatch):
    from spade_registry.source import source as announced

    with Registry.open(path) as registry:
        key = registry.add(source())
    monkeypatch.setenv("SPADE_REGISTRY", str(path))
    assert announced().get(key) is not None
    child = os.fork()
    if child == 0:
        os._exit(0 if announced().get(key) is not None else 1)
    assert os.waitpid(child, 0)[1] == 0
