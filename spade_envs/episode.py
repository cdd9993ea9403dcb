"""One episode of one program: the return law and the outcome, in one place.

`SpadeEnv`, the gate, measuring and the trainer's player loop all play through `Episode`, so that "won", "lost" and
"faulty" mean the same everywhere. The law: an episode's return is the reward of its last step, clipped to [-1, 1], and
0 if the program never terminated it; rewards on the way are progress feedback and are not summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spade_envs.contract import Fault, Outcome, Program, StepResult, clip_return, is_win
from spade_envs.errors import SandboxError
from spade_envs.sandbox import Loaded, Pool, default_pool

DEFAULT_MAX_TURNS = 25
"""Turns of an episode in the method's own runs."""


class Episode:
    """An instance of a program, played one episode at a time.

    Attributes after `reset`: `done`; `turns` played; `ret` the return; `outcome` (None until done); `fault` the message
    of a faulty or timed-out episode; `info` of the last step; `last` the last `StepResult`, None after a fault.
    """

    def __init__(
        self,
        loaded_or_program: Loaded | Program,
        *,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        pool: Pool | None = None,
        program_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if isinstance(loaded_or_program, Program):
            loaded_or_program = (pool or default_pool()).load(loaded_or_program)
        self.loaded = loaded_or_program
        self.max_turns = max_turns
        self._ids = self.loaded.make(1, **(program_kwargs or {}))
        self._closed = False
        self._begin()
        self.done = True  # nothing to play before the first reset

    def _begin(self) -> None:
        self.done = False
        self.turns = 0
        self.outcome: Outcome | None = None
        self.ret = 0.0
        self.fault: str | None = None
        self.info: dict[str, Any] = {}
        self.last: StepResult | None = None

    def reset(self, seed: int) -> str:
        """Open an episode; the seed decides its course. Returns the observation, empty after a fault."""
        return self.receive_reset(self.loaded.reset(self._ids, [seed])[0])

    def step(self, action: str) -> str:
        """Play one action; returns the observation, empty after a fault. The episode may be over afterwards."""
        if self.done:
            raise SandboxError("the episode is over: call reset() before step()")
        return self.receive_step(self.loaded.step(self._ids, [action])[0])

    def receive_reset(self, answer: StepResult | Fault) -> str:
        """Take an answer to a reset that someone else asked for (a batch)."""
        self._begin()
        if isinstance(answer, Fault):
            return self._failed(answer)
        self.last, self.info = answer, answer.info
        return answer.observation

    def receive_step(self, answer: StepResult | Fault) -> str:
        """Take an answer to a step that someone else asked for (a batch)."""
        self.turns += 1
        if isinstance(answer, Fault):
            return self._failed(answer)
        self.last, self.info = answer, answer.info
        if answer.terminated:
            self._finish(clip_return(answer.reward))
        elif answer.truncated or (self.max_turns is not None and self.turns >= self.max_turns):
            self._finish(0.0)
        return answer.observation

    def _finish(self, ret: float) -> None:
        self.ret, self.done = ret, True
        self.outcome = "won" if is_win(ret) else "lost"

    def _failed(self, fault: Fault) -> str:
        self.done, self.ret, self.last, self.info = True, 0.0, None, {}
        self.fault = fault.message
        self.outcome = "timeout" if fault.kind == "timeout" else "faulty"
        return ""

    def cut(self) -> None:
        """End the episode because the agent's text hit its limit before an action was complete."""
        if not self.done:
            self.done, self.ret, self.outcome = True, 0.0, "cut"

    def solution(self) -> str | Fault | None:
        """What the program says its solution is; for the gate and for measuring, never for a player."""
        return self.loaded.solution(self._ids)[0]

    @property
    def ids(self) -> list[int]:
        """The instance's id in `loaded`, in a list."""
        return self._ids

    def close(self) -> None:
        """Give the instance back."""
        if not self._closed:
            self._closed = True
            self.loaded.close(self._ids)

    def __del__(self) -> None:
        if hasattr(self, "_closed"):
            self.close()

    def __enter__(self) -> Episode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reset_all(episodes: Sequence[Episode], seeds: Sequence[int]) -> list[str]:
    """Reset episodes of one `Loaded` with one message; observations in order."""
    if not episodes:
        return []
    answers = episodes[0].loaded.reset([episode.ids[0] for episode in episodes], seeds)
    return [episode.receive_reset(answer) for episode, answer in zip(episodes, answers, strict=True)]


def step_all(episodes: Sequence[Episode], actions: Sequence[str]) -> list[str]:
    """Step episodes of one `Loaded`, none of them done, with one message; observations in order."""
    if not episodes:
        return []
    answers = episodes[0].loaded.step([episode.ids[0] for episode in episodes], actions)
    return [episode.receive_step(answer) for episode, answer in zip(episodes, answers, strict=True)]
