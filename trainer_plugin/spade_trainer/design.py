"""From a designer's answer to an environment: extract the program, put it through the gate, retry, ask for the hint.

One design is up to `attempts` programs, the last of which may be accepted, and a hint for the accepted one. How the
model is asked is the caller's business (verl's rollout, an engine in this process, an endpoint): it passes a
coroutine. Programs run in the sandbox pool only, and the gate runs in a thread, so that other designs go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

from spade_envs import gate
from spade_envs.contract import Program
from spade_envs.errors import ProgramError
from spade_trainer import prompts
from spade_trainer.config import DesignerConfig
from spade_trainer.method.seeding import derive
from spade_trainer.toolcalls import without_thinking

DESIGNER_PROMPT = {"game": "designer_game", "tool_use": "designer_tool_use"}
"""The designer's prompt for each kind of program."""
HINT_PROMPT = {"game": "hint_game", "tool_use": "hint_tool_use"}
WRONG_KIND = {
    "tool_use": "a class that subclasses ToolUseBaseEnv was asked for; this one does not",
    "game": "a game was asked for; this program subclasses ToolUseBaseEnv",
}
HINT_CHARACTERS = 2000  # a hint is a few sentences; what is longer has become an essay or a copy of the program


class Reply(NamedTuple):
    """What the model said to one request."""

    text: str
    cut: bool
    """Whether the token limit ended it."""


class Ask(Protocol):
    """Asks the model."""

    def __call__(
        self, messages: Sequence[prompts.Message], *, purpose: str, temperature: float, max_tokens: int, seed: int
    ) -> Awaitable[Reply]:
        """Return the answer to `messages`; `purpose` is `program` or `hint`."""


@dataclass(frozen=True)
class Job:
    """One slot to fill: what the designer is asked, and everything that is recorded about it."""

    slot: int
    skill: str
    messages: list[prompts.Message]
    seed: int
    kind: str = "game"
    """Kind of program that is asked for, `game` or `tool_use`."""
    variant: str = "default"
    prompt_version: str = ""
    document: dict[str, str | None] | None = None
    """sha256, title and text of the corpus document shown."""
    parents: tuple[str, ...] = ()
    """Ids of the environments shown as examples."""


@dataclass
class Attempt:
    """One program, accepted or not."""

    number: int
    source: str
    """The program after repair; the whole answer where no program could be extracted."""
    accepted: bool = False
    stage: str | None = None
    """The stage that rejected it."""
    message: str | None = None
    checks: list[dict[str, Any]] = field(default_factory=list)
    """stage, passed, message and seconds of each stage that ran."""
    changes: list[str] = field(default_factory=list)
    """What the repair did."""
    max_turns: int | None = None
    observation: str | None = None

    @property
    def cut(self) -> bool:
        """Whether the token limit ended the program: neither accepted nor the designer's failure."""
        return self.stage == "cut"


@dataclass
class Design:
    """What came of a job."""

    slot: int
    skill: str
    attempts: list[Attempt] = field(default_factory=list)
    hint: str | None = None
    hint_leak: str | None = None
    """Why the last hint was refused, if it was."""

    @property
    def accepted(self) -> Attempt | None:
        """The accepted program."""
        return next((attempt for attempt in self.attempts if attempt.accepted), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as `from_dict` reads it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Design:
        """Restore a design."""
        return cls(**{**data, "attempts": [Attempt(**attempt) for attempt in data["attempts"]]})


async def design(job: Job, ask: Ask, config: DesignerConfig, pool: Any = None) -> Design:
    """Fill one slot. Whatever the model writes is a result; only a failure of the model or the sandbox raises."""
    result = Design(job.slot, job.skill)
    messages = list(job.messages)
    repairs = 0
    for number in range(1, config.attempts + 1):
        reply = await ask(
            messages,
            purpose="program",
            temperature=config.temperature,
            max_tokens=config.max_tokens,
            seed=derive(job.seed, "program", number),
        )
        attempt = await judge(reply, number, pool)
        refuse_other_kind(attempt, job.kind)
        result.attempts.append(attempt)
        if attempt.accepted:
            await _hint(job, result, attempt, ask, config, pool)
            break
        if repairs < config.repair_turns and not attempt.cut:
            messages += _repair_turn(job, reply, attempt)
            repairs += 1
        else:
            messages, repairs = list(job.messages), 0
    return result


async def judge(reply: Reply, number: int, pool: Any = None) -> Attempt:
    """Put one answer through extraction and the gate, in a thread."""
    return await asyncio.to_thread(judge_answer, reply, number, pool)


def judge_answer(reply: Reply, number: int, pool: Any = None) -> Attempt:
    """Put one answer through extraction and the gate."""
    try:
        source = gate.extract_program(reply.text)
    except ProgramError as error:
        stage = "cut" if reply.cut else "extract"
        check = {"stage": stage, "passed": False, "message": str(error), "seconds": 0.0}
        return Attempt(number, reply.text, stage=stage, message=str(error), checks=[check])
    report = gate.check(source, pool=pool)
    attempt = Attempt(
        number,
        report.program.source if report.program is not None else report.source,
        accepted=report.accepted,
        checks=[
            {"stage": one.stage, "passed": one.passed, "message": one.message, "seconds": one.seconds}
            for one in report.stages
        ],
        changes=list(getattr(report, "changes", ())),
        max_turns=report.max_turns,
        observation=report.observation,
    )
    if report.failure is not None:
        attempt.stage, attempt.message = ("cut", "the token limit ended it") if reply.cut else report.failure
    return attempt


def refuse_other_kind(attempt: Attempt, kind: str) -> None:
    """Turn an accepted program of another kind than `kind` into a rejected one, at the stage `kind`."""
    if attempt.accepted and Program.from_source(attempt.source).kind != kind:
        attempt.accepted, attempt.stage, attempt.message = False, "kind", WRONG_KIND[kind]
        attempt.checks.append({"stage": "kind", "passed": False, "message": WRONG_KIND[kind], "seconds": 0.0})


async def _hint(job: Job, result: Design, attempt: Attempt, ask: Ask, config: DesignerConfig, pool: Any) -> None:
    """Ask for hints until one is usable; a design without one has no hinted arm and so no regret."""
    messages = prompts.render(HINT_PROMPT[job.kind], variant=job.variant, source=attempt.source, skill=job.skill)
    for number in range(config.hint_attempts):
        reply = await ask(
            messages,
            purpose="hint",
            temperature=config.hint_temperature,
            max_tokens=config.hint_max_tokens,
            seed=derive(job.seed, "hint", number),
        )
        hint = without_thinking(reply.text).strip()
        result.hint_leak = await refuse_hint(attempt.source, hint, reply.cut, pool)
        if result.hint_leak is None:
            result.hint = hint
            return


async def refuse_hint(source: str, hint: str, cut: bool = False, pool: Any = None) -> str | None:
    """Return why a hint cannot be used, or None; looks for leaks in a thread."""
    return await asyncio.to_thread(hint_refusal, source, hint, cut, pool)


def hint_refusal(source: str, hint: str, cut: bool = False, pool: Any = None) -> str | None:
    """Return why a hint cannot be used, or None."""
    if not hint or cut:
        return "the token limit ended the hint" if cut else "the hint is empty"
    if len(hint) > HINT_CHARACTERS:
        return f"the hint has {len(hint)} characters, more than {HINT_CHARACTERS}"
    return gate.hint_leaks(source, hint, pool=pool)


def _repair_turn(job: Job, reply: Reply, attempt: Attempt) -> list[prompts.Message]:
    request = prompts.render(
        "designer_repair", variant=job.variant, stage=attempt.stage, message=attempt.message, source=attempt.source
    )
    return [{"role": "assistant", "content": reply.text}, {"role": "user", "content": request[-1]["content"]}]


FitsPrompt = Callable[[list[prompts.Message]], bool]


def fit(candidates: Sequence[Callable[[], list[prompts.Message]]], fits: FitsPrompt) -> list[prompts.Message]:
    """Return the first of several renderings of a prompt, richest first, that fits; the last one in any case."""
    for candidate in candidates[:-1]:
        messages = candidate()
        if fits(messages):
            return messages
    return candidates[-1]()
