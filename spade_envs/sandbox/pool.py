"""Pools of sealed workers: one worker a program, any number of instances in it, a cap on how many live.

`Pool.load(program)` gives a `Loaded`, which makes, resets and steps instances in batches: one message each way. A
worker that dies takes its own instances with it (their next answer is a `Fault`) and nothing else; a reset after that
starts in a new worker. Threads may share a pool; asyncio callers use `asyncio.to_thread`, since a call blocks.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spade_envs.contract import MAX_ACTION, MAX_OBSERVATION, Fault, Program, StepResult
from spade_envs.errors import PolicyViolation, ProgramError, SandboxError, SandboxUnavailable, SpadeError
from spade_envs.sandbox.host import Worker, WorkerLost, Zygote, unavailable
from spade_envs.sandbox.inprocess import InProcessWorker
from spade_envs.sandbox.protocol import (
    Answer,
    Broken,
    Close,
    Inspect,
    Item,
    Load,
    LoadReport,
    Mend,
    Reset,
    Solution,
    Step,
    Text,
)

EXTRAS_VARIABLE = "SPADE_ENVS_EXTRAS"
"""Environment variable: optional modules that programs of the default pool may import, separated by commas."""
DEFAULT_MAX_WORKERS = 64
"""Live workers of a pool: a worker takes some 5 MiB, and can keep one core busy."""
MAX_BATCH = 512
MAX_SEED = 2**63


@dataclass(frozen=True)
class Limits:
    """What a program may use. Seconds are those in which its worker could run, see `host`."""

    step_seconds: float = 5.0
    reset_seconds: float = 5.0
    load_seconds: float = 5.0
    total_seconds: float = 120.0
    """For each episode that a worker has begun: the sum of its calls."""
    memory_bytes: int = 512 << 20
    """Address space of a worker; all instances of a program share it."""
    max_observation: int = MAX_OBSERVATION
    """Characters."""
    idle_seconds: float = 300.0
    """A worker without open instances is ended after this."""
    queue_seconds: float = 60.0
    """How long a load waits for a place when `max_workers` are busy."""


class Loaded:
    """A program in a pool, with its instances. Thread-safe."""

    def __init__(self, pool: Pool, program: Program) -> None:
        self.program = program
        self.max_turns: int | None = None
        """The default of the class's own `max_turns`, where it has one."""
        self.has_solution = False
        self.layers: list[str] = []
        self._pool = pool
        self._lock = threading.Lock()
        self._worker: Worker | InProcessWorker | None = None
        self._generation = 0
        self._obituary = "its worker was ended because it was idle"
        self._keywords: dict[int, dict[str, Any]] = {}
        self._home: dict[int, int] = {}
        self._episodes = 0
        self._closing: deque[int] = deque()
        self.last_used = time.monotonic()

    def make(self, n: int = 1, **kwargs: Any) -> list[int]:
        """Ids of `n` new instances, whose class is called with these keyword arguments at every reset.

        `max_turns` and `seed` reach the class only if it takes them; any other is passed on as it is.
        """
        ids = [next(_ids) for _ in range(n)]
        for identifier in ids:
            self._keywords[identifier] = kwargs
        return ids

    def reset(self, ids: Sequence[int], seeds: Sequence[int]) -> list[StepResult | Fault]:
        """Open an episode in each instance; the seed (0 <= seed < 2^63) decides its whole course."""
        if len(ids) != len(seeds):
            raise ValueError(f"one seed for each instance is needed: {len(ids)} ids, {len(seeds)} seeds")
        for seed in seeds:
            if not 0 <= seed < MAX_SEED:
                raise ValueError(f"a seed must be at least 0 and less than 2**63, not {seed}")
        unknown = [identifier for identifier in ids if identifier not in self._keywords]
        if unknown:
            raise SandboxError(f"instances {unknown} are not open; make() gives ids, close() ends them")
        items = [
            (identifier, int(seed), self._keywords[identifier]) for identifier, seed in zip(ids, seeds, strict=True)
        ]
        return self._exchange(Reset, items, self._pool.limits.reset_seconds, self._result)

    def step(self, ids: Sequence[int], actions: Sequence[str]) -> list[StepResult | Fault]:
        """Play one action in each instance; actions are at most 262,144 characters, lone surrogates are replaced."""
        if len(ids) != len(actions):
            raise ValueError(f"one action for each instance is needed: {len(ids)} ids, {len(actions)} actions")
        items = [(identifier, _clean(action)) for identifier, action in zip(ids, actions, strict=True)]
        return self._exchange(Step, items, self._pool.limits.step_seconds, self._result)

    def solution(self, ids: Sequence[int]) -> list[str | Fault | None]:
        """What each instance says its solution is; None where the program has none."""
        return self._exchange(Solution, list(ids), self._pool.limits.step_seconds, _solution_of)

    def inspect(self, ids: Sequence[int]) -> list[str | Fault | None]:
        """What the gate asks of tool-use instances right after a reset: JSON with `mismatches`, `messages`, `criteria`."""
        return self._exchange(Inspect, list(ids), self._pool.limits.step_seconds, _solution_of)

    def close(self, ids: Sequence[int]) -> None:
        """Forget instances. It does not wait: the worker is told with its next request."""
        for identifier in ids:
            if self._keywords.pop(identifier, None) is not None and self._home.pop(identifier, None) is not None:
                self._closing.append(identifier)

    @property
    def open_instances(self) -> int:
        """Instances that were made and not closed."""
        return len(self._keywords)

    @property
    def processor_seconds(self) -> float:
        """Processor time that its worker has used; 0 where none lives. In process: that of the calling thread."""
        worker = self._worker
        return worker.cpu_seconds() if worker is not None and worker.alive else 0.0

    @property
    def pid(self) -> int | None:
        """The worker's process id, None where none lives."""
        return self._worker.pid if self._worker is not None and self._worker.alive else None

    def _exchange(self, request: type, items: list[Any], seconds: float, convert: Callable[[Item], Any]) -> list[Any]:
        """Send the items whose worker lives, in batches, and put every answer in its place."""
        results: list[Any] = []
        with self._lock:
            if request is Reset:
                self._ensure_worker()
            for start in range(0, len(items), MAX_BATCH):
                part = items[start : start + MAX_BATCH]
                while len(part) > 1 and _size(part) > 2 << 20:
                    part = part[: len(part) // 2]
                results += self._part(request, part, seconds, convert) if len(part) else []
                rest = items[start + len(part) : start + MAX_BATCH]
                results += [answer for item in rest for answer in self._part(request, [item], seconds, convert)]
            self.last_used = time.monotonic()
        return results

    def _part(self, request: type, items: list[Any], seconds: float, convert: Callable[[Item], Any]) -> list[Any]:
        resetting = request is Reset
        ids = items if request in (Solution, Inspect) else [item[0] for item in items]
        if resetting:
            self._ensure_worker()
            self._episodes += len(items)
            self._home.update(dict.fromkeys(ids, self._generation))
        generation, home, worker = self._generation, self._home, self._worker
        if worker is None or not worker.alive:
            return [Fault("died", self._obituary)] * len(items)
        if all([home.get(identifier) == generation for identifier in ids]):  # noqa: C419  # a list is faster here
            return self._send(worker, request, items, seconds, convert)
        present = [home.get(identifier) == generation for identifier in ids]
        answers = iter(
            self._send(
                worker, request, [item for item, here in zip(items, present, strict=True) if here], seconds, convert
            )
        )
        return [
            next(answers) if here else self._absent(identifier) for identifier, here in zip(ids, present, strict=True)
        ]

    def _absent(self, identifier: int) -> Fault:
        if identifier in self._home:
            return Fault("died", self._obituary)
        return Fault("faulty", "the instance has no episode: reset() comes first")

    def _send(
        self,
        worker: Worker | InProcessWorker,
        request: type,
        items: list[Any],
        seconds: float,
        convert: Callable[[Item], Any],
    ) -> list[Any]:
        if not items:
            return []
        try:
            if self._closing:
                worker.tell(Close([self._closing.popleft() for _ in range(len(self._closing))]))
            answers = worker.batch(request(items), len(items), seconds)
            budget = self._pool.limits.total_seconds * max(1, self._episodes)
            if worker.spent > budget:
                worker.kill()
                raise WorkerLost("timeout", f"its episodes took more than {self._pool.limits.total_seconds:g} s each")
            return [convert(answer) for answer in answers]
        except WorkerLost as lost:
            self._bury(lost)
            answers = lost.received
            missing = len(items) - len(answers)
            return [convert(answer) for answer in answers] + [Fault(lost.kind, lost.message)] * missing

    def _bury(self, lost: WorkerLost) -> None:
        self._obituary = f"another instance of the same program ended their worker: {lost.message}"
        self._drop_worker()

    def _drop_worker(self) -> None:
        worker, self._worker = self._worker, None
        self._closing.clear()
        if worker is not None:
            worker.kill()
            self._pool._left(self)

    def _ensure_worker(self) -> None:
        """A live worker with the program loaded; raises what `Pool.load` raises."""
        if self._worker is not None and self._worker.alive:
            return
        self._worker = None
        worker = self._pool._spawn(self)
        try:
            report = worker.load(self._pool._load_request(self.program), self._pool.limits.load_seconds)
        except WorkerLost as lost:
            self._pool._left(self)
            raise ProgramError(f"loading {self.program.class_name}: {lost.message}") from None
        except BaseException:
            worker.kill()
            self._pool._left(self)
            raise
        if report.stage is not None:
            worker.kill()
            self._pool._left(self)
            raise load_error(self.program, report)
        self._worker = worker
        self._generation += 1
        self._episodes = 0
        self.max_turns, self.has_solution, self.layers = report.max_turns, report.has_solution, report.layers

    def _evict(self) -> bool:
        """End an idle worker; False if it is in use."""
        if self._keywords or not self._lock.acquire(blocking=False):
            return False
        try:
            self._obituary = "its worker was ended because it was idle"
            self._drop_worker()
        finally:
            self._lock.release()
        return True

    def _result(self, item: Item) -> StepResult | Fault:
        if type(item) is Answer:
            if not math.isfinite(item.reward):
                return Fault("faulty", "the reward must be a finite number")
            if len(item.observation) > self._pool.limits.max_observation:
                return Fault("faulty", "the observation is too long")
            return StepResult(item.observation, item.reward, item.terminated, item.truncated, item.info)
        return Fault("faulty", item.message if type(item) is Broken else "the answer is of the wrong kind")


class Pool:
    """Sealed workers for many programs. A context manager; thread-safe.

    `extras` names optional modules that programs may import (numpy, math_verify); they widen what a program reaches.
    `hash_seed` is the workers' PYTHONHASHSEED. `trusted=True` runs programs in this process, without any isolation.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        limits: Limits | None = None,
        trusted: bool = False,
        *,
        extras: Sequence[str] = (),
        hash_seed: int = 0,
    ) -> None:
        self.max_workers = DEFAULT_MAX_WORKERS if max_workers is None else max_workers
        if self.max_workers < 1:
            raise ValueError(f"max_workers must be at least 1, not {max_workers}")
        self.limits = limits or Limits()
        self.trusted = trusted
        self.extras = tuple(extras)
        self.hash_seed = hash_seed
        self.guarded = not trusted
        self._pid = os.getpid()
        self._condition = threading.Condition()
        self._loaded: dict[str, Loaded] = {}
        self._live: dict[Loaded, None] = {}
        self._zygote: Zygote | None = None
        self._zygote_lock = threading.Lock()
        self._closed = False

    def load(self, program: Program) -> Loaded:
        """The program in a sealed worker, compiled and tried.

        Raises `ProgramError` (with the line) for what Python or the program's own class refuses, `PolicyViolation` for
        what the policy forbids, `SandboxUnavailable` where nothing can be sealed.
        """
        self._check_usable()
        with self._condition:
            loaded = self._loaded.setdefault(program.sha256, Loaded(self, program))
        try:
            with loaded._lock:
                loaded._ensure_worker()
        except ProgramError:
            with self._condition:
                if not loaded.open_instances:
                    self._loaded.pop(program.sha256, None)
            raise
        self._end_idle()
        return loaded

    def mend(self, source: str) -> tuple[str, list[str]]:
        """The text of a program repaired, and what was changed; parsed in a sealed worker, and not run.

        A text over which the worker dies or runs out of time comes back as it was.
        """
        visitor = Loaded(self, Program(source, "", "", "game"))
        with visitor._lock:
            worker = self._spawn(visitor)
            try:
                answer = worker.batch(Mend([source]), 1, self.limits.load_seconds)[0]
            except WorkerLost:
                return source, []
            finally:
                worker.kill()
                self._left(visitor)
        text = answer.text if type(answer) is Text else None
        mended = json.loads(text) if text else {"source": source, "changes": []}
        return str(mended["source"]), [str(change) for change in mended["changes"]]

    @property
    def live_workers(self) -> int:
        """Workers that live now."""
        return len(self._live)

    def close(self) -> None:
        """End every worker and the zygote."""
        if self._pid != os.getpid():
            return
        self._closed = True
        for loaded in list(self._live):
            with loaded._lock:
                loaded._drop_worker()
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_usable(self) -> None:
        if self._closed:
            raise SandboxError("this pool is closed")
        if self._pid != os.getpid():
            raise SandboxError("a pool cannot be used in a forked process; make one there, or use default_pool()")

    def _load_request(self, program: Program) -> Load:
        return Load(
            program.source, program.class_name, program.kind, self.guarded, self.extras, self.limits.max_observation
        )

    def _spawn(self, loaded: Loaded) -> Worker | InProcessWorker:
        """A new worker, counted as live; waits for a place if there is none."""
        self._check_usable()
        self._take_place(loaded)
        try:
            if self.trusted:
                return InProcessWorker()
            return self._forked()
        except BaseException:
            self._left(loaded)
            raise

    def _forked(self) -> Worker:
        for attempt in (1, 2):
            with self._zygote_lock:
                if self._zygote is None or not self._zygote.alive:
                    self._zygote = Zygote(extras=self.extras, hash_seed=self.hash_seed)
                zygote = self._zygote
            try:
                return zygote.spawn(self.limits.memory_bytes)
            except SandboxError:
                if attempt == 2:
                    raise
                with self._zygote_lock:
                    if self._zygote is zygote:
                        self._zygote = None
                zygote.close()
        raise AssertionError("unreachable")

    def _take_place(self, loaded: Loaded) -> None:
        deadline = time.monotonic() + self.limits.queue_seconds
        with self._condition:
            while len(self._live) >= self.max_workers and not self._evict_one():
                if not self._condition.wait(min(1.0, max(0.0, deadline - time.monotonic()))) and (
                    time.monotonic() >= deadline
                ):
                    raise SandboxError(
                        f"all {self.max_workers} workers have open instances; close some, or raise max_workers"
                    )
            self._live[loaded] = None

    def _evict_one(self) -> bool:
        return any(other._evict() for other in sorted(self._live, key=lambda one: one.last_used))

    def _end_idle(self) -> None:
        now = time.monotonic()
        for loaded in list(self._live):
            if now - loaded.last_used > self.limits.idle_seconds:
                loaded._evict()

    def _left(self, loaded: Loaded) -> None:
        with self._condition:
            self._live.pop(loaded, None)
            if not loaded._keywords:
                self._loaded.pop(loaded.program.sha256, None)
            self._condition.notify_all()


def load_error(program: Program, report: LoadReport) -> SpadeError:
    """The exception that a load report stands for."""
    if report.stage == "seal":
        return SandboxUnavailable(unavailable(f"the worker could not be sealed ({report.message})"))
    if report.stage == "policy":
        return PolicyViolation(report.violations)
    error = ProgramError(f"{program.class_name} cannot be loaded: {report.message}")
    error.stage = report.stage  # type: ignore[attr-defined]
    return error


def _solution_of(item: Item) -> str | Fault | None:
    if type(item) is Text:
        return item.text
    return Fault("faulty", item.message if type(item) is Broken else "the answer is of the wrong kind")


def _clean(action: str) -> str:
    if len(action) > MAX_ACTION:
        raise ValueError(f"an action may have at most {MAX_ACTION} characters; this one has {len(action)}")
    return action if action.isascii() else action.encode("utf-8", "replace").decode()


def _size(items: list[Any]) -> int:
    return sum(4 * len(item[1]) for item in items if isinstance(item, tuple) and isinstance(item[1], str))


_ids = itertools.count(1)
_default: Pool | None = None
_default_lock = threading.Lock()


def default_pool() -> Pool:
    """The pool of this process, made at the first call; a forked process gets its own."""
    global _default
    with _default_lock:
        if _default is None or _default._pid != os.getpid() or _default._closed:
            named = os.environ.get(EXTRAS_VARIABLE, "")
            _default = Pool(extras=tuple(name.strip() for name in named.split(",") if name.strip()))
        return _default


@atexit.register
def _close_default() -> None:
    if _default is not None:
        with contextlib.suppress(Exception):
            _default.close()
