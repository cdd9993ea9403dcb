"""A program under examination: what every stage needs, and nothing that a stage decides."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from spade_envs.contract import Fault, Program, StepResult, is_win
from spade_envs.gate.actions import COMMANDS, boxes
from spade_envs.sandbox import Loaded, Pool
from spade_envs.sandbox.pool import MAX_BATCH

SEEDS = tuple(range(8))
"""Seeds on which a program is examined."""
SLOW_CALL_SECONDS = 0.05
"""Processor time of a step that is too much: an episode of 25 turns would cost the trainer more than a second."""
BUDGET_SECONDS = 2.5
"""Processor time after which a program whose calls are slow on average is given up."""
_SLICE_SECONDS = 1.0
_TWIN_HASH_SEED = 4_242
_twins: weakref.WeakKeyDictionary[Pool, Pool] = weakref.WeakKeyDictionary()
_twins_lock = threading.Lock()


class Rejected(Exception):
    """What a stage found wrong; the message is written for the designer to repair from."""


class TooCostly(Rejected):
    """A program that takes too much time or memory, found while another stage was playing it."""


class Subject:
    """A loaded program with its openings.

    Its calls are counted and timed, and sent in slices of about a second, so that a program that is slow in every call
    is given up after some seconds and not after all the calls that the stages would make.
    """

    def __init__(self, program: Program, pool: Pool) -> None:
        self.program = program
        self.pool = pool
        self.loaded = pool.load(program)
        self.openings: dict[int, StepResult] = {}
        self.calls = 0
        self.seconds = 0.0

    @property
    def is_tool_use(self) -> bool:
        """Whether it subclasses `ToolUseBaseEnv`."""
        return self.program.kind == "tool_use"

    @property
    def mean_seconds(self) -> float:
        """Processor time of a call on average."""
        return self.seconds / self.calls if self.calls else 0.0

    @contextmanager
    def instances(self, n: int, loaded: Loaded | None = None, **keywords: Any) -> Iterator[list[int]]:
        """Ids of `n` instances, closed afterwards."""
        of = loaded or self.loaded
        ids = of.make(n, **keywords)
        try:
            yield ids
        finally:
            of.close(ids)

    def reset(self, ids: Sequence[int], seeds: Sequence[int], loaded: Loaded | None = None) -> list[StepResult | Fault]:
        """Open episodes. Raises `TooCostly`."""
        return self._timed(loaded or self.loaded, "reset", ids, seeds)

    def step(
        self, ids: Sequence[int], actions: Sequence[str], loaded: Loaded | None = None
    ) -> list[StepResult | Fault]:
        """Play one action in each of some instances. Raises `TooCostly`."""
        return self._timed(loaded or self.loaded, "step", ids, actions)

    def _timed(self, of: Loaded, method: str, ids: Sequence[int], arguments: Sequence[Any]) -> list[StepResult | Fault]:
        call: Callable[..., list[StepResult | Fault]] = getattr(of, method)
        answers: list[StepResult | Fault] = []
        while len(answers) < len(ids):
            start, end = len(answers), len(answers) + self._slice()
            before = of.processor_seconds
            answers += call(list(ids[start:end]), list(arguments[start:end]))
            if any(isinstance(one, Fault) and one.kind != "faulty" for one in answers[start:]):
                return answers + [answers[-1]] * (
                    len(ids) - len(answers)
                )  # the worker is gone; one such wait is enough
            used = of.processor_seconds - before
            self.calls += min(end, len(ids)) - start
            self.seconds += used if used > 0 else 0.0  # a worker that died took its clock along
            if self.seconds > BUDGET_SECONDS and self.mean_seconds > SLOW_CALL_SECONDS:
                raise TooCostly(
                    f"{self.calls} calls of reset() and step() took {1000 * self.mean_seconds:.0f} ms each on average; "
                    f"at most {1000 * SLOW_CALL_SECONDS:.0f} ms are allowed. Search less, and compute what does not "
                    "change only once, in reset()"
                )
        return answers

    def _slice(self) -> int:
        """How many calls to send at once: one until it is known what a call costs."""
        if not self.calls:
            return 1
        return max(1, min(MAX_BATCH, int(_SLICE_SECONDS / max(self.mean_seconds, 1e-6))))

    def affordable(self, turns: int, instances: int, seconds: float, least: int) -> int:
        """At most so many turns as `instances` of this program play within some seconds, but no fewer than `least`."""
        cost = max(self.mean_seconds, 1e-6) * instances
        return min(turns, max(least, int(seconds / cost)))

    def opening(self, seed: int) -> StepResult:
        """The answer to a reset from `seed`. Raises `Rejected` for a fault."""
        if seed not in self.openings:
            self.open([seed])
        return self.openings[seed]

    def open(self, seeds: Sequence[int]) -> list[StepResult]:
        """The answers to resets from some seeds. Raises `Rejected` for a fault."""
        new = [seed for seed in seeds if seed not in self.openings]
        with self.instances(len(new)) as ids:
            for seed, answer in zip(new, self.reset(ids, new), strict=True):
                self.openings[seed] = expect(answer, f"in reset(seed={seed})")
        return [self.openings[seed] for seed in seeds]

    def commands(self, seed: int = 0) -> list[str]:
        """Contents of the boxes that an opening shows, as a player would copy them."""
        return boxes(self.opening(seed).observation)[:COMMANDS]

    def tries(self, seed: int = 0) -> list[str]:
        """The commands of an opening, and the same with a number or a letter for the last word: `look N`, `look 1`."""
        commands = self.commands(seed)
        filled = [" ".join([*one.split()[:-1], value]) for one in commands for value in ("1", "2", "a")]
        return list(dict.fromkeys([*commands, *filled]))[: 3 * COMMANDS]

    def solutions(self, seeds: Sequence[int] = SEEDS) -> list[str | None]:
        """What the program says its solution is, right after the reset from each seed; None where it says nothing.

        Raises `Rejected` where `solution()` fails.
        """
        if not self.loaded.has_solution:
            return [None] * len(seeds)
        with self.instances(len(seeds)) as ids:
            self.reset(ids, seeds)
            answers = self.loaded.solution(ids)
        for seed, answer in zip(seeds, answers, strict=True):
            if isinstance(answer, Fault):
                raise Rejected(f"{answer.message} (right after reset(seed={seed}))")
        return answers  # type: ignore[return-value]

    def play(
        self, seeds: Sequence[int], actions: Sequence[Sequence[str]], loaded: Loaded | None = None, **keywords: Any
    ) -> list[list[StepResult | Fault]]:
        """Trajectories, one for each seed: the opening, then the answer to each of its actions, until it is over."""
        with self.instances(len(seeds), loaded, **keywords) as ids:
            trajectories = [[answer] for answer in self.reset(ids, seeds, loaded)]
            for turn in range(max(map(len, actions), default=0)):
                going = [i for i, one in enumerate(trajectories) if not is_over(one[-1]) and turn < len(actions[i])]
                if not going:
                    break
                answers = self.step([ids[i] for i in going], [actions[i][turn] for i in going], loaded)
                for i, answer in zip(going, answers, strict=True):
                    trajectories[i].append(answer)
        return trajectories

    def twin(self) -> Loaded | None:
        """The same program in a process with another hash seed; None in a trusted pool, which has no processes."""
        if self.pool.trusted:
            return None
        with _twins_lock:
            twin = _twins.get(self.pool)
            if twin is None:
                twin = Pool(self.pool.max_workers, self.pool.limits, extras=self.pool.extras, hash_seed=_TWIN_HASH_SEED)
                _twins[self.pool] = twin
                weakref.finalize(self.pool, twin.close)
        return twin.load(self.program)


def is_over(answer: StepResult | Fault) -> bool:
    """Whether nothing can follow an answer."""
    return isinstance(answer, Fault) or answer.terminated or answer.truncated


def is_won(answer: StepResult | Fault) -> bool:
    """Whether an answer ends its episode as a win."""
    return not isinstance(answer, Fault) and answer.terminated and is_win(answer.reward)


def expect(answer: StepResult | Fault, when: str) -> StepResult:
    """The answer, if it is one. Raises `Rejected` with what the program did and when."""
    if isinstance(answer, Fault):
        if "MemoryError" in answer.message:
            raise TooCostly(f"{answer.message} ({when}): the program needs more memory than the 512 MiB of its worker")
        raise Rejected(f"{answer.message} ({when})")
    return answer
