"""Every setting of the method in one place: type, default, range, meaning, and where the default comes from.

The presets override these values under verl's top-level key `spade`. `SpadeConfig.from_mapping` reads that part of the
configuration and refuses an unknown key, a wrong type or a value out of range, naming the setting and what it accepts.
A source in brackets is a place in the method's paper (arXiv 2608.19197), `[5]` its Table 5; `ours` means that the paper
leaves the value open or that we depart from it on purpose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union, get_args, get_origin, get_type_hints

from spade_envs.errors import SpadeError

GAME_SKILLS = (
    "Mathematical Reasoning",
    "Logical Deduction",
    "Spatial Reasoning",
    "Pattern Recognition",
    "Optimization",
    "Causal Inference",
)
TOOL_USE_SKILLS = (
    "API Orchestration",
    "State Modification",
    "Data Retrieval",
    "Error Recovery",
    "Tool Selection",
    "Multi-Step Workflows",
)
PAPER = "[5]"


class ConfigError(SpadeError):
    """A setting that the method cannot run with."""


def option(
    default: Any,
    doc: str,
    source: str = "ours",
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a setting: its default, meaning, source and the values it accepts (bounds inclusive)."""
    metadata = {"doc": doc, "source": source, "low": low, "high": high, "choices": choices}
    if isinstance(default, tuple):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class DesignerConfig:
    """The role that writes programs and hints."""

    mode: str = option(
        "trained",
        "trained by its rewards; frozen: writes with the current weights but is not trained; external: an "
        "OpenAI-compatible endpoint writes; none: nobody writes, replays fill every step",
        "[section 3, ablations]",
        choices=("trained", "frozen", "external", "none"),
    )
    temperature: float = option(0.6, "sampling temperature of programs", PAPER, low=0.0, high=2.0)
    max_tokens: int = option(16384, "token limit of one program", PAPER, low=1)
    attempts: int = option(5, "programs tried per slot until one passes the gate", "[section 3]", low=1, high=50)
    repair_turns: int = option(
        0, "how often a rejected program is sent back with the gate's message before a fresh try", low=0, high=5
    )
    hint_temperature: float = option(0.3, "sampling temperature of hints", PAPER, low=0.0, high=2.0)
    hint_max_tokens: int = option(1024, "token limit of one hint", low=1)
    hint_attempts: int = option(2, "hints tried per program until one does not leak the solution", low=1, high=10)
    rejected_reward: float | None = option(
        None,
        "reward of a program that the gate rejects; null: the lowest reward of the range, reward.timeout",
        low=-1.0,
        high=1.0,
    )
    train_rejected: bool = option(True, "whether rejected programs are designer samples; false reproduces the paper")
    centre: str = option(
        "skill",
        "what a designer reward is compared with: the mean of the designs of its skill that are due at the same step, "
        "or the mean of all designs that are due (set)",
        "[section 3]",
        choices=("skill", "set"),
    )
    weight: float | None = option(
        None, "weight of designer samples in the update; null: (agent samples / designer samples) * k", PAPER, low=0.0
    )
    weight_cap: float = option(50.0, "upper bound of that weight", "[section 3]", low=0.0)
    max_turns: int = option(25, "turn limit that programs are asked for", PAPER, low=1, high=1000)
    endpoint: str | None = option(None, "base URL of the OpenAI-compatible endpoint (mode external)")
    model: str | None = option(None, "model name at the endpoint (mode external)")


@dataclass
class PlayerConfig:
    """The role that plays."""

    plays: int = option(16, "unhinted plays per environment and step (group size G)", PAPER, low=2)
    hinted_plays: int = option(
        16, "hinted plays per environment at its generation step, on the first seeds of the unhinted arm", PAPER, low=0
    )
    temperature: float = option(0.6, "sampling temperature of actions", PAPER, low=0.0, high=2.0)
    max_tokens: int = option(8192, "token limit of one action", PAPER, low=1)
    max_turns: int = option(
        25, "turn limit of a play; a program's own lower limit counts first", PAPER, low=1, high=1000
    )
    transcripts: int = option(2, "plays per environment and step whose transcript the registry keeps", low=0)


@dataclass
class RewardConfig:
    """What a designer is paid for."""

    kind: str = option(
        "blend",
        "blend: plateau and floored regret; regret: the hint gap alone; learning_potential: distance of the mean "
        "return from the skill's average; solve_rate: closeness of the win rate to one half",
        "[section 3, ablations]",
        choices=("blend", "regret", "learning_potential", "solve_rate"),
    )
    plateau_weight: float = option(0.6, "weight of the plateau in the blend", PAPER, low=0.0, high=1.0)
    regret_weight: float = option(0.4, "weight of the floored regret in the blend", PAPER, low=0.0, high=1.0)
    band_low: float = option(0.4, "lowest win rate that earns the full plateau", PAPER, low=0.0, high=1.0)
    band_high: float = option(0.6, "highest win rate that earns the full plateau", PAPER, low=0.0, high=1.0)
    ramp: float = option(0.25, "width over which the plateau falls to 0 outside the band", PAPER, low=0.0, high=1.0)
    regret_scale: float = option(0.15, "regret that earns the full regret term", PAPER, low=1e-6, high=2.0)
    regret_floor: float = option(
        0.0,
        "regret below this counts as this much in the blend; 0: a negative regret costs nothing",
        PAPER,
        low=-2.0,
        high=2.0,
    )
    timeout: float = option(-0.5, "reward of a program whose step times out in play", "[section 3]", low=-1.0, high=0.0)
    ema_fast: float = option(0.98, "weight of the newest value in the fast average", "[ablations]", low=0.0, high=1.0)
    ema_slow: float = option(0.85, "weight of the newest value in the slow average", "[ablations]", low=0.0, high=1.0)


@dataclass
class ReplayConfig:
    """Which environments of the registry come back."""

    probability: float = option(0.0, "share of the slots of a set given to replays, on average", low=0.0, high=1.0)
    score: str = option(
        "regret",
        "what makes an environment worth replaying",
        choices=("regret", "learnability", "plateau", "uniform"),
    )
    min_fill: int = option(1, "measured environments the registry must hold before replays begin", low=0)
    fill: bool = option(True, "whether replays take the slots that designs leave empty")


@dataclass
class MemoryConfig:
    """What a designer is shown of earlier designs."""

    enabled: bool = option(True, "whether the designer sees earlier environments", "[ablations]")
    capacity: int = option(200, "newest environments that count as memory", PAPER, low=1)
    seeds: int = option(2, "high-regret programs shown", "[section 3]", low=0, high=10)
    negatives: int = option(1, "environments named as too easy or too hard", "[section 3]", low=0, high=10)


@dataclass
class CorpusConfig:
    """The documents that ground designs."""

    enabled: bool = option(True, "whether a designer prompt carries a document", "[ablations]")
    path: str | None = option(
        None, "JSON Lines, parquet, a folder of text files, or `registry`; null: the corpus that comes with the package"
    )
    max_words: int = option(6000, "words of a document that are shown", "[section 3]", low=1)


@dataclass
class SpadeConfig:
    """The whole method."""

    seed: int = option(0, "seed of every choice of a run", low=0)
    registry: str | None = option(None, "registry file; null: $SPADE_REGISTRY or the user's data directory")
    run: int | None = option(None, "the run's number in the registry; null starts one", low=1)
    directory: str | None = option(None, "folder of the run; null: verl's trainer.default_local_dir")
    preset: str = option("custom", "name of the preset, for the record")
    prompts: str = option("default", "template variant of all prompts")
    kind: str = option(
        "game", "kind of program that is asked for; any other is rejected", "[section 3]", choices=("game", "tool_use")
    )
    skills: list[str] = option(GAME_SKILLS, "skills, in the order in which they take turns", "[section 3]")  # noqa: RUF009
    active_skills: int = option(3, "skills of one set of environments", "[section 3]", low=1)
    environments_per_skill: int = option(8, "environments per skill of a set", PAPER, low=1)
    interval: int = option(4, "steps between two sets of environments (k)", PAPER, low=1)
    delay: int | None = option(None, "steps a designer sample is held back; null: k", PAPER, low=0)
    updates_per_step: int = option(1, "optimizer updates a step's samples are split into", low=1)
    keep_checkpoints: int = option(2, "newest checkpoints that are kept", low=1)
    designer: DesignerConfig = field(default_factory=DesignerConfig)
    player: PlayerConfig = field(default_factory=PlayerConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)

    @classmethod
    def from_mapping(cls, values: Any) -> SpadeConfig:
        """Build and validate the configuration from nested mappings. Raises `ConfigError`."""
        config = _build(cls, values, "spade")
        config.validate()
        return config

    @property
    def delay_steps(self) -> int:
        """Steps between a program's design and the update that rewards it."""
        return self.interval if self.delay is None else self.delay

    @property
    def environments(self) -> int:
        """Environments of one set."""
        return self.active_skills * self.environments_per_skill

    @property
    def rejected_reward(self) -> float:
        """Reward of a program that the gate rejects."""
        given = self.designer.rejected_reward
        return self.reward.timeout if given is None else given

    def validate(self) -> None:
        """Raise `ConfigError` for values that contradict one another."""
        if not self.skills or len(set(self.skills)) != len(self.skills):
            raise ConfigError(f"spade.skills must name at least one skill, each once; got {self.skills}")
        if self.active_skills > len(self.skills):
            raise ConfigError(
                f"spade.active_skills must be at most the number of skills, {len(self.skills)}; "
                f"got {self.active_skills}"
            )
        if self.reward.band_low > self.reward.band_high:
            raise ConfigError(
                "spade.reward.band_low must not be above spade.reward.band_high; "
                f"got {self.reward.band_low} and {self.reward.band_high}"
            )
        if self.player.hinted_plays > self.player.plays:
            raise ConfigError(
                "spade.player.hinted_plays must be at most spade.player.plays, because both arms play the same seeds; "
                f"got {self.player.hinted_plays} and {self.player.plays}"
            )
        if self.designer.mode == "trained" and self.designer.temperature != self.player.temperature:
            raise ConfigError(
                "spade.designer.temperature must equal spade.player.temperature while the designer is trained, because "
                "verl computes all log-probabilities of an update at one temperature; "
                f"got {self.designer.temperature} and {self.player.temperature}"
            )
        if self.designer.mode == "external" and not (self.designer.endpoint and self.designer.model):
            raise ConfigError("spade.designer.mode=external needs spade.designer.endpoint and spade.designer.model")


@dataclass(frozen=True)
class Setting:
    """One documented setting."""

    name: str
    type: str
    default: Any
    accepts: str
    doc: str
    source: str


def settings(cls: type = SpadeConfig, prefix: str = "spade") -> Iterator[Setting]:
    """Yield every setting in order, for the documentation and its tests."""
    hints = get_type_hints(cls)
    for item in dataclasses.fields(cls):
        name = f"{prefix}.{item.name}"
        if dataclasses.is_dataclass(hints[item.name]):
            yield from settings(hints[item.name], name)
            continue
        made = item.default_factory
        default = item.default if made is dataclasses.MISSING else made()
        kind = _type_name(hints[item.name])
        yield Setting(name, kind, default, _accepts(item), item.metadata["doc"], item.metadata["source"])


def _build(cls: Any, values: Any, prefix: str) -> Any:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{prefix} must be a mapping of settings; got {values!r}")
    hints = get_type_hints(cls)
    known = {item.name: item for item in dataclasses.fields(cls)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ConfigError(f"there is no setting {prefix}.{unknown[0]}; {prefix} has {', '.join(known)}")
    arguments = {}
    for name, value in values.items():
        if dataclasses.is_dataclass(hints[name]):
            arguments[name] = _build(hints[name], {} if value is None else value, f"{prefix}.{name}")
        else:
            arguments[name] = _check(known[name], hints[name], value, f"{prefix}.{name}")
    return cls(**arguments)


def _check(item: dataclasses.Field, kind: Any, value: Any, name: str) -> Any:
    """Return `value` with the declared type, or raise `ConfigError` with what the setting accepts."""
    refusal = ConfigError(f"{name} must be {_type_name(kind)}{_accepts(item, ' ')}; got {value!r}")
    optional = get_origin(kind) is not None and type(None) in get_args(kind)
    base = next(iter(set(get_args(kind)) - {type(None)})) if optional else kind
    if value is None:
        if optional:
            return None
        raise refusal
    if get_origin(base) is list:
        if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
            raise refusal
        return list(value)
    if base is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not base or value != value:
        raise refusal
    low, high, choices = (item.metadata[key] for key in ("low", "high", "choices"))
    if (low is not None and value < low) or (high is not None and value > high) or (choices and value not in choices):
        raise refusal
    return value


def _type_name(kind: Any) -> str:
    if get_origin(kind) in (Union, type(int | None)):
        return " or ".join("null" if one is type(None) else _type_name(one) for one in get_args(kind))
    if get_origin(kind) is list:
        return "a list of strings"
    return {int: "an integer", float: "a number", bool: "true or false", str: "a string"}[kind]


def _accepts(item: dataclasses.Field, lead: str = "") -> str:
    low, high, choices = (item.metadata[key] for key in ("low", "high", "choices"))
    if choices:
        return f"{lead}out of {', '.join(choices)}"
    if low is None and high is None:
        return ""
    if high is None:
        return f"{lead}of at least {low:g}"
    if low is None:
        return f"{lead}of at most {high:g}"
    return f"{lead}in [{low:g}, {high:g}]"
