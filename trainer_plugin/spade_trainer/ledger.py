"""The run and its registry: what a step reads from it before, and writes to it, in one transaction, after.

Only the trainer's driver process has a ledger. Designs are asked for with what the registry remembers of earlier ones;
replays are drawn from it; a finished step is committed with its programs, hints, plays, measurements and metrics, so that
a process that is killed leaves whole steps only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from spade_envs.sources import Record
from spade_envs.starters import records as starters
from spade_registry.registry import Registry
from spade_trainer import prompts
from spade_trainer.config import SpadeConfig
from spade_trainer.corpus import Corpus, Document, open_corpus
from spade_trainer.design import DESIGNER_PROMPT, Design, FitsPrompt, Job, fit
from spade_trainer.external import write_designs
from spade_trainer.method.seeding import derive, generator
from spade_trainer.recording import played, starter, written
from spade_trainer.rounds import Environment, Played

TASKS = ("execute", "read_then_write", "missing_value", "irrelevant_request")
"""Variants of tool-use tasks (`templates/default/designer_tool_use.j2`); slots take turns at them."""


class Ledger:
    """The registry as one run sees it.

    Args:
        config: the method's configuration.
        model: name of the model that designs and plays.
    """

    def __init__(self, config: SpadeConfig, model: str):
        self.config = config
        self.model = model
        self.run: int = config.run or 0
        self._registry: Registry | None = None
        self._corpus: Corpus | None = None
        self._sampler: Any = None
        self._starters: list[Record] = []

    @property
    def registry(self) -> Registry:
        """The open registry."""
        if self._registry is None:
            self._registry = Registry.open(self.config.registry)
        return self._registry

    def begin(self, configuration: Mapping[str, Any], step: int, state: Mapping[str, Any] | None) -> None:
        """Begin the run, or continue it after `step`: whatever it wrote later is taken back."""
        if state is not None:
            self.run = state["run"]
        elif not self.run:
            self.run = self.registry.start_run(self.config.preset, dict(configuration), self.config.directory)
        self.registry.rollback_run(self.run, step)
        self._sampler = self.registry.replay(score=self.config.replay.score, seed=derive(self.config.seed, "replay"))
        if state is not None:
            self._sampler.load_state_dict(state["sampler"])
        if self.config.corpus.enabled:
            self._corpus = open_corpus(self.config.corpus.path, registry=self.registry)

    def state_dict(self) -> dict[str, Any]:
        """Return what `begin` needs to continue."""
        return {"run": self.run, "sampler": self._sampler.state_dict()}

    # -- reading -------------------------------------------------------------------------------------------------

    def jobs(self, step: int, skills: Sequence[str], fits: FitsPrompt) -> list[Job]:
        """Return one job per slot, each with a document and memory excerpts of its own, in a prompt that fits."""
        rng = generator(self.config.seed, "designs", step)
        documents: list[Document | None] = [None] * len(skills)
        if self._corpus is not None:
            documents = list(self._corpus.sample(len(skills), rng, max_words=self.config.corpus.max_words))
        return [
            self._job(slot, step, skill, document, rng, fits)
            for slot, (skill, document) in enumerate(zip(skills, documents, strict=True))
        ]

    def _job(self, slot: int, step: int, skill: str, document: Document | None, rng: Any, fits: FitsPrompt) -> Job:
        seeds: list[Any] = []
        negatives: list[Any] = []
        memory = self.config.memory
        if memory.enabled:
            found = self.registry.memory(
                skill, memory.seeds, memory.negatives, rng, run=self.run, capacity=memory.capacity
            )
            seeds, negatives = list(found.seeds), list(found.negatives)
        template = DESIGNER_PROMPT[self.config.kind]
        render = partial(
            prompts.render,
            template,
            variant=self.config.prompts,
            skill=skill,
            negatives=negatives,
            max_turns=self.config.designer.max_turns,
            task=TASKS[(step + slot) % len(TASKS)],
        )
        # Whole programs or none: what does not fit is left out, examples first, then the end of the document.
        choices = [(document, seeds[:n]) for n in range(len(seeds), -1, -1)]
        if document is not None:
            words = len(document.text.split())
            choices += [(document.shortened(max(1, words // 4**n)), []) for n in (1, 2, 3)] + [(None, [])]
        shown: list[tuple[Document | None, list[Any]]] = []

        def rendering(choice: tuple[Document | None, list[Any]]) -> list[prompts.Message]:
            shown.append(choice)
            return render(document=choice[0], seeds=choice[1])

        messages = fit([partial(rendering, choice) for choice in choices], fits)
        used, examples = shown[-1]
        return Job(
            slot,
            skill,
            messages,
            derive(self.config.seed, "design", step, slot),
            kind=self.config.kind,
            variant=self.config.prompts,
            prompt_version=prompts.version(template, self.config.prompts),
            document=None if used is None else {"sha256": used.sha256, "title": used.title, "text": used.text},
            parents=tuple(seed.id for seed in examples),
        )

    def replays(self, step: int, n: int, exclude: Sequence[str]) -> list[Environment]:
        """Return up to `n` environments to play again; a registry that has too few yet gives way to the starters."""
        if n <= 0:
            return []
        chosen: list[str] = []
        if self.registry.measured() >= self.config.replay.min_fill:
            chosen = self._sampler.sample(n, exclude=exclude)
        found = [self.registry.get(one) for one in chosen]
        taken = {*exclude, *chosen}
        spare = [one for one in starters() if one.program.kind == self.config.kind and one.program.id not in taken]
        order = generator(self.config.seed, "starters", step).permutation(len(spare))[: n - len(found)]
        self._starters = [spare[i] for i in order]
        return [_environment(one) for one in (*found, *self._starters) if one is not None]

    def external_designs(self, jobs: Sequence[Job]) -> list[Design]:
        """Have the jobs done by the external designer."""
        return asyncio.run(write_designs(jobs, self.config.designer))

    # -- writing -------------------------------------------------------------------------------------------------

    def commit(
        self,
        step: int,
        designs: Sequence[tuple[Job, Design]],
        plays: Sequence[Played],
        metrics: Mapping[str, Any],
    ) -> None:
        """Write a finished step."""
        numbers = {
            name: float(value) for name, value in metrics.items() if isinstance(value, int | float) and value == value
        }
        new = written(self.run, step, self.model, designs)
        new += [starter(one.program, one.skill, one.hint, one.max_turns) for one in self._starters]
        self._starters = []
        self.registry.commit_round(
            self.run, step, environments=new, plays=played(self.run, step, self.model, plays), metrics=numbers
        )


def _environment(record: Record) -> Environment:
    program = record.program
    return Environment(program.id, program.source, record.skill or "", record.hint, record.max_turns, fresh=False)
