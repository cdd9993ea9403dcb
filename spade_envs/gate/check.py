"""The verdict on a program: every stage in order, the first failure stops."""

from __future__ import annotations

import time
from collections.abc import Callable

from spade_envs.contract import Program, environment_classes
from spade_envs.errors import PolicyViolation, ProgramError
from spade_envs.gate.hints import find_leak
from spade_envs.gate.report import GateReport, StageResult
from spade_envs.gate.stages import STAGES
from spade_envs.gate.subject import Rejected, Subject, TooCostly
from spade_envs.gate.wording import explained
from spade_envs.sandbox import Pool, default_pool

OFFER = "; a program may import "
LOADING = ("parse", "policy", "load")


def check(source: Program | str, *, pool: Pool | None = None, hint: str | None = None) -> GateReport:
    """Judge one program.

    Args:
        source: a program, or the text of one (see `extract_program` for a model's whole answer).
        pool: where it runs; default: the pool of this process. Several threads may check with one pool.
        hint: a hint to check for leaks of the solution, as a last stage `hint`.

    Whatever the program does is a verdict; only a machine that cannot seal a worker raises (`SandboxUnavailable`).
    """
    return _Check(pool or default_pool()).run(source.source if isinstance(source, Program) else source, hint)


class _Check:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.stages: list[StageResult] = []
        self.program: Program | None = None
        self.source = ""
        self.changes: list[str] = []
        self.observation: str | None = None
        self.max_turns: int | None = None

    def run(self, text: str, hint: str | None) -> GateReport:
        self.source = text
        accepted = self._extract(text) and self._play(hint)
        return GateReport(
            accepted, self.program, self.source, self.stages, self.changes, self.observation, self.max_turns
        )

    def _extract(self, text: str) -> bool:
        def extract() -> list[str]:
            self.program = Program.from_source(text)
            self.source = self.program.source
            return _several(self.program)

        def mend() -> list[str]:
            assert self.program is not None
            mended, changes = self.pool.mend(self.source)
            if changes:
                self.changes = changes
                self.program = Program.from_source(mended)
                self.source = self.program.source
            return []

        return self._stage("extract", extract) and self._stage("repair", mend, "; ".join)

    def _play(self, hint: str | None) -> bool:
        subject = self._load()
        if subject is None:
            return False
        for name, stage in STAGES.items():
            if name == "tool_schema" and not subject.is_tool_use:
                continue
            if not self._stage(name, lambda stage=stage: stage(subject)):  # type: ignore[misc]
                return False
            if name == "reset":
                self.observation = subject.opening(0).observation
        self.max_turns = subject.loaded.max_turns
        if hint is not None:
            return self._stage("hint", lambda: _no_leak(subject, hint))
        return True

    def _load(self) -> Subject | None:
        """Load the program in a worker; the stage that refused has its own row, those before it passed."""
        assert self.program is not None
        begin = time.monotonic()
        stage, message, subject = "load", "", None
        try:
            subject = Subject(self.program, self.pool)
        except ProgramError as error:
            stage, message = loading_stage(error), loading_message(error)
        seconds = time.monotonic() - begin
        for name in LOADING[: LOADING.index(stage) + 1]:
            last = name == stage
            self.stages.append(
                StageResult(name, subject is not None or not last, self._told(message) if last else "", seconds * last)
            )
        return subject

    def _told(self, message: str) -> str:
        return explained(message, self.source)

    def _stage(self, name: str, work: Callable[[], list[str]], say: Callable[[list[str]], str] = lambda _: "") -> bool:
        begin = time.monotonic()
        message, warnings, passed = "", [], True
        try:
            warnings = work()
            message = say(self.changes)
        except (Rejected, ProgramError) as error:
            name = "cost" if isinstance(error, TooCostly) else name
            message, passed = self._told(str(error)), False
        self.stages.append(StageResult(name, passed, message, time.monotonic() - begin, warnings))
        return passed


def loading_stage(error: ProgramError) -> str:
    """Which of the stages of `LOADING` an error of `Pool.load` belongs to."""
    return "policy" if isinstance(error, PolicyViolation) else str(getattr(error, "stage", "load"))


def loading_message(error: ProgramError) -> str:
    """Its message; the modules that a program may import are listed once, and not for every line."""
    if not isinstance(error, PolicyViolation):
        return str(error)
    first, offer = [], ""
    for line, message in error.violations:
        said, mark, modules = message.partition(OFFER)
        first.append(f"line {line}: {said}")
        offer = mark + modules or offer
    return "; ".join(first) + offer


def _several(program: Program) -> list[str]:
    found = environment_classes(program.source)
    names = [one.name for one in found]
    if len(names) < 2:
        return []
    if not any(one.is_complete for one in found):
        raise Rejected(
            f"several classes end in Env ({', '.join(names)}), and none of them defines both reset() and step(): give "
            "one class both methods, and the others names that do not end in Env"
        )
    return [f"the program has several environment classes ({', '.join(names)}); {program.class_name} was taken"]


def _no_leak(subject: Subject, hint: str) -> list[str]:
    leak = find_leak(subject, hint)
    if leak is not None:
        raise Rejected(leak)
    return []
