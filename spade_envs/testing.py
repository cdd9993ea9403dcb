"""A test kit for environments written by hand: each stage of the gate as a function, in the manner of PettingZoo.

Every function takes a program (its text, a path to its file, an id that `gymnasium.make` would take, or a `Program`),
raises `AssertionError` with a message that says what was done, what came and what was expected, and returns the stage's
warnings. Programs run in sealed workers, as everywhere. `environment_test` runs them all.

    from spade_envs.testing import determinism_test, environment_test

    def test_my_environment():
        environment_test("my_environment.py", hint="Halve the range with each question.")
"""

from __future__ import annotations

from pathlib import Path

from spade_envs import gate
from spade_envs.contract import Program
from spade_envs.errors import ProgramError, SpadeError
from spade_envs.gate import GateReport, stages
from spade_envs.gate.check import LOADING, loading_message, loading_stage
from spade_envs.gate.hints import find_leak
from spade_envs.gate.subject import Rejected, Subject
from spade_envs.gate.wording import explained
from spade_envs.sandbox import Pool, default_pool
from spade_envs.sources import resolve

Testable = Program | Path | str

__all__ = [
    "GateReport",
    "cost_test",
    "determinism_test",
    "environment_test",
    "extract_test",
    "free_win_test",
    "hint_test",
    "leak_test",
    "load_test",
    "parse_test",
    "policy_test",
    "repair_test",
    "reset_test",
    "solvable_test",
    "step_test",
    "tool_schema_test",
    "turns_test",
]


def read_program(given: Testable) -> Program:
    """The program that a text, a path, an id or a `Program` stands for. Raises `SpadeError` where there is none."""
    if isinstance(given, Program):
        return given
    if isinstance(given, Path) or (given.endswith(".py") and "\n" not in given):
        try:
            return Program.from_source(Path(given).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise SpadeError(f"{given} cannot be read as UTF-8 text: {error}") from None
    return Program.from_source(given) if "\n" in given else resolve(given).program


def environment_test(program: Testable, *, hint: str | None = None, pool: Pool | None = None) -> GateReport:
    """Every stage in order. A program that only passes after a repair fails. Returns the gate's report."""
    report = gate.check(read_program(program), pool=pool, hint=hint)
    assert report.accepted, report.render()
    assert not report.changes, "the program only passes after a repair: " + "; ".join(report.changes)
    return report


def extract_test(answer: str) -> str:
    """A model's answer holds a program: one code block with a class whose name ends in `Env`. Returns the program."""
    try:
        return gate.extract_program(answer)
    except ProgramError as error:
        raise AssertionError(f"extract: {error}") from None


def repair_test(program: Testable) -> None:
    """It needs no repair: no stray fences, no single braces in templates, no forgotten imports.

    Parses the text in this process: meant for programs that are your own.
    """
    changes = gate.repair(read_program(program).source).changes
    assert not changes, "the program only runs after a repair: " + "; ".join(changes)


def parse_test(program: Testable, *, pool: Pool | None = None) -> None:
    """Its text is Python."""
    _load("parse", program, pool)


def policy_test(program: Testable, *, pool: Pool | None = None) -> None:
    """It uses nothing that the static policy forbids: files, processes, the network, the interpreter's own parts."""
    _load("policy", program, pool)


def load_test(program: Testable, *, pool: Pool | None = None) -> None:
    """Its class can be made, and defines `reset` and `step`."""
    _load("load", program, pool)


def reset_test(program: Testable, *, pool: Pool | None = None) -> list[str]:
    """`reset` returns `(str, dict)` for every seed, with a briefing that is not empty."""
    return _run("reset", program, pool)


def step_test(program: Testable, *, pool: Pool | None = None) -> list[str]:
    """No action, however odd, makes `step` fail; rewards lie in [-1, 1]."""
    return _run("step", program, pool)


def turns_test(program: Testable, *, pool: Pool | None = None) -> list[str]:
    """An episode ends by itself, within the program's own `max_turns`."""
    return _run("turns", program, pool)


def determinism_test(program: Testable, *, pool: Pool | None = None) -> list[str]:
    """One seed and one sequence of actions give one trajectory: beside others, alone, and in another process."""
    return _run("determinism", program, pool)


def free_win_test(program: Testable, *, pool: Pool | None = None) -> list[str]:
    """No constant answer, echo or list of all candidates wins."""
    return _run("no_free_win", program, pool)


def leak_test(program: Testable, *, pool: Pool | None = None) -> list[str]:
    """Neither the opening, nor its info, nor the reply to an idle action prints the solution."""
    return _run("leak", program, pool)


def solvable_test(program: Testable, *, pool: Pool | None = None) -> list[str]:
    """Replaying `solution()` wins on several seeds; a warning where it cannot be replayed."""
    return _run("solvable", program, pool)


def tool_schema_test(program: Testable, *, pool: Pool | None = None) -> list[str]:
    """A tool-use program's schemas fit its methods, its criteria are open at reset, and its tools lead to a win."""
    read = read_program(program)
    assert read.kind == "tool_use", f"tool_schema: {read.class_name} does not subclass ToolUseBaseEnv"
    return _run("tool_schema", read, pool)


def cost_test(program: Testable, *, pool: Pool | None = None) -> list[str]:
    """The median step takes at most 50 ms of processor time."""
    return _run("cost", program, pool)


def hint_test(program: Testable, hint: str, *, pool: Pool | None = None) -> None:
    """The hint does not contain the answer."""
    subject = _load("load", program, pool)
    assert subject is not None
    leak = find_leak(subject, hint)
    assert leak is None, f"hint: {leak}"


def _load(stage: str, program: Testable, pool: Pool | None) -> Subject | None:
    """The loaded program; None where a stage of loading that comes after `stage` refused it."""
    read = read_program(program)
    try:
        return Subject(read, pool or default_pool())
    except ProgramError as error:
        refused = loading_stage(error)
        if LOADING.index(refused) <= LOADING.index(stage):
            raise AssertionError(f"{refused}: {explained(loading_message(error), read.source)}") from None
        return None


def _run(stage: str, program: Testable, pool: Pool | None) -> list[str]:
    subject = _load("load", program, pool)
    assert subject is not None
    try:
        return stages.STAGES[stage](subject)
    except Rejected as error:
        raise AssertionError(f"{stage}: {explained(str(error), subject.program.source)}") from None
