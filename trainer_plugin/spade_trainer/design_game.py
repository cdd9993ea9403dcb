"""The design game as a PettingZoo environment: `designer`, `agent` and `hinted_agent` take turns.

One episode is one design: the designer writes a program and then a hint; the agent and the hinted agent play the
program by turns, both from the same seeds; at the end the designer is paid as the trainer would pay it. Everything that
decides is the trainer's own: the gate, the check of the hint, the seeds, the rewards. Advantages, which compare several
designs, are not part of the game.

Agents observe and act in text. `messages` gives the same conversation as chat messages, for a language model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spade_envs.contract import MAX_ACTION, MAX_OBSERVATION, Program
from spade_envs.episode import Episode
from spade_envs.errors import SpadeError
from spade_envs.sandbox import Loaded, Pool, default_pool
from spade_envs.spaces import UnicodeText
from spade_trainer import prompts
from spade_trainer.config import SpadeConfig
from spade_trainer.corpus import Corpus
from spade_trainer.design import (
    DESIGNER_PROMPT,
    HINT_CHARACTERS,
    HINT_PROMPT,
    Attempt,
    Reply,
    hint_refusal,
    judge_answer,
    refuse_other_kind,
)
from spade_trainer.method import rewards, seeding
from spade_trainer.method.rewards import Result, SkillAverage
from spade_trainer.plays import PLAYER
from spade_trainer.toolcalls import contract_text, without_thinking

try:
    from pettingzoo import AECEnv
except ImportError as error:
    raise SpadeError("the design game needs the extra `multi-agent`: pip install 'spade-envs[multi-agent]'") from error

DESIGNER, AGENT, HINTED = "designer", "agent", "hinted_agent"
AGENTS = (DESIGNER, AGENT, HINTED)
MAX_PROMPT = 1 << 20  # characters of what a designer observes: a prompt with a document and a program
HINT_LABEL = "Hint: "


class Text(str):
    """A text with a dtype, which PettingZoo's `api_test` asks of every observation: the one of its space."""

    dtype = np.dtype(str)


class DesignGame(AECEnv[str, str, str]):
    """One design and its plays.

    Args:
        config: the method's settings; those of verl's side (temperatures, token limits) have no effect here.
        corpus: documents to ground designs; without one, prompts carry none.
        pool: where programs run; default: the pool of this process.

    The designer acts at most `config.designer.attempts` times for a program, then at most
    `config.designer.hint_attempts` times for a hint. Then `config.player.plays` plays follow, of the agent and, where
    there is a hint, of the hinted agent on the first `config.player.hinted_plays` seeds. A player's reward is the
    return of each of its plays, at the play's last action; the designer's comes at the end of the game:
    `method.rewards.designer_reward`, or `config.rejected_reward` when no program was accepted. Nothing is truncated.

    `infos["designer"]` has `phase` (`program`, `hint`, `play`, `over`), `skill`, and, as they become known,
    `environment`, `stage` and `message` of the last rejection, `hint_refused`, and at the end `win_rate`,
    `win_rate_hinted`, `regret` and the number of plays of each outcome. A player's has `play`, `seed` and the `outcome`
    of its last finished play.
    """

    metadata = {"name": "spade_design_game_v0", "render_modes": [], "is_parallelizable": False}  # noqa: RUF012

    def __init__(self, config: SpadeConfig | None = None, *, corpus: Corpus | None = None, pool: Pool | None = None):
        super().__init__()
        self.config = config or SpadeConfig()
        self.config.validate()
        self.possible_agents = list(AGENTS)
        self.render_mode = None
        self._corpus = corpus
        self._pool = pool
        self._loaded: Loaded | None = None
        self._tools: tuple[Any, ...] = ()
        self._episode: Episode | None = None
        self._averages: dict[str, SkillAverage] = {}
        self._rng = np.random.default_rng()
        player = UnicodeText(MAX_OBSERVATION + len(HINT_LABEL) + HINT_CHARACTERS + 2)
        self._observation_spaces = {
            DESIGNER: UnicodeText(MAX_PROMPT),
            AGENT: player,
            HINTED: UnicodeText(player.max_length),
        }
        self._action_spaces = {name: UnicodeText(MAX_ACTION) for name in AGENTS}

    # -- PettingZoo ----------------------------------------------------------------------------------------------

    def observation_space(self, agent: str) -> UnicodeText:
        """Any text; the same object at every call."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> UnicodeText:
        """Any text; the same object at every call."""
        return self._action_spaces[agent]

    def observe(self, agent: str) -> Text:
        """What the agent was shown last: a prompt or a verdict, for a player the environment's text."""
        return self._shown[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game. The seed decides skill, document and plays; `options["skill"]` names a skill."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.close()
        self.agents = list(AGENTS)
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations = dict.fromkeys(AGENTS, False)
        self.truncations = dict.fromkeys(AGENTS, False)
        self.infos: dict[str, dict[str, Any]] = {name: {} for name in AGENTS}
        self._shown = dict.fromkeys(AGENTS, Text())
        self._chats: dict[str, list[prompts.Message]] = {name: [] for name in AGENTS}
        self._attempts: list[Attempt] = []
        self._hints = 0
        self._hint: str | None = None
        self._program: Program | None = None
        self._results: dict[str, list[Result]] = {AGENT: [], HINTED: []}
        self._run = int(self._rng.integers(1 << 31))
        self._skill = (options or {}).get("skill") or str(self._rng.choice(self.config.skills))
        self._document = (
            self._corpus.sample(1, self._rng, max_words=self.config.corpus.max_words)[0] if self._corpus else None
        )
        self.agent_selection = DESIGNER
        self._ask_for_program()

    def step(self, action: str | None) -> None:
        """Take the selected agent's text; None from an agent whose game is over."""
        who = self.agent_selection
        if self.terminations[who]:
            self._was_dead_step(action)
            return
        if not isinstance(action, str) or len(action) > MAX_ACTION:
            raise SpadeError(
                f"an action is a text of at most {MAX_ACTION} characters; {who} gave {type(action).__name__}"
            )
        self._cumulative_rewards[who] = 0.0
        self._clear_rewards()
        self._chats[who].append({"role": "assistant", "content": action})
        if who != DESIGNER:
            self._act(who, action)
        elif self._program is None:
            self._take_program(action)
        else:
            self._take_hint(action)
        self._accumulate_rewards()

    def close(self) -> None:
        """Give the program's instance back to the pool."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None
        self._loaded = None

    def render(self) -> None:
        """Show nothing: the observation is the whole view."""

    # -- for language models -------------------------------------------------------------------------------------

    def messages(self, agent: str) -> list[prompts.Message]:
        """Return the agent's conversation up to its next action, in the form that chat templates take."""
        return list(self._chats[agent])

    # -- designing -----------------------------------------------------------------------------------------------

    def _ask_for_program(self) -> None:
        self._chats[DESIGNER] = prompts.render(
            DESIGNER_PROMPT[self.config.kind],
            variant=self.config.prompts,
            skill=self._skill,
            document=self._document,
            seeds=[],
            negatives=[],
            max_turns=self.config.designer.max_turns,
            task="execute",
        )
        self._show(DESIGNER, self._chats[DESIGNER][-1]["content"])
        self.infos[DESIGNER] = {"phase": "program", "skill": self._skill}

    def _take_program(self, text: str) -> None:
        attempt = judge_answer(Reply(text, cut=False), len(self._attempts) + 1, self._pool)
        refuse_other_kind(attempt, self.config.kind)
        self._attempts.append(attempt)
        if attempt.accepted:
            self._program = Program.from_source(attempt.source)
            self._ask_for_hint()
        elif len(self._attempts) == self.config.designer.attempts:
            self._reject(attempt)
            self._end(self.config.rejected_reward)
        else:
            self._reject(attempt)
            said = f"Not accepted, stage {attempt.stage}: {attempt.message} Write the whole program again."
            self._chats[DESIGNER].append({"role": "user", "content": said})
            self._show(DESIGNER, said)

    def _reject(self, attempt: Attempt) -> None:
        self.infos[DESIGNER] = {**self.infos[DESIGNER], "stage": attempt.stage, "message": attempt.message}

    def _ask_for_hint(self) -> None:
        assert self._program is not None
        self._chats[DESIGNER] = prompts.render(
            HINT_PROMPT[self.config.kind], variant=self.config.prompts, source=self._program.source, skill=self._skill
        )
        self._show(DESIGNER, self._chats[DESIGNER][-1]["content"])
        self.infos[DESIGNER] = {"phase": "hint", "skill": self._skill, "environment": self._program.id}

    def _take_hint(self, text: str) -> None:
        assert self._program is not None
        hint = without_thinking(text).strip()
        refused = hint_refusal(self._program.source, hint, pool=self._pool)
        self._hints += 1
        if refused is None:
            self._hint = hint
        else:
            self.infos[DESIGNER] = {**self.infos[DESIGNER], "hint_refused": refused}
        if refused is None or self._hints == self.config.designer.hint_attempts:
            self.infos[DESIGNER] = {**self.infos[DESIGNER], "phase": "play"}
            self._begin_plays()
        else:
            said = f"Not usable: {refused}. Write another hint."
            self._chats[DESIGNER].append({"role": "user", "content": said})
            self._show(DESIGNER, said)

    # -- playing -------------------------------------------------------------------------------------------------

    def _begin_plays(self) -> None:
        assert self._program is not None
        player = self.config.player
        seeds = seeding.play_seeds(self._run, 0, self._program.id, player.plays)
        hinted = player.hinted_plays if self._hint is not None else 0
        self._queue = [
            (who, seed) for i, seed in enumerate(seeds) for who in (AGENT, HINTED) if who == AGENT or i < hinted
        ]
        self._loaded = (self._pool or default_pool()).load(self._program)
        own = self._attempts[-1].max_turns or player.max_turns
        self._episode = Episode(self._loaded, max_turns=min(player.max_turns, own))
        self._next_play()

    def _next_play(self) -> None:
        """Open the next play, or end the game; a play whose reset fails is over before it begins."""
        assert self._episode is not None
        while self._queue:
            who, seed = self._queue[0]
            observation = self._episode.reset(seed)
            if not self._episode.done:
                self._open(who, seed, observation)
                return
            self._finish_play()
        self._settle()

    def _open(self, who: str, seed: int, observation: str) -> None:
        hint = self._hint if who == HINTED else None
        self._tools = tuple((self._episode.info.get("tools") if self._episode else None) or ())
        variables: dict[str, Any] = {"hint": hint}
        if self.config.kind == "tool_use":
            variables["tools"] = self._tools
        system = prompts.render(PLAYER[self.config.kind], variant=self.config.prompts, **variables)
        self._chats[who] = [*system, {"role": "user", "content": observation}]
        self._show(who, observation if hint is None else f"{HINT_LABEL}{hint}\n\n{observation}")
        self.infos[who] = {**self.infos[who], "play": len(self._results[who]), "seed": seed}
        self.agent_selection = who

    def _act(self, who: str, text: str) -> None:
        assert self._episode is not None
        tools = self._tools if self.config.kind == "tool_use" else ()
        observation = self._episode.step(contract_text(text, (), tools) if tools else without_thinking(text))
        self._show(who, observation)
        self._chats[who].append({"role": "user", "content": observation})
        if self._episode.done:
            self.rewards[who] = self._episode.ret
            self._finish_play()
            self._next_play()

    def _finish_play(self) -> None:
        assert self._episode is not None
        assert self._episode.outcome is not None
        who, seed = self._queue.pop(0)
        self._results[who].append(Result(seed, self._episode.ret, self._episode.outcome))
        self.infos[who] = {**self.infos[who], "outcome": self._episode.outcome}

    # -- rewarding -----------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Pay the designer as the trainer does, and say what was measured."""
        unhinted, hinted = self._results[AGENT], self._results[HINTED]
        outcomes = [result.outcome for result in (*unhinted, *hinted)]
        rate, gap = rewards.win_rate(unhinted), rewards.regret(unhinted, hinted)
        mean, config = rewards.mean_return(unhinted), self.config.reward
        potential = 0.0
        if mean is not None:
            average = self._averages.setdefault(self._skill, SkillAverage())
            potential = average.update(mean, config.ema_fast, config.ema_slow)
        paid = rewards.designer_reward(config, rate=rate, gap=gap, potential=potential, timed_out="timeout" in outcomes)
        self.infos[DESIGNER] = {
            **self.infos[DESIGNER],
            "win_rate": rate,
            "win_rate_hinted": rewards.win_rate(hinted),
            "regret": gap,
            **{outcome: outcomes.count(outcome) for outcome in ("won", "lost", "faulty", "timeout")},
        }
        self._end(paid or 0.0)

    def _end(self, paid: float) -> None:
        self.rewards[DESIGNER] = paid
        self.infos[DESIGNER] = {**self.infos[DESIGNER], "phase": "over"}
        self.terminations = dict.fromkeys(AGENTS, True)
        self.agent_selection = DESIGNER
        self.close()

    def _show(self, agent: str, text: str) -> None:
        self._shown[agent] = Text(text[: self._observation_spaces[agent].max_length])
