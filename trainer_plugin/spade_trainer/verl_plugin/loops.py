"""The agent loops: `spade_designer` fills one slot with a program and its hint, `spade_player` plays one episode.

They run in verl's agent-loop workers, many at once. A loop returns what it did beside the tokens, under
`extra_fields["spade"]`; rewards of programs, the registry and every decision are the trainer's. A loop that raised would
silently shrink its group, so whatever a model or a program does ends in a row with an outcome.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register

from spade_envs.contract import Program
from spade_envs.episode import Episode
from spade_envs.sandbox import default_pool
from spade_trainer import prompts
from spade_trainer.config import SpadeConfig
from spade_trainer.design import Job, Reply, design
from spade_trainer.generation.generator import Answer
from spade_trainer.method.seeding import derive
from spade_trainer.plays import PLAYER, complete
from spade_trainer.toolcalls import contract_text, without_thinking
from spade_trainer.verl_plugin.dialogue import ContextFull, Dialogue


@register("spade_designer")
class DesignerLoop(AgentLoopBase):
    """One output per program written; the last output carries the whole design."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:  # type: ignore[override]
        """Fill the slot that `row["job"]` describes."""
        data = row["job"]
        job = Job(**data["job"])
        config = SpadeConfig.from_mapping(data["config"]).designer
        dialogues: list[Dialogue] = []

        async def ask(
            messages: Sequence[prompts.Message], *, purpose: str, temperature: float, max_tokens: int, seed: int
        ) -> Reply:
            dialogue = Dialogue(self, sampling_params)
            try:
                dialogue.open(messages)
                reply = await dialogue.answer(temperature=temperature, max_tokens=max_tokens, seed=seed)
            except ContextFull:
                dialogue, reply = await Dialogue.placeholder(self, sampling_params), Reply("", cut=True)
            if purpose == "program":
                dialogues.append(dialogue)
            return reply

        result = await design(job, ask, config, default_pool())
        outputs = [
            dialogue.output(0.0, 2, {"role": "designer", "slot": job.slot, "attempt": number, "design": None})
            for number, dialogue in enumerate(dialogues, start=1)
        ]
        outputs[-1].extra_fields["spade"]["design"] = result.to_dict()
        return outputs


@register("spade_player")
class PlayerLoop(AgentLoopBase):
    """One output: the play."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:  # type: ignore[override]
        """Play the environment that `row["job"]` describes, from the seed of this session."""
        job, number = row["job"], int(row["session_id"])
        play = _Play(self, sampling_params, job, number)
        return [await play.run()]


class _Play:
    """One episode."""

    def __init__(self, loop: AgentLoopBase, sampling: dict[str, Any], job: dict[str, Any], number: int):
        self.loop, self.sampling = loop, sampling
        self.dialogue = Dialogue(loop, sampling)
        self.job = job
        self.number = number
        self.seed = job["seeds"][number]
        self.program = Program.from_source(job["source"])

    async def run(self) -> AgentLoopOutput:
        begin = time.monotonic()
        loaded = await asyncio.to_thread(default_pool().load, self.program)
        episode = Episode(loaded, max_turns=self.job["max_turns"])
        try:
            observation = await asyncio.to_thread(episode.reset, self.seed)
            if episode.done:
                await self._say_something()
            else:
                await self._episode(episode, observation)
            return self._output(episode, time.monotonic() - begin)
        finally:
            await asyncio.to_thread(episode.close)

    async def _episode(self, episode: Episode, observation: str) -> None:
        tools = tuple((episode.info or {}).get("tools") or ()) if self.program.kind == "tool_use" else ()
        try:
            self.dialogue.open(self._opening(tools, observation))
            while not episode.done:
                reply = await self._answer(episode.turns)
                if reply.cut and not complete(Answer(reply.text, "length")):
                    episode.cut()
                    return
                action = contract_text(reply.text, (), tools) if tools else without_thinking(reply.text)
                observation = await asyncio.to_thread(episode.step, action)
                if not episode.done:
                    self.dialogue.show(observation)
        except ContextFull:
            episode.cut()
            if not self.dialogue.spoken:
                await self._say_something()

    def _opening(self, tools: tuple[Any, ...], observation: str) -> list[prompts.Message]:
        variables: dict[str, Any] = {"hint": self.job["hint"]}
        if tools:
            variables["tools"] = tools
        system = prompts.render(PLAYER[self.program.kind], variant=self.job["variant"], **variables)
        return [*system, {"role": "user", "content": observation}]

    async def _answer(self, turn: int) -> Reply:
        seed = derive(self.job["run_seed"], self.program.sha256, self.seed, bool(self.job["hint"]), self.number, turn)
        return await self.dialogue.answer(
            temperature=self.job["temperature"], max_tokens=self.job["max_tokens"], seed=seed
        )

    async def _say_something(self) -> None:
        self.dialogue = await Dialogue.placeholder(self.loop, self.sampling)

    def _output(self, episode: Episode, seconds: float) -> AgentLoopOutput:
        kept = self.number < self.job["transcripts"]
        record = {
            "role": "player",
            "environment": self.job["environment"],
            "hinted": self.job["hint"] is not None,
            "seed": self.seed,
            "ret": float(episode.ret),
            "outcome": episode.outcome,
            "turns": episode.turns,
            "tokens": self.dialogue.spoken,
            "seconds": seconds,
            "fault": episode.fault,
            "transcript": json.dumps(self.dialogue.messages, ensure_ascii=False) if kept else None,
        }
        return self.dialogue.output(episode.ret, 2 * episode.turns, record)
