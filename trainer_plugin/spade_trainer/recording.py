"""A finished step as records of the registry: programs with their origins, checks and hints, and plays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spade_envs.contract import Program
from spade_registry.rows import Check, NewEnvironment, Origin, Play
from spade_trainer import prompts
from spade_trainer.design import Attempt, Design, Job
from spade_trainer.rounds import Played

STARTERS = "starters"


def written(run: int, step: int, model: str, designs: Iterable[tuple[Job, Design]]) -> list[NewEnvironment]:
    """Return every program that was written at a step, accepted or rejected; a cut answer is no program."""
    return [
        _program(run, step, model, job, result, attempt)
        for job, result in designs
        for attempt in result.attempts
        if not attempt.cut
    ]


def _program(run: int, step: int, model: str, job: Job, result: Design, attempt: Attempt) -> NewEnvironment:
    origin = Origin(
        run=run,
        step=step,
        attempt=attempt.number,
        designer=model,
        checkpoint=f"{model}@{step - 1}",
        document=job.document,
        parents=job.parents,
        prompt_version=job.prompt_version,
    )
    hint = result.hint if attempt.accepted else None
    return NewEnvironment(
        program=attempt.source,
        skill=job.skill,
        status="accepted" if attempt.accepted else "rejected",
        status_reason=None if attempt.accepted else f"{attempt.stage}: {attempt.message}",
        max_turns=attempt.max_turns,
        hint=hint,
        hint_author=model if hint else None,
        hint_prompt_version=prompts.version("hint_game", job.variant) if hint else None,
        origin=origin,
        checks=[Check(**check) for check in attempt.checks],
        observation=attempt.observation,
    )


def starter(program: Program, skill: str | None, hint: str | None, max_turns: int | None) -> NewEnvironment:
    """Return a starter program as an environment of the registry, so that its plays can be stored."""
    return NewEnvironment(
        program, skill, max_turns=max_turns, hint=hint, origin=Origin(import_source=STARTERS), license="Apache-2.0"
    )


def played(run: int, step: int, model: str, plays: Sequence[Played]) -> list[Play]:
    """Return the plays of a step; the policy is the model with the weights of the step before."""
    return [
        Play(
            environment=play.environment,
            run=run,
            step=step,
            policy=f"{model}@{step - 1}",
            seed=play.result.seed,
            hinted=play.hinted,
            ret=play.result.ret,
            outcome=play.result.outcome,  # type: ignore[arg-type]
            turns=play.turns,
            tokens=play.tokens,
            seconds=play.seconds,
            transcript=play.transcript,
            fault=play.fault,
        )
        for play in plays
    ]
