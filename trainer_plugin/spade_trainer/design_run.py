"""Environments from a model and a corpus: slots that are filled, each with up to `attempts` programs, into the
registry.

A design run is one row of `runs`, and a slot is one step of it. A slot's program is written, repaired, put through the
gate, given a hint, the hint checked for leaks, and the slot is stored in one transaction with all its rejects, as soon
as it is settled. An interrupted run therefore holds whole slots only, and the same command continues with the open
ones. The skill, task and document of a slot follow from the run's number and the slot alone, so a continued run asks
what the uninterrupted one would have asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from spade_envs.contract import Program
from spade_envs.errors import SpadeError
from spade_envs.sandbox import Pool
from spade_registry import Check, NewEnvironment, Origin, Registry
from spade_trainer.concurrency import run_all
from spade_trainer.config import GAME_SKILLS, TOOL_USE_SKILLS
from spade_trainer.corpus import Corpus, Document
from spade_trainer.design import Attempt, Design, Job
from spade_trainer.designer import DESIGNER, DUPLICATE, HINT, REPAIR, Designer, Usage
from spade_trainer.generation.generator import ContextOverflow, Generator, Sampling
from spade_trainer.method import seeding
from spade_trainer.prompt_sets import PromptSet
from spade_trainer.runs import identity

Kind = Literal["game", "tool_use"]
PRESET = "design"
SKILLS: Mapping[str, Sequence[str]] = {"game": GAME_SKILLS, "tool_use": TOOL_USE_SKILLS}
TASKS = ("execute", "read_then_write", "missing_value", "irrelevant_request")
"""Variants of tool-use tasks; slots take turns at them."""
GATE_SLOTS = 2  # programs in the gate at once: each may keep a core busy
MAX_WORDS = 6000  # of a document (arXiv 2608.19197, section 3)


@dataclass(frozen=True)
class DesignConfig:
    """What to design, and how. Defaults are those of the method where it has one (`config.DesignerConfig`)."""

    kind: Kind = "game"
    skills: Sequence[str] = GAME_SKILLS
    tasks: Sequence[str] = TASKS
    n: int = 8
    """Slots: environments wanted."""
    attempts: int = 5
    """Programs written per slot until one is accepted."""
    repair_turns: int = 1
    """How often a rejected program is sent back with the gate's message before a fresh try."""
    hint_attempts: int = 2
    max_turns: int = 25
    """Turn limit that programs are asked for; 1 asks for single-turn games."""
    seed: int = 0
    memory_seeds: int = 2
    memory_negatives: int = 1
    sampling: Sampling = field(default_factory=lambda: Sampling(0.6, 16384))
    hint_sampling: Sampling = field(default_factory=lambda: Sampling(0.3, 1024))

    def validate(self) -> None:
        """Raise `SpadeError` for tasks that do not exist or skills given twice."""
        unknown = [task for task in self.tasks if task not in TASKS]
        if unknown:
            raise SpadeError(f"there is no task variant `{unknown[0]}`; the variants are {', '.join(TASKS)}")
        if not self.skills or len(set(self.skills)) != len(self.skills):
            raise SpadeError(f"skills must be named once each, at least one; got {', '.join(self.skills) or 'none'}")


@dataclass(frozen=True)
class Slot:
    """One environment to be."""

    index: int
    """Counts from 0."""
    skill: str
    task: str


@dataclass
class Tally:
    """What a design run has done, over all its starts; the sum of what its slots stored."""

    settled: int = 0
    written: int = 0
    accepted: int = 0
    without_hint: int = 0
    entered: Counter[str] = field(default_factory=Counter)
    """Programs that entered each stage of the gate."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Programs that each stage rejected."""
    prompt_tokens: int = 0
    tokens: int = 0

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Add one slot's figures, as `figures` made them."""
        self.settled += 1
        for name in ("written", "accepted", "without_hint", "prompt_tokens", "tokens"):
            setattr(self, name, getattr(self, name) + int(metrics.get(f"design/{name}", 0)))
        for group, counts in (("entered", self.entered), ("rejected", self.rejected)):
            prefix = f"design/{group}/"
            counts.update({k.removeprefix(prefix): int(v) for k, v in metrics.items() if k.startswith(prefix)})


def figures(design: Design, usage: Usage) -> dict[str, float]:
    """Return a settled slot's figures, for the run's `steps`."""
    entered = Counter(check["stage"] for attempt in design.attempts for check in attempt.checks)
    rejected = Counter(attempt.stage for attempt in design.attempts if attempt.stage)
    return {
        "design/written": len(design.attempts),
        "design/accepted": int(design.accepted is not None),
        "design/without_hint": int(design.accepted is not None and design.hint is None),
        "design/prompt_tokens": usage.prompt_tokens,
        "design/tokens": usage.tokens,
        **{f"design/entered/{stage}": count for stage, count in entered.items()},
        **{f"design/rejected/{stage}": count for stage, count in rejected.items()},
    }


class Designing:
    """A design run over its open slots."""

    def __init__(
        self,
        registry: Registry,
        generator: Generator,
        corpus: Corpus | None,
        prompts: PromptSet,
        config: DesignConfig,
        *,
        fresh: bool = False,
    ):
        config.validate()
        prompts.check(DESIGNER[config.kind], HINT[config.kind], *([REPAIR] if REPAIR in prompts.names() else []))
        self.registry, self.generator, self.corpus = registry, generator, corpus
        self.prompts, self.config, self.fresh = prompts, config, fresh
        self.tally = Tally()
        self.environments: list[str] = []
        """Ids of what this start has added, in order of their slots' settling."""
        self._taken: set[str] = set()

    async def run(self, concurrency: int = 8, on_slot: Callable[[Slot, Design], None] | None = None) -> Tally:
        """Fill the open slots of the unfinished run with these settings, or of a new one.

        Interrupted or failed, it leaves every settled slot in the registry and the run unfinished. Raises `SpadeError`.
        """
        await self.generator.prepare()
        run, slots = self._open()
        with Pool() as pool:
            designer = self._designer(pool)

            async def work(slot: Slot) -> None:
                usage = Usage()
                job, design = await self._fill(designer, run, slot, usage)
                self._store(run, job, design, figures(design, usage))
                if on_slot is not None:
                    on_slot(slot, design)

            await run_all(slots, work, concurrency)
        self.registry.finish_run(run, "finished")
        return self.tally

    async def _fill(self, designer: Designer, run: int, slot: Slot, usage: Usage) -> tuple[Job, Design]:
        """Fill a slot with the richest prompt that the model's context takes."""
        jobs = list(self._jobs(run, slot))
        for job in jobs[:-1]:
            try:
                return job, await designer.fill(job, usage)
            except ContextOverflow:
                continue
        return jobs[-1], await designer.fill(jobs[-1], usage)

    def identity(self) -> dict[str, Any]:
        """Return what was asked for: the same identity continues an unfinished run. It is stored with the run."""
        config = self.config
        prompts = {name: self.prompts.version(name) for name in (DESIGNER[config.kind], HINT[config.kind])}
        return {
            "designer": self.generator.name,
            "corpus": self.corpus.name if self.corpus else None,
            "prompts": prompts,
            "kind": config.kind,
            "skills": list(config.skills),
            "tasks": list(config.tasks) if config.kind == "tool_use" else [],
            "n": config.n,
            "attempts": config.attempts,
            "repair_turns": config.repair_turns,
            "max_turns": config.max_turns,
            "seed": config.seed,
            "temperature": config.sampling.temperature,
            "max_tokens": config.sampling.max_tokens,
        }

    def _open(self) -> tuple[int, list[Slot]]:
        """Return the run's number and its open slots; what settled slots stored is added to the tally."""
        config = self.identity()
        found = None if self.fresh else self.registry.latest_run(PRESET, identity(config), "running")
        if found is None:
            run = self.registry.start_run(PRESET, {"hash": identity(config), **config}, None)
            return run, list(self._slots())
        settled = {step.step: step.metrics for step in self.registry.steps(found.id)}
        for metrics in settled.values():
            self.tally.add(metrics)
        return found.id, [slot for slot in self._slots() if slot.index not in settled]

    def _slots(self) -> Iterator[Slot]:
        skills, tasks = self.config.skills, self.config.tasks
        for i in range(self.config.n):
            yield Slot(i, skills[i % len(skills)], tasks[(i // len(skills) + i) % len(tasks)])

    def _jobs(self, run: int, slot: Slot) -> Iterator[Job]:
        """Yield the slot's job, richest prompt first: examples go first, then the end of the document."""
        rng = seeding.generator("design", self.config.seed, run, slot.index)
        document = self.corpus.sample(1, rng, max_words=MAX_WORDS)[0] if self.corpus is not None else None
        memory = self.registry.memory(slot.skill, self.config.memory_seeds, self.config.memory_negatives, rng)
        choices = [(document, list(memory.seeds))] + ([(document, [])] if memory.seeds else [])
        if document is not None:
            words = len(document.text.split())
            choices += [(document.shortened(max(1, words // cut)), []) for cut in (4, 16)]
        for shown, seeds in choices:
            yield self._job(run, slot, shown, seeds, list(memory.negatives))

    def _job(
        self, run: int, slot: Slot, document: Document | None, seeds: Sequence[Any], negatives: Sequence[Any]
    ) -> Job:
        name = DESIGNER[self.config.kind]
        messages = self.prompts.render(
            name,
            skill=slot.skill,
            task=slot.task,
            document=document,
            seeds=seeds,
            negatives=negatives,
            max_turns=self.config.max_turns,
        )
        return Job(
            slot.index,
            slot.skill,
            messages,
            seeding.derive("design", self.config.seed, run, slot.index),
            prompt_version=self.prompts.version(name),
            document=None
            if document is None
            else {"sha256": document.sha256, "title": document.title, "text": document.text},
            parents=tuple(seed.id for seed in seeds),
        )

    def _designer(self, pool: Pool) -> Designer:
        config = self.config
        return Designer(
            generator=self.generator,
            prompts=self.prompts,
            pool=pool,
            gate_slots=asyncio.Semaphore(GATE_SLOTS),
            kind=config.kind,
            attempts=config.attempts,
            repair_turns=config.repair_turns,
            hint_attempts=config.hint_attempts,
            sampling=config.sampling,
            hint_sampling=config.hint_sampling,
            is_new=self._is_new,
        )

    def _is_new(self, program: Program) -> bool:
        """Tell whether no slot and no earlier run has this program, and reserve it for the slot that asks."""
        known = self.registry.get(program.id)
        if program.sha256 in self._taken or (known is not None and known.metadata.get("status") == "accepted"):
            return False
        self._taken.add(program.sha256)
        return True

    def _store(self, run: int, job: Job, design: Design, metrics: Mapping[str, float]) -> None:
        """Write a settled slot in one transaction."""
        rows = [self._row(run, job, design, attempt) for attempt in design.attempts]
        self.registry.commit_round(run=run, step=job.slot, environments=rows, metrics=metrics)
        self.tally.add(metrics)
        if design.accepted is not None:
            self.environments.append(Program.from_source(design.accepted.source).id)

    def _row(self, run: int, job: Job, design: Design, attempt: Attempt) -> NewEnvironment:
        hint = design.hint if attempt.accepted else None
        return NewEnvironment(
            Program.from_source(attempt.source) if attempt.accepted else attempt.source,
            skill=job.skill,
            status="accepted" if attempt.accepted else "rejected",
            status_reason=None if attempt.accepted else f"{attempt.stage}: {attempt.message}",
            max_turns=attempt.max_turns,
            hint=hint,
            hint_author=self.generator.name if hint else None,
            hint_leak=design.hint_leak if attempt.accepted else None,
            hint_prompt_version=self.prompts.version(HINT[self.config.kind]) if hint else None,
            origin=Origin(
                run=run,
                step=job.slot,
                attempt=attempt.number,
                designer=self.generator.name,
                document=job.document,
                parents=job.parents,
                prompt_version=job.prompt_version,
            ),
            # a duplicate's row is the accepted program's own, whose checks stay as they are
            checks=[] if attempt.stage == DUPLICATE else [Check(**check) for check in attempt.checks],
            observation=attempt.observation,
        )

    def result(self) -> dict[str, Any]:
        """Return the run's outcome as one JSON-able document."""
        tally = self.tally
        return {
            "designer": self.generator.name,
            "registry": str(self.registry.path),
            "slots": tally.settled,
            "written": tally.written,
            "accepted": tally.accepted,
            "without_hint": tally.without_hint,
            "entered": dict(tally.entered),
            "rejected": dict(tally.rejected),
            "tokens": {"prompt": tally.prompt_tokens, "written": tally.tokens},
            "environments": self.environments,
        }
