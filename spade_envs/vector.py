"""`SpadeVectorEnv`: many instances of one program, stepped with one message each way.

Autoreset is Gymnasium 1.x's NEXT_STEP: the step after the end of an episode resets that sub-environment, ignores its
action, and returns reward 0. Sub-environment `i` behaves as a single `SpadeEnv` that was reset with seed `seed + i`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from spade_envs.contract import MAX_ACTION, MAX_OBSERVATION, Program
from spade_envs.env import find, trusted_pool
from spade_envs.episode import Episode, reset_all, step_all
from spade_envs.sandbox import Pool, default_pool
from spade_envs.sandbox.pool import MAX_SEED
from spade_envs.sources import Record
from spade_envs.spaces import UnicodeText

SHARED_MEMORY = (
    "shared memory cannot hold text of any length, and Gymnasium's AsyncVectorEnv would return constants in its place; "
    "leave it out here (this vector environment needs none), or pass shared_memory=False to AsyncVectorEnv"
)

Texts = tuple[str, ...]


class SpadeVectorEnv(VectorEnv[Texts, Texts, NDArray[Any]]):
    """`num_envs` instances of one program in one sealed worker.

    Observations are a tuple of `num_envs` strings; rewards are float64, terminations and truncations bool, each of
    shape `(num_envs,)`. `program_or_id`, `max_turns`, `hint`, `trusted` and `pool` are those of `SpadeEnv`.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  # Gymnasium's form

    def __init__(
        self,
        program_or_id: Program | Record | str,
        num_envs: int = 1,
        *,
        max_turns: int | None = None,
        hint: bool = False,
        trusted: bool = False,
        pool: Pool | None = None,
        render_mode: str | None = None,
        shared_memory: bool = False,
    ) -> None:
        if shared_memory:
            raise ValueError(SHARED_MEMORY)
        if render_mode is not None:
            raise ValueError(f"render_mode must be None, not {render_mode!r}: the observation is the whole view")
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, not {num_envs}")
        record = find(program_or_id)
        self.program = record.program
        self.num_envs = num_envs
        self.render_mode = None
        self.single_observation_space = UnicodeText(MAX_OBSERVATION)
        self.single_action_space = UnicodeText(MAX_ACTION)
        self.observation_space = spaces.Tuple([UnicodeText(MAX_OBSERVATION) for _ in range(num_envs)])
        self.action_space = spaces.Tuple([UnicodeText(MAX_ACTION) for _ in range(num_envs)])
        self._hint = record.hint if hint else None
        limit = max_turns or record.max_turns
        loaded = (pool or (trusted_pool() if trusted else default_pool())).load(self.program)
        keywords = {"max_turns": limit} if limit else {}
        self._episodes = [Episode(loaded, max_turns=limit, program_kwargs=keywords) for _ in range(num_envs)]
        self._generators: list[np.random.Generator] = []
        self._ended = np.zeros(num_envs, dtype=np.bool_)
        self._reset_yet = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Texts, dict[str, Any]]:
        """Reset all; an integer seed gives sub-environment `i` the seed `seed + i`, a sequence gives one each."""
        given = self._seeds(seed)
        if not self._generators or seed is not None:
            self._generators = [np.random.Generator(np.random.PCG64(np.random.SeedSequence(one))) for one in given]
        seeds = [self._draw(index) if one is None else int(one) for index, one in enumerate(given)]
        observations = tuple(reset_all(self._episodes, seeds))
        self._ended[:] = False
        self._reset_yet = True
        infos: dict[str, Any] = {}
        for index, one in enumerate(seeds):
            infos = self._add_info(infos, self._opening_info(index, one), index)
        return observations, infos

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)):
            return [int(seed) + index for index in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} seeds, one for each sub-environment, got {len(seed)}")
        return list(seed)

    def _draw(self, index: int) -> int:
        """The seed of a sub-environment's next episode, from its own generator, as `SpadeEnv` draws it."""
        return int(self._generators[index].integers(0, MAX_SEED))

    def _opening_info(self, index: int, seed: int) -> dict[str, Any]:
        episode = self._episodes[index]
        info: dict[str, Any] = {**episode.info, "seed": seed}
        if episode.fault is not None:
            info.update(outcome=episode.outcome, fault=episode.fault)
        if self._hint is not None:
            info["hint"] = self._hint
        return info

    def step(self, actions: Sequence[str]) -> tuple[Texts, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Step the running sub-environments and reset those that ended at the step before."""
        if not self._reset_yet:
            raise ValueError("reset() must be called before step()")
        if len(actions) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} actions, one for each sub-environment, got {len(actions)}")
        wrong = next((action for action in actions if not isinstance(action, str)), None)
        if wrong is not None:
            raise TypeError(f"an action must be a str, not {type(wrong).__name__}")
        observations = [""] * self.num_envs
        infos: dict[str, Any] = {}
        infos = self._restart([index for index in range(self.num_envs) if self._ended[index]], observations, infos)
        live = [i for i in range(self.num_envs) if not self._ended[i] and not self._episodes[i].done]
        texts = step_all([self._episodes[index] for index in live], [actions[index] for index in live])
        for index, text in zip(live, texts, strict=True):
            observations[index] = text
        rewards = np.zeros(self.num_envs, dtype=np.float64)
        terminations = np.zeros(self.num_envs, dtype=np.bool_)
        truncations = np.zeros(self.num_envs, dtype=np.bool_)
        for index in range(self.num_envs):
            if self._ended[index]:
                continue
            rewards[index], terminations[index], truncations[index], info = self._outcome(index)
            if info:
                infos = self._add_info(infos, info, index)
        self._ended = terminations | truncations
        return tuple(observations), rewards, terminations, truncations, infos

    def _restart(self, ended: list[int], observations: list[str], infos: dict[str, Any]) -> dict[str, Any]:
        seeds = [self._draw(index) for index in ended]
        texts = reset_all([self._episodes[index] for index in ended], seeds)
        for index, seed, text in zip(ended, seeds, texts, strict=True):
            observations[index] = text
            infos = self._add_info(infos, self._opening_info(index, seed), index)
        return infos

    def _outcome(self, index: int) -> tuple[float, bool, bool, dict[str, Any]]:
        """Reward, terminated, truncated and info of the step that sub-environment `index` has just played."""
        episode = self._episodes[index]
        if not episode.done:
            assert episode.last is not None
            return episode.last.reward, False, False, dict(episode.info)
        info = {**episode.info, "outcome": episode.outcome, "return": episode.ret}
        if episode.fault is not None:
            return 0.0, False, True, {**info, "fault": episode.fault}
        assert episode.last is not None
        terminated = episode.last.terminated
        return episode.last.reward, terminated, not terminated, info

    def close_extras(self, **kwargs: Any) -> None:
        """Give the instances back to their pool."""
        for episode in self._episodes:
            episode.close()
