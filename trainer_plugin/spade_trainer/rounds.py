"""The round of the method, without a framework: what to design and play at a step, and what everything was worth.

The trainer asks for jobs and play groups, has them generated, hands the results back, and gets rewards for the
designer samples that are due. All state that outlives a step is here and can be saved: the set of environments,
samples that wait for their reward, running means per skill. Random choices follow from the run's seed and the step.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

from spade_trainer.config import SpadeConfig
from spade_trainer.design import Design, Job
from spade_trainer.method import rewards, schedule, seeding
from spade_trainer.method.advantages import RunningMean, centre, role_weight
from spade_trainer.method.rewards import Result, SkillAverage

Payload = TypeVar("Payload")


@dataclass
class Environment:
    """One environment of a set, with what was measured on it in its window."""

    id: str
    source: str
    skill: str
    hint: str | None = None
    max_turns: int | None = None
    fresh: bool = True
    """Designed for this set, not replayed."""
    regret: float | None = None
    unhinted: list[Result] = field(default_factory=list)
    hinted: list[Result] = field(default_factory=list)

    @property
    def timed_out(self) -> bool:
        """Whether a step of the program timed out in play."""
        return any(result.outcome == "timeout" for result in (*self.unhinted, *self.hinted))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Environment:
        """Restore from `dataclasses.asdict`."""
        plays = {arm: [Result(**result) for result in data[arm]] for arm in ("unhinted", "hinted")}
        return cls(**{**data, **plays})


@dataclass(frozen=True)
class PlayGroup:
    """The plays of one arm of one environment at a step."""

    environment: Environment
    seeds: tuple[int, ...]
    hinted: bool


@dataclass(frozen=True)
class Played:
    """One finished play."""

    environment: str
    hinted: bool
    result: Result
    turns: int
    tokens: int
    seconds: float
    fault: str | None = None
    transcript: str | None = None

    @property
    def trained(self) -> bool:
        """Whether the play is part of the update: hinted plays and those that do not count never are."""
        return not self.hinted and self.result.scored


@dataclass
class Sample(Generic[Payload]):
    """One program as a training sample, with the payload that the trainer needs to train on it."""

    skill: str
    step: int
    """Step at which it was written."""
    environment: Environment | None
    """None for a program that the gate rejected."""
    payload: Payload


@dataclass(frozen=True)
class Released(Generic[Payload]):
    """A sample whose reward is known."""

    sample: Sample[Payload]
    reward: float


class Round(Generic[Payload]):
    """The state of a run between steps, and the decisions at a step."""

    def __init__(self, config: SpadeConfig):
        self.config = config
        self.environments: list[Environment] = []
        self.samples: schedule.HoldBack[Sample[Payload]] = schedule.HoldBack()
        self.history: dict[str, RunningMean] = {}
        self.averages: dict[str, SkillAverage] = {}

    # -- designing -----------------------------------------------------------------------------------------------

    def designs(self, step: int) -> bool:
        """Whether a new set is made at `step`."""
        return schedule.designs(step, self.config.interval)

    def skills(self, step: int) -> list[str]:
        """Return the active skills at `step`."""
        number = schedule.generation(step, self.config.interval)
        return schedule.active_skills(self.config.skills, self.config.active_skills, number)

    def slots(self, step: int) -> tuple[list[str], int]:
        """Return the skill of each slot that is designed for, and the number of slots that replays take.

        Each slot is a replay with `replay.probability`; without a designer all of them are.
        """
        skills = [skill for skill in self.skills(step) for _ in range(self.config.environments_per_skill)]
        if self.config.designer.mode == "none":
            return [], len(skills)
        draw = seeding.generator(self.config.seed, "slots", step).random(len(skills))
        designed = [skill for skill, u in zip(skills, draw, strict=True) if u >= self.config.replay.probability]
        return designed, len(skills) - len(designed)

    def new_set(self, environments: Iterable[Environment]) -> None:
        """Replace the set; a program that two slots hold is one environment."""
        by_id = {environment.id: environment for environment in environments}
        self.environments = list(by_id.values())

    def hold(self, step: int, design: Design, environment: Environment | None, payloads: Sequence[Payload]) -> None:
        """Hold back the samples of a design, one payload per attempt, until their reward is known.

        Programs that the token limit cut are no samples; rejected ones are, if the configuration says so.
        """
        held = [
            Sample(design.skill, step, environment if attempt.accepted else None, payload)
            for attempt, payload in zip(design.attempts, payloads, strict=True)
            if not attempt.cut and (attempt.accepted or self.config.designer.train_rejected)
        ]
        self.samples.hold(held, step + self.config.delay_steps)

    # -- playing -------------------------------------------------------------------------------------------------

    def plays(self, step: int) -> list[PlayGroup]:
        """Return the groups to play: each environment unhinted, and hinted too where the set is new.

        The hinted arm plays the first seeds of the unhinted one, so that regret compares like with like.
        """
        groups = []
        for environment in self.environments:
            seeds = seeding.play_seeds(self.config.seed, step, environment.id, self.config.player.plays)
            groups.append(PlayGroup(environment, tuple(seeds), hinted=False))
            n = self.config.player.hinted_plays
            if self.designs(step) and environment.hint is not None and n:
                groups.append(PlayGroup(environment, tuple(seeds[:n]), hinted=True))
        return groups

    def take_plays(self, step: int, plays: Sequence[Played]) -> None:
        """Take in the plays of a step and measure regret where both arms were played."""
        by_id = {environment.id: environment for environment in self.environments}
        now: dict[tuple[str, bool], list[Result]] = {}
        for play in plays:
            environment = by_id[play.environment]
            (environment.hinted if play.hinted else environment.unhinted).append(play.result)
            now.setdefault((play.environment, play.hinted), []).append(play.result)
        if self.designs(step):
            for environment in self.environments:
                arms = (now.get((environment.id, hinted), []) for hinted in (False, True))
                environment.regret = rewards.regret(*arms)

    # -- rewarding -----------------------------------------------------------------------------------------------

    def settle(self, step: int, *, last: bool = False) -> tuple[list[Released[Payload]], int]:
        """Return the designer samples that are due with their rewards, and how many were dropped unmeasured.

        At the last step of a run everything that waits is due: no sample is lost.
        """
        released, dropped = [], 0
        potentials: dict[int, float] = {}
        for sample in self.samples.release(step, flush=last):
            reward = self._reward(sample, potentials)
            if reward is None:
                dropped += 1
            else:
                released.append(Released(sample, reward))
        return released, dropped

    def _reward(self, sample: Sample[Payload], potentials: dict[int, float]) -> float | None:
        environment = sample.environment
        if environment is None:
            return self.config.rejected_reward
        mean = rewards.mean_return(environment.unhinted)
        if id(environment) not in potentials and mean is not None:
            average = self.averages.setdefault(sample.skill, SkillAverage())
            config = self.config.reward
            potentials[id(environment)] = average.update(mean, config.ema_fast, config.ema_slow)
        return rewards.designer_reward(
            self.config.reward,
            rate=rewards.win_rate(environment.unhinted),
            gap=environment.regret,
            potential=potentials.get(id(environment), 0.0),
            timed_out=environment.timed_out,
        )

    def credit(self, released: Sequence[Released[Payload]], agent_samples: int) -> tuple[list[float], float]:
        """Return the weighted advantage of each released sample, and the weight of the designer's role."""
        values = [one.reward for one in released]
        skills = [one.sample.skill for one in released]
        groups = skills if self.config.designer.centre == "skill" else ["all"] * len(skills)
        centred = centre(values, groups, self.history)
        for group in dict.fromkeys(groups):
            past = self.history.setdefault(group, RunningMean())
            past.add([value for value, of in zip(values, groups, strict=True) if of == group])
        designer = self.config.designer
        weight = designer.weight
        if weight is None:
            weight = role_weight(agent_samples, len(released), self.config.interval, designer.weight_cap)
        return [weight * value for value in centred], weight

    # -- state ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything that outlives a step as plain data around the payloads."""
        owners: list[Environment] = list(self.environments)
        waiting = []
        for due, sample in self.samples.waiting:
            place = None
            if sample.environment is not None:
                place = next((i for i, one in enumerate(owners) if one is sample.environment), None)
                if place is None:
                    place = len(owners)
                    owners.append(sample.environment)
            waiting.append((due, sample.skill, sample.step, place, sample.payload))
        return {
            "environments": [asdict(one) for one in owners],
            "active": len(self.environments),
            "waiting": waiting,
            "history": {skill: asdict(mean) for skill, mean in self.history.items()},
            "averages": {skill: asdict(average) for skill, average in self.averages.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        owners = [Environment.from_dict(data) for data in state["environments"]]
        self.environments = owners[: state["active"]]
        self.samples.load_state_dict(
            [
                (due, Sample(skill, step, None if place is None else owners[place], payload))
                for due, skill, step, place, payload in state["waiting"]
            ]
        )
        self.history = {skill: RunningMean(**data) for skill, data in state["history"].items()}
        self.averages = {skill: SkillAverage(**data) for skill, data in state["averages"].items()}


LEARNABLE = (0.2, 0.8)  # win rates that leave something to learn (method.md, "Environment quality over the run")


def play_metrics(environments: Sequence[Environment], plays: Sequence[Played]) -> dict[str, float]:
    """Return the players' metrics of a step."""
    metrics: dict[str, float] = {"spade/player/environments": len(environments), "spade/player/plays": len(plays)}
    for arm, suffix in ((False, ""), (True, "_hinted")):
        results = [play.result for play in plays if play.hinted is arm]
        _put(metrics, f"spade/player/win_rate{suffix}", rewards.win_rate(results))
        _put(metrics, f"spade/player/return{suffix}", rewards.mean_return(results))
    for outcome in ("cut", "faulty", "timeout"):
        metrics[f"spade/player/{outcome}"] = sum(play.result.outcome == outcome for play in plays)
    if plays:
        metrics["spade/player/turns"] = statistics.fmean(play.turns for play in plays)
        metrics["spade/player/tokens"] = statistics.fmean(play.tokens for play in plays)
    rates, levels = [], []
    for environment in environments:
        own = [play.result for play in plays if play.environment == environment.id and not play.hinted]
        rate = rewards.win_rate(own)
        if rate is not None:
            rates.append(rate)
            levels.append(len({result.ret for result in own if result.scored}))
    if rates:
        low, high = LEARNABLE
        metrics["spade/player/learnable_share"] = sum(low <= rate <= high for rate in rates) / len(rates)
        metrics["spade/player/spread_share"] = sum(level > 1 for level in levels) / len(levels)
        metrics["spade/player/reward_levels"] = statistics.fmean(levels)
    for skill in dict.fromkeys(environment.skill for environment in environments):
        ids = {environment.id for environment in environments if environment.skill == skill}
        results = [play.result for play in plays if play.environment in ids and not play.hinted]
        _put(metrics, f"spade/skill/{slug(skill)}/win_rate", rewards.win_rate(results))
    return metrics


def design_metrics(designs: Sequence[Design], environments: Sequence[Environment]) -> dict[str, float]:
    """Return the designer's metrics of a step that designs; call it when regret has been measured."""
    attempts = [attempt for design in designs for attempt in design.attempts]
    accepted = [attempt for attempt in attempts if attempt.accepted]
    metrics: dict[str, float] = {
        "spade/designer/written": len(attempts),
        "spade/designer/accepted": len(accepted),
        "spade/designer/repaired": sum(bool(attempt.changes) for attempt in accepted),
        "spade/designer/distinct": len({attempt.source for attempt in accepted}),
        "spade/designer/hints_refused": sum(design.hint_leak is not None for design in designs),
        "spade/replay/environments": sum(not environment.fresh for environment in environments),
    }
    if attempts:
        metrics["spade/designer/acceptance"] = len(accepted) / len(attempts)
    for attempt in attempts:
        if attempt.stage is not None:
            name = f"spade/designer/rejected/{attempt.stage}"
            metrics[name] = metrics.get(name, 0) + 1
    gaps = [one.regret for one in environments if one.fresh and one.regret is not None]
    if gaps:
        metrics["spade/designer/regret"] = statistics.fmean(gaps)
        metrics["spade/designer/regret_floored_share"] = sum(gap <= 0 for gap in gaps) / len(gaps)
    for skill in dict.fromkeys(environment.skill for environment in environments):
        own = [one.regret for one in environments if one.skill == skill and one.regret is not None]
        _put(metrics, f"spade/skill/{slug(skill)}/regret", statistics.fmean(own) if own else None)
    return metrics


def slug(skill: str) -> str:
    """Return a skill's name as part of a metric's name."""
    return "_".join(skill.lower().replace("-", " ").split())


def _put(metrics: dict[str, float], name: str, value: float | None) -> None:
    if value is not None:
        metrics[name] = value


__all__ = ["Environment", "Job", "PlayGroup", "Played", "Released", "Round", "Sample", "design_metrics", "play_metrics"]
