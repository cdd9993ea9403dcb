"""`SpadeEnv`: one program as a Gymnasium environment, played in a sealed worker."""

from __future__ import annotations

from typing import Any

import gymnasium

from spade_envs.contract import MAX_ACTION, MAX_OBSERVATION, Program
from spade_envs.episode import Episode
from spade_envs.sandbox import Pool, default_pool
from spade_envs.sandbox.pool import MAX_SEED
from spade_envs.sources import Record, resolve
from spade_envs.spaces import UnicodeText

_trusted_pool: Pool | None = None


def trusted_pool() -> Pool:
    """The pool of this process for programs that run without isolation."""
    global _trusted_pool
    if _trusted_pool is None:
        _trusted_pool = Pool(trusted=True)
    return _trusted_pool


def find(program_or_id: Program | Record | str) -> Record:
    """The record of a program, of an id, or of a record itself."""
    if isinstance(program_or_id, Record):
        return program_or_id
    if isinstance(program_or_id, Program):
        return Record(program_or_id)
    return resolve(program_or_id)


class SpadeEnv(gymnasium.Env[str, str]):
    """A text environment: observations and actions are strings (`UnicodeText`).

    `program_or_id` is a `Program`, a `Record`, or anything that `resolve` takes. `max_turns` limits an episode, and is
    passed to the program's class if it takes it; without one the record's own limit counts, then the program's own.
    With `hint=True` the environment's hint, if it has one, is in `info["hint"]` at reset, and nowhere otherwise.

    A program that fails ends its episode: truncated, reward 0, `info["outcome"]` `"faulty"` or `"timeout"` and the
    reason in `info["fault"]`; after a failed reset, whose observation is empty, the first step is such an end. At the
    end of every episode `info["outcome"]` says how it ended.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # Gymnasium's own declaration

    def __init__(
        self,
        program_or_id: Program | Record | str,
        *,
        max_turns: int | None = None,
        hint: bool = False,
        trusted: bool = False,
        pool: Pool | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            raise ValueError(f"render_mode must be None, not {render_mode!r}: the observation is the whole view")
        if max_turns is not None and max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, not {max_turns}")
        record = find(program_or_id)
        self.program = record.program
        self.skill = record.skill
        self.render_mode = None
        self.observation_space = UnicodeText(MAX_OBSERVATION)
        self.action_space = UnicodeText(MAX_ACTION)
        self._hint = record.hint if hint else None
        limit = max_turns or record.max_turns
        chosen = pool or (trusted_pool() if trusted else default_pool())
        keywords = {"max_turns": limit} if limit else {}
        self._episode = Episode(self.program, max_turns=limit, pool=chosen, program_kwargs=keywords)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Open an episode; without a seed one is drawn from `np_random`. `info["seed"]` says which one counts."""
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(0, MAX_SEED))
        observation = self._episode.reset(seed)
        info = {**self._episode.info, "seed": seed}
        if self._episode.fault is not None:
            info.update(outcome=self._episode.outcome, fault=self._episode.fault)
        if self._hint is not None:
            info["hint"] = self._hint
        return observation, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one action, the agent's whole text; see the class for what a failing program does."""
        if not isinstance(action, str):
            raise TypeError(f"an action must be a str, not {type(action).__name__}")
        episode = self._episode
        failed_at_reset = episode.fault is not None and episode.turns == 0
        observation = "" if failed_at_reset else episode.step(action)
        if not episode.done:
            assert episode.last is not None
            return observation, episode.last.reward, False, False, dict(episode.info)
        info = {**episode.info, "outcome": episode.outcome, "return": episode.ret}
        if episode.fault is not None:
            return observation, 0.0, False, True, {**info, "fault": episode.fault}
        assert episode.last is not None
        terminated = episode.last.terminated
        return observation, episode.last.reward, terminated, not terminated, info

    def close(self) -> None:
        """Give the instance back to its pool."""
        self._episode.close()

    def __repr__(self) -> str:
        return f"SpadeEnv({self.program.id})"
