"""How hard are environments for a model? Both arms on the same seeds, many environments at once, into the registry.

A measuring run is one row of `runs` for one policy and one way of playing (sampling, turns, prompts): the same model
asked again, about the same or other environments, continues that row, and plays that it holds are not played again. A
play at another temperature or with another prompt belongs to another row and is never mixed in.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from spade_envs.contract import Program
from spade_envs.errors import SpadeError
from spade_envs.sandbox import Pool
from spade_envs.sources import Record, resolve
from spade_registry import Measurement, Origin, Play, Registry
from spade_trainer.concurrency import run_all
from spade_trainer.generation.generator import Generator, Sampling
from spade_trainer.plays import PLAYER, Played, Player
from spade_trainer.prompt_sets import PromptSet
from spade_trainer.runs import identity

PRESET = "measure"
STEP = 0
RECORD_SECONDS = 0.5  # plays that a killed process loses at most
MIN_WORKERS = 64  # live programs; a worker is kept while it has plays
FRONTIER = (0.2, 0.8)  # win rates that count as learnable (arXiv 2608.19197, "learnable share")


@dataclass(frozen=True)
class Target:
    """An environment to measure."""

    id: str
    program: Program
    skill: str | None
    hint: str | None
    max_turns: int | None


@dataclass(frozen=True)
class MeasureConfig:
    """What to play, and how."""

    n: int = 16
    """Plays per arm (G of the method)."""
    seed: int = 0
    """The plays' seeds are seed, seed + 1, ... in both arms."""
    max_turns: int = 25
    """Turn limit of a play; a program's own lower limit counts first."""
    concurrency: int = 16
    """Plays at once."""
    transcripts: int = 2
    """Plays per environment and arm whose conversation is stored."""
    sampling: Sampling = field(default_factory=Sampling)
    prompts: PromptSet = field(default_factory=PromptSet)


@dataclass(frozen=True)
class Job:
    """One play that is missing."""

    target: Target
    seed: int
    hinted: bool
    keep: bool
    """Whether its conversation is stored."""


@dataclass
class Progress:
    """What a measuring run has done, for display."""

    planned: int
    reused: int = 0
    """Plays that the registry held already."""
    done: int = 0
    prompt_tokens: int = 0
    tokens: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def add(self, played: Played) -> None:
        """Count a play."""
        self.done += 1
        self.prompt_tokens += played.prompt_tokens
        self.tokens += played.tokens
        self.outcomes[played.outcome] += 1

    def line(self) -> str:
        """Describe it in one line."""
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))
        reused = f", {self.reused} already recorded" if self.reused else ""
        return (
            f"{self.done + self.reused}/{self.planned} plays{reused}"
            + (f" ({outcomes})" if outcomes else "")
            + f"; {self.prompt_tokens} prompt tokens, {self.tokens} written tokens"
        )


@dataclass(frozen=True)
class Measured:
    """The result for one model."""

    policy: str
    run: int
    measurements: dict[str, Measurement]
    """By environment."""
    progress: Progress


def select(
    registry: Registry, queries: Sequence[str], *, everything: bool = False, skill: str | None = None
) -> list[Target]:
    """Return what to measure, each program once.

    `queries` are ids, hash prefixes or names that any source knows; `everything` takes the accepted environments of the
    registry, of one `skill` if given. Programs that the registry lacks are added, because plays belong to a row of it.
    Raises `SpadeError` for an unknown environment or an empty choice, before anything is written.
    """
    if everything == bool(queries):
        raise SpadeError("name the environments to measure, or give --all for those of the registry")
    if skill is not None and not everything:
        raise SpadeError("--skill narrows --all; it has no meaning beside named environments")
    records = _all(registry, skill) if everything else [_find(registry, query) for query in queries]
    if not records:
        of_skill = f" of the skill {skill!r}" if skill else ""
        raise SpadeError(f"the registry {registry.path} holds no accepted environment{of_skill}; `design` makes some")
    unique = {record.program.id: record for record in records}
    for record in unique.values():
        _ensure(registry, record)
    return [Target(key, r.program, r.skill, r.hint, r.max_turns) for key, r in unique.items()]


def _find(registry: Registry, query: str) -> Record:
    """Return the registry's record of a query, which has its hint and skill, or another source's."""
    return registry.get(query) or resolve(query)


def _all(registry: Registry, skill: str | None) -> list[Record]:
    return [record for record in registry.records(status="accepted") if skill in (None, record.skill)]


def _ensure(registry: Registry, record: Record) -> None:
    if registry.get(record.program.id) is None:
        registry.add(
            record.program,
            skill=record.skill,
            max_turns=record.max_turns,
            hint=record.hint,
            license=record.license,
            origin=Origin(import_source=str(record.metadata.get("source", "measure"))),
        )


class Recorder:
    """Writes plays in batches, as every transaction waits for the disk; what it holds is written when it is left."""

    def __init__(self, registry: Registry):
        self._registry = registry
        self._plays: list[Play] = []
        self._written = time.monotonic()

    def add(self, play: Play) -> None:
        """Take a play, and write what has gathered if the last time was a while ago."""
        self._plays.append(play)
        if time.monotonic() - self._written >= RECORD_SECONDS:
            self._write()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()

    def _write(self) -> None:
        plays, self._plays = self._plays, []
        if plays:
            self._registry.record_plays(plays)
        self._written = time.monotonic()


class Measuring:
    """One model's measuring run over some targets."""

    def __init__(self, registry: Registry, generator: Generator, targets: Sequence[Target], config: MeasureConfig):
        self.registry, self.generator, self.targets, self.config = registry, generator, targets, config
        config.prompts.check(*{PLAYER[target.program.kind] for target in targets})

    async def run(self, on_play: Callable[[Progress], None] | None = None) -> Measured:
        """Play what is missing and return the measurements.

        Interrupted or failed, it leaves every finished play in the registry. Raises `SpadeError`.
        """
        run = self._run()
        jobs = list(self._missing(run))
        planned = self.config.n * sum(2 if target.hint else 1 for target in self.targets)
        progress = Progress(planned=planned, reused=planned - len(jobs))
        if jobs:
            await self.generator.prepare()
            await self._play_all(run, jobs, progress, on_play)
        measurements = {target.id: self.registry.measure(target.id, run, STEP) for target in self.targets}
        self.registry.finish_run(run, "finished")
        return Measured(self.generator.name, run, measurements, progress)

    async def _play_all(
        self, run: int, jobs: Sequence[Job], progress: Progress, on_play: Callable[[Progress], None] | None
    ) -> None:
        player = Player(self.generator, self.config.sampling, self.config.prompts, self.config.max_turns)
        with Pool(max_workers=max(MIN_WORKERS, self.config.concurrency)) as pool:

            async def work(job: Job) -> None:
                hint = job.target.hint if job.hinted else None
                played = await player.play(job.target.program, pool, seed=job.seed, hint=hint)
                recorder.add(self._row(run, job, played))
                progress.add(played)
                if on_play is not None:
                    on_play(progress)

            with Recorder(self.registry) as recorder:
                await run_all(jobs, work, self.config.concurrency)

    def identity(self) -> dict[str, Any]:
        """Return what makes two plays of one environment comparable; it is stored with the run."""
        config = self.config
        prompts = {name: config.prompts.version(name) for name in PLAYER.values() if name in config.prompts.names()}
        return {
            "policy": self.generator.name,
            "temperature": config.sampling.temperature,
            "top_p": config.sampling.top_p,
            "max_tokens": config.sampling.max_tokens,
            "max_turns": config.max_turns,
            "prompts": prompts,
        }

    def _run(self) -> int:
        """Continue the row of this policy and way of playing, or start it."""
        config = self.identity()
        found = self.registry.latest_run(PRESET, identity(config), None)
        return found.id if found else self.registry.start_run(PRESET, {"hash": identity(config), **config}, None)

    def _missing(self, run: int) -> Iterator[Job]:
        for target in self.targets:
            played = self._played(run, target)
            for i in range(self.config.n):
                for hinted in (False, True) if target.hint else (False,):
                    if (self.config.seed + i, hinted) not in played:
                        yield Job(target, self.config.seed + i, hinted, keep=i < self.config.transcripts)

    def _played(self, run: int, target: Target) -> set[tuple[int, bool]]:
        """Return seed and arm of the plays that the run has of a target; those with another hint do not count."""
        rows = self.registry.connection().execute(
            "SELECT p.seed, p.hint IS NOT NULL FROM plays AS p JOIN environments AS e ON e.id = p.environment "
            "LEFT JOIN hints AS h ON h.id = p.hint "
            "WHERE e.env_id = ? AND p.run = ? AND (p.hint IS NULL OR h.text = ?)",
            (target.id, run, target.hint),
        )
        return {(seed, bool(hinted)) for seed, hinted in rows}

    def _row(self, run: int, job: Job, played: Played) -> Play:
        return Play(
            environment=job.target.id,
            run=run,
            step=STEP,
            policy=self.generator.name,
            seed=job.seed,
            hinted=job.hinted,
            ret=played.ret,
            outcome=played.outcome,
            turns=played.turns,
            tokens=played.tokens,
            seconds=played.seconds,
            transcript=played.transcript if job.keep else None,
            fault=played.fault,
        )
